import { type Script, script } from '../client/port.ts'

/**
 * What became of a commit that was not answered. KEYS: the marker. ARGV: token, rule, how long to fence. If it has not come yet, it is
 * refused from now on: to look and then to delete would let it through in between.
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

/** KEYS: any. What each holds, as a text of its own; '' where there is nothing. */
export const fingerprintScript: Script = script(`
local prints = {}
for n = 1, #KEYS do
  local held = redis.call('DUMP', KEYS[n])
  prints[n] = held and redis.sha1hex(held) or ''
end
return prints`)
