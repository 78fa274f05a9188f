/**
 * What claims with and without order share. Behind `shardLua`, with `limit` and `budget`, and with ARGV from 6 on: 'all', 'only' or 'except', lanes, the lane to begin
 * behind, the most bytes of all bodies together, '1' if the first record is claimed even if it is larger. Moves those to `ready` whose time has come.
 */
export const claimLua: string = `local choice, chosen, cursor = ARGV[6], {}, ARGV[8]
local lanes = split(ARGV[7])
for _, lane in ipairs(lanes) do chosen[lane] = true end
local maxBytes, atLeastOne = tonumber(ARGV[9]), ARGV[10] == '1'
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
remove('ZREM', waiting, due)`

/** `serving`: the lanes to claim from, in turn. `classes` are those that are asked for, `known` all that there can be. */
export const lanesLua: string = `-- From lane to lane. Empty ones are never met, however many destinations there once were.
local serving, met = {}, {}
local function walk(from, last)
  while #serving < limit do
    local first = redis.call('ZRANGEBYLEX', ready, from, last, 'LIMIT', 0, 1)[1]
    if not first then return end
    local lane, class = string.sub(first, 1, 8), string.sub(first, 9, 9)
    if #first ~= 47 or not string.find(first, '^[%w_-]+$') or not string.find(known, class, 1, true) then
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
end`

/** `first(lane, most, classes)`: members of `ready`. */
export const oldestLua: string = `local function seqOf(one) return string.sub(one, 10, 25) end
-- Oldest first, whether they were tried before or not.
local function first(lane, most, classes)
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
end`
