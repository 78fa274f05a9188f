import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Leases records that may be claimed. Before that it moves those to `ready` whose time has come and whose lease has run out. What cannot be given leaves
 * the indexes that claims look at: a record without a body or a readable state is parked, a member without a record is removed.
 *
 *     KEYS: those of a shard
 *     ARGV: limit, lease, token, class ('f', 'r' or 'fr'), how many to look at besides, 'all', 'only' or 'except', lanes, the lane to begin behind
 *     gives: the lane to begin behind next time; '1' if there may be more that it did not look at; how many members were removed; how many
 *            records were parked; then id, body, attempts, created and seq of each
 *     writes: of each inflight, state, then out of ready; counts
 */
export const claimScript: OutboxScript = outboxScript(
  'claim',
  `${shardLua}
local limit, lease, token, classes, budget = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local choice, chosen, cursor = ARGV[6], {}, ARGV[8]
local lanes = split(ARGV[7])
for _, lane in ipairs(lanes) do chosen[lane] = true end
local removed, parked, more = 0, 0, '0'
local statuses = { O = true, S = true, F = true }
open()

local function park(id, s, reason)
  s.status, s.at, s.expires, s.token = 'F', now, 0, ''
  redis.call('ZADD', index, 0, 'f' .. s.seq .. id)
  redis.call('HSET', errors, id, reason)
  redis.call('HSET', state, id, ackord.write(s))
  redis.call('ZREM', index, 'o' .. s.seq .. id)
  ackord.count(s.lane, 'o', -1)
  ackord.count(s.lane, 'f', 1)
  parked = parked + 1
end

-- What waited and need not any longer.
local due = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, budget)
for _, one in ipairs(due) do redis.call('ZADD', ready, 0, one) end
remove('ZREM', waiting, due)

-- What was leased to somebody who did not settle it.
local expired = redis.call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, budget)
local found = fetch(state, expired)
for i, id in ipairs(expired) do
  local s = ackord.read(found[i])
  if s and s.status == 'O' then
    if s.token ~= '' then ackord.count(s.lane, 'i', -1) end
    s.expires, s.token = 0, ''
    redis.call('ZADD', ready, 0, member(id, s))
    redis.call('HSET', state, id, ackord.write(s))
  else
    removed = removed + 1
  end
end
remove('ZREM', inflight, expired)
if #due == budget or #expired == budget then more = '1' end

-- From lane to lane. Empty ones are never met, however many destinations there once were.
local serving, met = {}, {}
local function walk(from, last)
  while #serving < limit do
    local first = redis.call('ZRANGEBYLEX', ready, from, last, 'LIMIT', 0, 1)[1]
    if not first then return end
    local lane, class = string.sub(first, 1, 8), string.sub(first, 9, 9)
    if #first ~= 47 or not string.find(first, '^[%w_-]+$') or class ~= 'f' and class ~= 'r' then
      redis.call('ZREM', ready, first)
      removed = removed + 1
    elseif choice == 'except' and chosen[lane] then from = '(' .. lane .. '~'
    elseif string.find(classes, class, 1, true) then
      if not met[lane] then serving[#serving + 1] = lane end
      met[lane] = true
      from = '(' .. lane .. '~'
    elseif class == 'f' then from = '[' .. lane .. 'r'
    else from = '(' .. lane .. '~' end
  end
end
if choice == 'only' then
  -- Behind the one that was served last, so that each has its turn.
  local after = 0
  for i, lane in ipairs(lanes) do if lane == cursor then after = i end end
  for i = 1, #lanes do serving[i] = lanes[(after + i - 1) % #lanes + 1] end
else
  walk('(' .. cursor .. '~', '+')
  walk('-', '[' .. cursor .. '~')
end

local reply, count, looked = { cursor, more, 0, 0 }, 0, 0
local function seqOf(one) return string.sub(one, 10, 25) end
-- Oldest first, whether they were tried before or not.
local function first(lane, most)
  local pages, places, page = {}, {}, {}
  for class in string.gmatch(classes, '.') do
    pages[#pages + 1] = redis.call('ZRANGEBYLEX', ready, '[' .. lane .. class, '(' .. lane .. class .. '~', 'LIMIT', 0, most)
    places[#pages] = 1
  end
  while #page < most do
    local best
    for i = 1, #pages do
      local one = pages[i][places[i]]
      if one and (not best or seqOf(one) < seqOf(pages[best][places[best]])) then best = i end
    end
    if not best then break end
    page[#page + 1] = pages[best][places[best]]
    places[best] = places[best] + 1
  end
  return page
end
local function take(lane, most)
  local page, ids = first(lane, most), {}
  for i, one in ipairs(page) do ids[i] = string.sub(one, 26) end
  local states, bodies = fetch(state, ids), fetch(entries, ids)
  for i, id in ipairs(ids) do
    local text, body = states[i], bodies[i]
    local s = ackord.read(text)
    if s and s.status == 'O' and s.token == '' and member(id, s) == page[i] then
      if body then
        s.attempts, s.expires, s.token = s.attempts + 1, now + lease, token
        redis.call('ZADD', inflight, s.expires, id)
        redis.call('HSET', state, id, ackord.write(s))
        ackord.count(s.lane, 'i', 1)
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = id, body, s.attempts, s.created, s.seq
        count = count + 1
      else
        park(id, s, 'It cannot be read: its body is missing.')
      end
    elseif body and not (s and statuses[s.status]) then
      s = { attempts = 0, seq = seqOf(page[i]), created = string.format('%.0f', now), lane = lane, print = '-' }
      park(id, s, 'It cannot be read: its state is missing or broken.')
    else
      removed = removed + 1
    end
  end
  remove('ZREM', ready, page)
  looked = looked + #page
  return #page == most
end
-- In shares, so that none of many waits for the others; what some leave over is for whoever has more.
local share = math.max(1, math.floor(limit / math.max(1, #serving)))
while #serving > 0 and count < limit do
  local left = {}
  for _, lane in ipairs(serving) do
    if count >= limit then break end
    if looked >= limit + budget then
      more = '1'
      left = {}
      break
    end
    if take(lane, math.min(share, limit - count)) then left[#left + 1] = lane end
    reply[1] = lane
  end
  serving = left
end
ackord.flush(1)
reply[2], reply[3], reply[4] = more, removed, parked
return reply`,
)
