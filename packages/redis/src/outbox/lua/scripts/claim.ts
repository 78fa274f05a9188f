import { claimLua, destinationsLua, oldestLua } from './claim-fragment.ts'
import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/**
 * Leases records. Before that it moves due records, and those with an expired lease, to `ready`. Records that cannot be claimed are removed from
 * the indexes that claims read: a record without a body or a valid state is parked, a member without a record is removed.
 *
 *     KEYS: those of a shard
 *     ARGV: limit, lease, token, class ('f', 'r' or 'fr'), how many further records to read, 'all', 'only' or 'except', destination hashes, the one to begin behind,
 *           the most bytes of all bodies together, '1' if the first record is claimed even if it is larger
 *     returns: the destination to begin behind next time; '1' if there may be more that it did not read; the number of removed members; the number
 *            of parked records; the bytes of all bodies; '1' if it stopped before a record that was too large; the time; then for each record id, body, attempts,
 *            created and seq
 *     writes: for each inflight, state, then out of ready; counts
 */
export const claimScript: OutboxScript = outboxScript(
  'claim',
  `${shardLua}
do
  local problem = ackord.mismatch(1, false)
  if problem then return redis.error_reply(problem) end
end
local limit, lease, token, classes, budget = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
${claimLua}

-- Records whose lease has expired.
local expired = redis.call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, budget)
local found = fetch(state, expired)
for i, id in ipairs(expired) do
  local s = ackord.read(found[i])
  if s and s.status == 'O' then
    if s.token ~= '' then ackord.count(s.destinationHash, 'i', -1) end
    s.expires, s.token = 0, ''
    redis.call('ZADD', ready, 0, member(id, s))
    redis.call('HSET', state, id, ackord.write(s))
  else
    removed = removed + 1
  end
end
remove('ZREM', inflight, expired)
if #due == budget or #expired == budget then more = '1' end

local known = 'fr'
${destinationsLua}

local reply, count, looked, bytes, full = { cursor, more, 0, 0, 0, '0', now }, 0, 0, 0, false
${oldestLua}
-- The length of a body is known before the body is read, so that only claimed bodies are in memory.
local function take(destinationHash, most)
  local page, ids = first(destinationHash, most, classes), {}
  for i, one in ipairs(page) do ids[i] = string.sub(one, 26) end
  local states, given = fetch(state, ids), {}
  for i, id in ipairs(ids) do
    local s, size = ackord.read(states[i]), redis.call('HSTRLEN', entries, id)
    if s and s.status == 'O' and s.token == '' and member(id, s) == page[i] then
      if size == 0 then
        park(id, s, 'It cannot be read: its body is missing.')
      elseif bytes + size > maxBytes and (count > 0 or not atLeastOne) then
        full = true
        for last = #page, i, -1 do page[last] = nil end
        break
      else
        s.attempts, s.expires, s.token = s.attempts + 1, now + lease, token
        redis.call('ZADD', inflight, s.expires, id)
        redis.call('HSET', state, id, ackord.write(s))
        ackord.count(s.destinationHash, 'i', 1)
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = id, false, s.attempts, s.created, s.seq
        given[#given + 1] = id
        count, bytes = count + 1, bytes + size
      end
    elseif size > 0 and not (s and statuses[s.status]) then
      s = { attempts = 0, seq = seqOf(page[i]), created = string.format('%.0f', now), destinationHash = destinationHash, print = '-' }
      park(id, s, 'It cannot be read: its state is missing or broken.')
    else
      removed = removed + 1
    end
  end
  for i, body in ipairs(fetch(entries, given)) do reply[#reply - 5 * (#given - i) - 3] = body end
  remove('ZREM', ready, page)
  looked = looked + #page
  return #page == most, #page > 0
end
-- In shares, so that no destination waits for the others; what some do not use is for those that have more.
local share = math.max(1, math.floor(limit / math.max(1, #serving)))
while #serving > 0 and count < limit and not full do
  local left = {}
  for _, destinationHash in ipairs(serving) do
    if count >= limit then break end
    if looked >= limit + budget then
      more = '1'
      left = {}
      break
    end
    local isMore, hasTaken = take(destinationHash, math.min(share, limit - count))
    if isMore then left[#left + 1] = destinationHash end
    -- A destination whose first record did not fit is the first one of the next claim.
    if hasTaken or not full then reply[1] = destinationHash end
    if full then break end
  end
  serving = left
end
ackord.flush(1)
reply[2], reply[3], reply[4], reply[5], reply[6] = more, removed, parked, bytes, full and '1' or '0'
return reply`,
)
