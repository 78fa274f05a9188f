import { type Script, script } from './script.ts'

/**
 * Takes the lease on each message that nobody has.
 *
 *     KEYS: markers. ARGV: lease, then the token for each; a lease of 0 only looks
 *
 * The answer to each: '+' if it is ours, '' if nobody has it, '=' and the rest of the lease and what the marker holds, '-' and an error.
 */
export const beginScript: Script = script(`
local lease, answers = ARGV[1], {}
for n = 1, #KEYS do
  local taken = lease ~= '0' and redis.pcall('SET', KEYS[n], ARGV[n + 1], 'NX', 'PX', lease)
  if taken and taken.ok then answers[n] = '+'
  elseif taken and taken.err then answers[n] = '-' .. taken.err
  else
    local held = redis.pcall('GET', KEYS[n])
    if type(held) == 'table' then answers[n] = '-' .. held.err
    elseif not held then answers[n] = ''
    elseif held == ARGV[n + 1] then answers[n] = '+'
    else answers[n] = '=' .. redis.call('PTTL', KEYS[n]) .. ' ' .. held end
  end
end
return answers`)

/** KEYS: markers. ARGV: lease, then the token for each. 1 for each that was still held, 0 for the others. A marker that is done keeps its own time. */
export const renewScript: Script = script(`
local answers = {}
for n = 1, #KEYS do
  answers[n] = redis.pcall('GET', KEYS[n]) == ARGV[n + 1] and redis.call('PEXPIRE', KEYS[n], ARGV[1]) or 0
end
return answers`)

/** KEYS: a marker. ARGV: its token. Gives the lease up if it is still held. */
export const releaseScript: Script = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

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
