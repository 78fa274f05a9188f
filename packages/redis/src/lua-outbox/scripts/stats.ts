import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Counts records by destination and state. Writes nothing. Beyond 1,000 each, those whose time has come and those whose lease has run out count as waiting
 * and as leased, until a claim has moved them.
 *
 *     KEYS: those of a shard
 *     ARGV: none
 *     gives: the age of the oldest open one in milliseconds, or -1; then of each destination its name and how many are ready, waiting, leased, parked, published
 */
export const statsScript: OutboxScript = outboxScript(
  'stats',
  `${shardLua}
local due, over = {}, {}
for _, one in ipairs(redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, 1000)) do
  local lane = string.sub(one, 1, 8)
  due[lane] = (due[lane] or 0) + 1
end
for _, text in ipairs(fetch(state, redis.call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, 1000))) do
  local s = ackord.read(text)
  if s then over[s.lane] = (over[s.lane] or 0) + 1 end
end
local counted = {}
local flat = redis.call('HGETALL', counts)
for i = 1, #flat, 2 do counted[flat[i]] = tonumber(flat[i + 1]) or 0 end
local first = redis.call('ZRANGEBYLEX', index, '[o', '(p', 'LIMIT', 0, 1)[1]
local oldest = first and ackord.read(redis.call('HGET', state, string.sub(first, 18)))
local reply = { oldest and math.max(0, now - tonumber(oldest.created)) or -1 }
local names = redis.call('HGETALL', destinations)
for i = 1, #names, 2 do
  local lane = names[i]
  local opened, leased = counted[lane .. 'o'] or 0, counted[lane .. 'i'] or 0
  local parked, published = counted[lane .. 'f'] or 0, counted[lane .. 's'] or 0
  if opened + parked + published > 0 then
    local late = over[lane] or 0
    local unclaimed = redis.call('ZLEXCOUNT', ready, '[' .. lane, '(' .. lane .. '~') + (due[lane] or 0)
    reply[#reply + 1] = { names[i + 1], unclaimed + late, math.max(0, opened - leased - unclaimed), math.max(0, leased - late), parked, published }
  end
end
return reply`,
)
