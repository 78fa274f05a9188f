import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/**
 * Reads records by their ids. Writes nothing.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     returns: the time; then for each its id, state, body and error
 */
export const getScript: OutboxScript = outboxScript(
  'get',
  `${shardLua}
local states, bodies, texts = fetch(state, ARGV), fetch(entries, ARGV), fetch(errors, ARGV)
local reply = { string.format('%.0f', now) }
for i, id in ipairs(ARGV) do reply[i + 1] = { id, states[i], bodies[i], texts[i] } end
return reply`,
)

/**
 * Reads records in the order in which they were stored. Writes nothing.
 *
 *     KEYS: those of a shard
 *     ARGV: the letter of their status, the seq behind which to begin, or '', how many
 *     returns: the time; then for each its member of the index, state, body and error
 */
export const listScript: OutboxScript = outboxScript(
  'list',
  `${shardLua}
local after = ARGV[2] == '' and '[' .. ARGV[1] or '(' .. ARGV[1] .. ARGV[2] .. '~'
local members = redis.call('ZRANGEBYLEX', index, after, '(' .. ARGV[1] .. '~', 'LIMIT', 0, ARGV[3])
local ids = {}
for i, one in ipairs(members) do ids[i] = string.sub(one, 18) end
local states, bodies, texts = fetch(state, ids), fetch(entries, ids), fetch(errors, ids)
local reply = { string.format('%.0f', now) }
for i, one in ipairs(members) do reply[i + 1] = { one, states[i], bodies[i], texts[i] } end
return reply`,
)

/**
 * Counts records by destination and state. Writes nothing. Beyond 1,000 each, due records and those with an expired lease count as waiting
 * and as leased, until a claim has moved them.
 *
 *     KEYS: those of a shard
 *     ARGV: none
 *     returns: the age of the oldest open one in milliseconds, or -1; then for each destination its name and the numbers of ready, waiting, leased, parked and published records
 */
export const statsScript: OutboxScript = outboxScript(
  'stats',
  `${shardLua}
local due, over = {}, {}
for _, one in ipairs(redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, 1000)) do
  local destinationHash = string.sub(one, 1, 8)
  due[destinationHash] = (due[destinationHash] or 0) + 1
end
for _, text in ipairs(fetch(state, redis.call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, 1000))) do
  local s = ackord.read(text)
  if s then over[s.destinationHash] = (over[s.destinationHash] or 0) + 1 end
end
local counted = {}
local flat = redis.call('HGETALL', counts)
for i = 1, #flat, 2 do counted[flat[i]] = tonumber(flat[i + 1]) or 0 end
local first = redis.call('ZRANGEBYLEX', index, '[o', '(p', 'LIMIT', 0, 1)[1]
local oldest = first and ackord.read(redis.call('HGET', state, string.sub(first, 18)))
local reply = { oldest and math.max(0, now - tonumber(oldest.created)) or -1 }
local names = redis.call('HGETALL', destinations)
for i = 1, #names, 2 do
  local destinationHash = names[i]
  local opened, leased = counted[destinationHash .. 'o'] or 0, counted[destinationHash .. 'i'] or 0
  local parked, published = counted[destinationHash .. 'f'] or 0, counted[destinationHash .. 's'] or 0
  if opened + parked + published > 0 then
    local late = over[destinationHash] or 0
    local unclaimed = redis.call('ZLEXCOUNT', ready, '[' .. destinationHash, '(' .. destinationHash .. '~') + (due[destinationHash] or 0)
    local inFlight = math.max(0, leased - late)
    local wait = math.max(0, opened - leased - unclaimed)
    -- With order per key records have no leases: those in flight are shown with their state before the claim.
    if ackord.ordered(1) then late, inFlight = late + inFlight, 0 end
    reply[#reply + 1] = { names[i + 1], unclaimed + late, wait, inFlight, parked, published }
  end
end
return reply`,
)
