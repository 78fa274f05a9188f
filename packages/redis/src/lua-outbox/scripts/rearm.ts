import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Makes parked records ready again, with no attempts counted.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     gives: how many it was
 *     writes: of each ready, index, state; counts; the hint
 */
export const rearmScript: OutboxScript = outboxScript(
  'rearm',
  `${shardLua}
local found, seen, count = fetch(state, ARGV), {}, 0
open()
for i, id in ipairs(ARGV) do
  local s = ackord.read(found[i])
  if s and s.status == 'F' and not seen[id] then
    seen[id] = true
    s.status, s.attempts, s.at = 'O', 0, now
    redis.call('ZADD', ready, 0, member(id, s))
    redis.call('ZADD', index, 0, 'o' .. s.seq .. id)
    redis.call('HSET', state, id, ackord.write(s))
    redis.call('ZREM', index, 'f' .. s.seq .. id)
    ackord.count(s.lane, 'f', -1)
    ackord.count(s.lane, 'o', 1)
    count = count + 1
  end
end
ackord.flush(1)
if count > 0 then redis.call('XADD', wake, 'MAXLEN', 1, '*', 'n', count) end
return count`,
)
