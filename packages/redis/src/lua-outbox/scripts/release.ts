import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Gives back what is still held, as it was before the claim.
 *
 *     KEYS: those of a shard
 *     ARGV: ids; tokens, or one for all
 *     gives: the places of those that were lost, from 0
 *     writes: of each ready or waiting, state; inflight; counts
 */
export const releaseScript: OutboxScript = outboxScript(
  'release',
  `${shardLua}
local ids = split(ARGV[1])
local tokens, several = split(ARGV[2])
local found, lost, done, seen = fetch(state, ids), {}, {}, {}
open()
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if s and s.status == 'O' and s.token == (several == 1 and tokens[1] or tokens[i]) and s.expires > now and not seen[id] then
    seen[id] = true
    s.attempts, s.expires, s.token = s.attempts - 1, 0, ''
    await(id, s)
    redis.call('HSET', state, id, ackord.write(s))
    ackord.count(s.lane, 'i', -1)
    done[#done + 1] = id
  else
    lost[#lost + 1] = i - 1
  end
end
remove('ZREM', inflight, done)
ackord.flush(1)
return lost`,
)
