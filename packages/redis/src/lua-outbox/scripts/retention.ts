import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Removes published records that are old enough, found by when they were published.
 *
 *     KEYS: those of a shard
 *     ARGV: milliseconds, limit
 *     gives: how many it removed, and how many it looked at
 *     writes: state, body, error, index, sent; counts
 */
export const retentionScript: OutboxScript = outboxScript(
  'retention',
  `${shardLua}
local before = now - tonumber(ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', sent, '-inf', before, 'LIMIT', 0, ARGV[2])
local found, gone, members, stale = fetch(state, ids), {}, {}, {}
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if s and s.status == 'S' and s.at <= before then
    gone[#gone + 1] = id
    members[#members + 1] = 's' .. s.seq .. id
    ackord.count(s.lane, 's', -1)
  elseif s and s.status == 'S' then redis.call('ZADD', sent, s.at, id)
  else stale[#stale + 1] = id end
end
forget(gone, members)
remove('ZREM', sent, gone)
remove('ZREM', sent, stale)
ackord.flush(1)
return { #gone, #ids }`,
)
