import { type Script, script } from '../client/port.ts'

/**
 * Finds out the result of a commit that was not answered. KEYS: the marker. ARGV: token, rule, how long to fence. A commit that has not arrived yet is
 * refused from now on: with separate calls to read and to delete the marker, it could arrive in between.
 */
export const resolveScript: Script = script(`
local held, token = redis.call('GET', KEYS[1]), ARGV[1]
if held == 'done:' .. token then return 'DONE' end
if held and string.sub(held, 1, #token + 9) == 'partial:' .. token .. ':' then return 'PARTIAL ' .. string.sub(held, #token + 10) end
if ARGV[2] == 'lease' then
  if held == token then redis.call('DEL', KEYS[1]) end
  return 'FENCED'
end
if ARGV[2] == 'fence' and not held then
  redis.call('SET', KEYS[1], 'void', 'PX', ARGV[3])
  return 'FENCED'
end
return 'LOST ' .. (held or '')`)

/** KEYS: any. Returns a fingerprint of each key; '' for keys that do not exist. */
export const fingerprintScript: Script = script(`
local prints = {}
for n = 1, #KEYS do
  local held = redis.call('DUMP', KEYS[n])
  prints[n] = held and redis.sha1hex(held) or ''
end
return prints`)
