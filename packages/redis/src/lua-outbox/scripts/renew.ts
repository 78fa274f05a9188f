import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Extends the leases that still hold.
 *
 *     KEYS: those of a shard
 *     ARGV: lease; ids; tokens, or one for all
 *     gives: the places of those that were lost, from 0
 *     writes: of each inflight, state
 */
export const renewScript: OutboxScript = outboxScript(
  'renew',
  `${shardLua}
local lease, ids = tonumber(ARGV[1]), split(ARGV[2])
local tokens, several = split(ARGV[3])
local found, lost = fetch(state, ids), {}
open()
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if s and s.status == 'O' and s.token == (several == 1 and tokens[1] or tokens[i]) and s.expires > now then
    s.expires = now + lease
    redis.call('ZADD', inflight, s.expires, id)
    redis.call('HSET', state, id, ackord.write(s))
  else
    lost[#lost + 1] = i - 1
  end
end
return lost`,
)
