import { type Script, script } from '../client/port.ts'

/**
 * For how many milliseconds after the end of its lease a claim stays. Until then it can be taken over, and the process that has it can still commit. Not an
 * option: all processes must use the same number, because the time that a key has left tells when its lease ends.
 */
const staysAfterLease = 86_400_000

/**
 * Claims the request of an entry.
 *
 *     KEYS: the entry
 *     ARGV: token, fingerprint, lease
 *
 * A token ends with ':' and the fingerprint. The entry holds, as the commit script writes it,
 *
 *     <token>                         running: its time left is that of the lease, and a day more
 *     done:<token> <write> <answer>   answered, by this call of write()
 *     partial:<token> <write>:<text>  a commit of which a part was carried out
 *
 * The answer is the state, and for each state a value: 'claimed'; 'running', the milliseconds until the end of the lease; 'answered', the answer; 'partial',
 * the text; 'mismatch'. Errors are returned, not thrown: before Redis 7.0 a thrown error has another text.
 */
export const claimScript: Script = script(`
local entry, token, fingerprint = KEYS[1], ARGV[1], ARGV[2]
local held = redis.pcall('GET', entry)
if type(held) == 'table' then return held end
if held and held ~= token then
  local state, from = 'running', 1
  if string.sub(held, 1, 5) == 'done:' then state, from = 'answered', 6
  elseif string.sub(held, 1, 8) == 'partial:' then state, from = 'partial', 9 end
  local found, rest = string.match(held, '^[^:]+:([%w_-]+) ?[^ :]*()', from)
  if found ~= fingerprint then return { 'mismatch' } end
  if state ~= 'running' then return { state, string.sub(held, rest + 1) } end
  local remaining = redis.call('PTTL', entry) - ${staysAfterLease}
  if remaining > 0 then return { 'running', remaining } end
end
local taken = redis.pcall('SET', entry, token, 'PX', ARGV[3] + ${staysAfterLease})
if taken.err then return taken end
return { 'claimed' }`)
