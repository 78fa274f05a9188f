import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Makes a parked record ready again with another body, if nothing was done to it since it was read.
 *
 *     KEYS: those of a shard
 *     ARGV: id, the text of its state as it was read, body, lane, destination
 *     gives: 1, or 0 if it is another one by now
 *     writes: body, ready, index, state; counts; the hint
 */
export const replaceScript: OutboxScript = outboxScript(
  'replace',
  `${shardLua}
local id, text, body, lane, name = unpack(ARGV)
local s = redis.call('HGET', state, id) == text and ackord.read(text)
if not s or s.status ~= 'F' then return 0 end
local known = redis.call('HGET', destinations, lane)
if known and known ~= name then return redis.error_reply('ERR two destinations of an outbox have the same digest: ' .. known .. ', ' .. name) end
ackord.count(s.lane, 'f', -1)
ackord.count(lane, 'o', 1)
s.status, s.attempts, s.at, s.lane = 'O', 0, now, lane
redis.call('HSET', entries, id, body)
redis.call('HSETNX', destinations, lane, name)
redis.call('ZADD', ready, 0, member(id, s))
redis.call('ZADD', index, 0, 'o' .. s.seq .. id)
redis.call('HSET', state, id, ackord.write(s))
redis.call('ZREM', index, 'f' .. s.seq .. id)
ackord.flush(1)
redis.call('XADD', wake, 'MAXLEN', 1, '*', 'n', 1)
return 1`,
)
