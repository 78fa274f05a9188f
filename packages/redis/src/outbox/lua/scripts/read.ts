import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/** `headOf(body)`: a body without its data, which is behind the attributes. */
const headLua = `local function headOf(body)
  local digits = body and string.match(body, '^(%d+);')
  return digits and string.sub(body, 1, #digits + 1 + tonumber(digits)) or body
end`

/**
 * Reads records by their ids. Writes nothing.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     returns: the time; then for each its id, state, body and failures
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
 *     ARGV: the letter of their status, the seq behind which to begin, or '', how many, '1' if bodies have their data
 *     returns: the time; then for each its member of the index, state, body and failures
 */
export const listScript: OutboxScript = outboxScript(
  'list',
  `${shardLua}
${headLua}
local after = ARGV[2] == '' and '[' .. ARGV[1] or '(' .. ARGV[1] .. ARGV[2] .. '~'
local members = redis.call('ZRANGEBYLEX', index, after, '(' .. ARGV[1] .. '~', 'LIMIT', 0, ARGV[3])
local ids = {}
for i, one in ipairs(members) do ids[i] = string.sub(one, 18) end
local states, bodies, texts = fetch(state, ids), fetch(entries, ids), fetch(errors, ids)
local reply = { string.format('%.0f', now) }
for i, one in ipairs(members) do reply[i + 1] = { one, states[i], ARGV[4] == '1' and bodies[i] or headOf(bodies[i]), texts[i] } end
return reply`,
)

/**
 * Counts records by destination and state. Writes nothing. Beyond 1,000 each, due records and those with an expired lease count as waiting
 * and as leased, until a claim has moved them. The age of a destination is exact if its oldest open record is among the first 1,000 of the shard; else it
 * is the oldest of its ready records, and of the first 1,000 each that wait and are leased.
 *
 *     KEYS: those of a shard
 *     ARGV: none
 *     returns: the age of the oldest open one in milliseconds, or -1; then for each destination its name and the numbers of ready, waiting, leased, parked and published records, and the age of its oldest open one, or -1
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
local names = redis.call('HGETALL', destinations)
local ages, wanted, missing, oldest = {}, {}, 0, -1
for i = 1, #names, 2 do
  if (counted[names[i] .. 'o'] or 0) > 0 then wanted[names[i]], missing = true, missing + 1 end
end
local function see(ids)
  for _, text in ipairs(fetch(state, ids)) do
    local s = ackord.read(text)
    if s and s.status == 'O' then
      local age, known = math.max(0, now - tonumber(s.created)), ages[s.destinationHash]
      if wanted[s.destinationHash] then wanted[s.destinationHash], missing = nil, missing - 1 end
      if not known or age > known then ages[s.destinationHash] = age end
      if age > oldest then oldest = age end
    end
  end
end
local after, seen = '[o', 0
repeat
  local page = redis.call('ZRANGEBYLEX', index, after, '(p', 'LIMIT', 0, 100)
  local ids = {}
  for i, one in ipairs(page) do ids[i] = string.sub(one, 18) end
  see(ids)
  after, seen = '(' .. (page[#page] or ''), seen + #page
until #page < 100 or missing <= 0 or seen >= 1000
if missing > 0 and seen >= 1000 then
  local ids = redis.call('ZRANGEBYSCORE', inflight, '-inf', '+inf', 'LIMIT', 0, 1000)
  for _, one in ipairs(redis.call('ZRANGEBYSCORE', waiting, '-inf', '+inf', 'LIMIT', 0, 1000)) do ids[#ids + 1] = string.sub(one, 26) end
  for destinationHash in pairs(wanted) do
    for _, class in ipairs({ 'f', 'k', 'r' }) do
      local start = destinationHash .. class
      local head = redis.call('ZRANGEBYLEX', ready, '[' .. start, '(' .. start .. '~', 'LIMIT', 0, 1)[1]
      if head then ids[#ids + 1] = string.sub(head, 26) end
    end
  end
  see(ids)
end
local reply = { oldest }
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
    reply[#reply + 1] = { names[i + 1], unclaimed + late, wait, inFlight, parked, published, ages[destinationHash] or -1 }
  end
end
return reply`,
)
