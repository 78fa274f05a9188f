/**
 * Common to claims with and without order. Behind `shardLua`, with `limit` and `budget`, and with ARGV from 6 on: 'all', 'only' or 'except', destination hashes, the one to begin
 * behind, the most bytes of all bodies together, '1' if the first record is claimed even if it is larger. Moves due records to `ready`.
 */
export const claimLua: string = `local choice, chosen, cursor = ARGV[6], {}, ARGV[8]
local destinationHashes = split(ARGV[7])
for _, destinationHash in ipairs(destinationHashes) do chosen[destinationHash] = true end
local maxBytes, atLeastOne = tonumber(ARGV[9]), ARGV[10] == '1'
local removed, parked, more = 0, 0, '0'
local statuses = { O = true, S = true, F = true }
open()

local function park(id, s, reason)
  s.status, s.at, s.expires, s.token = 'F', now, 0, ''
  redis.call('ZADD', index, 0, 'f' .. s.seq .. id)
  fail(id, reason)
  redis.call('HSET', state, id, ackord.write(s))
  redis.call('ZREM', index, 'o' .. s.seq .. id)
  ackord.count(s.destinationHash, 'o', -1)
  ackord.count(s.destinationHash, 'f', 1)
  parked = parked + 1
end

-- Records that waited and are due.
local due = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, budget)
for _, one in ipairs(due) do redis.call('ZADD', ready, 0, one) end
remove('ZREM', waiting, due)`

/** `serving`: the destinations to claim from, in turn. `classes` are those that are asked for, `known` all possible ones. */
export const destinationsLua: string = `-- From destinationHash to destinationHash. Empty ones are never met, however many destinations there once were.
local serving, met = {}, {}
local function walk(from, last)
  while #serving < limit do
    local first = redis.call('ZRANGEBYLEX', ready, from, last, 'LIMIT', 0, 1)[1]
    if not first then return end
    local destinationHash, class = string.sub(first, 1, 8), string.sub(first, 9, 9)
    if #first ~= 47 or not string.find(first, '^[%w_-]+$') or not string.find(known, class, 1, true) then
      redis.call('ZREM', ready, first)
      removed = removed + 1
    elseif choice == 'except' and chosen[destinationHash] then from = '(' .. destinationHash .. '~'
    elseif string.find(classes, class, 1, true) then
      if not met[destinationHash] then serving[#serving + 1] = destinationHash end
      met[destinationHash] = true
      from = '(' .. destinationHash .. '~'
    elseif class == 'f' then from = '[' .. destinationHash .. 'r'
    else from = '(' .. destinationHash .. '~' end
  end
end
if choice == 'only' then
  -- Behind the destination that was served last, so that each has its turn.
  local after = 0
  for i, destinationHash in ipairs(destinationHashes) do if destinationHash == cursor then after = i end end
  for i = 1, #destinationHashes do serving[i] = destinationHashes[(after + i - 1) % #destinationHashes + 1] end
else
  walk('(' .. cursor .. '~', '+')
  walk('-', '[' .. cursor .. '~')
end`

/** `first(destinationHash, most, classes)`: members of `ready`. */
export const oldestLua: string = `local function seqOf(one) return string.sub(one, 10, 25) end
-- Oldest first, whether they were tried before or not.
local function first(destinationHash, most, classes)
  local pages, places, page = {}, {}, {}
  for class in string.gmatch(classes, '.') do
    pages[#pages + 1] = redis.call('ZRANGEBYLEX', ready, '[' .. destinationHash .. class, '(' .. destinationHash .. class .. '~', 'LIMIT', 0, most)
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
end`

/**
 * Behind `shardLua`: which store objects poll an outbox with order per key, and which claims hold. A store object is live in `pollers` for as long as it claims or renews. One whose
 * lease has expired holds nothing, also while no other has taken over.
 *
 *     living()          the names of the live store objects
 *     ownerOf(token)    the name of the store object that claimed with this token, or nil without order per key
 *     holds(s, token)   whether a claim of this record holds
 *     lapse(id, s)      makes a record in flight claimable again; the caller removes it from inflight
 */
export const pollerLua: string = `local longestLease = 30 * 24 * 3600 * 1000
local lives
local function living()
  if lives then return lives end
  lives = {}
  local flat = redis.call('ZRANGEBYSCORE', pollers, '-inf', '+inf', 'WITHSCORES')
  for i = 1, #flat, 2 do
    local ends = tonumber(flat[i + 1])
    lives[flat[i]] = ends > now and ends <= now + longestLease or nil
  end
  return lives
end
local function ownerOf(token) return string.match(token, '^([^/]+)/') end
local function holds(s, token)
  if not s or s.status ~= 'O' or s.token == '' or s.token ~= token then return false end
  local owner = ownerOf(token)
  if owner then return living()[owner] == true end
  return s.expires > now
end
local function lapse(id, s)
  s.expires, s.token = 0, ''
  ackord.count(s.destinationHash, 'i', -1)
  redis.call('ZADD', ready, 0, member(id, s))
  addToKey('o', id, s)
  redis.call('HSET', state, id, ackord.write(s))
  removeFromKey('i', id, s)
end`
