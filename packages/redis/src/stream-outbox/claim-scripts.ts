import { type Script, script } from '../script.ts'
import { clock, members, parkedConsumer, types, waitingConsumer } from './lua.ts'

/**
 * Takes what may be claimed and was read before.
 * KEYS: the set of destinations; per lane its six keys. ARGV: group, consumer, limit, whether to take from `ready` (1 or 0), and from `retry`,
 * and whether to tell the destinations. Gives these, and per lane a list of { id, fields, delivery, uncounted } and one of ids whose entry is gone, or what is wrong with its keys.
 */
export const takeDue: Script = script(`${clock}
${members}
${types}
local group, consumer, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local lanes = (#KEYS - 1) / 6
local problem = check(1, 'set')
if problem then return problem end
local reply = { ARGV[6] == '1' and redis.call('SMEMBERS', KEYS[1]) or {} }
local taken = 0
local function take(lane, key, most)
  local first = 6 * lane - 4
  local stream, uncounted = KEYS[first], KEYS[first + 5]
  local due = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, most)
  for _, member in ipairs(due) do
    local id = entry(member)
    local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
    if not pending or pending[2] == '${waitingConsumer}' then
      local delivery = pending and pending[4] + 1 or 1
      local claimed = redis.call('XCLAIM', stream, group, consumer, 0, id, 'FORCE', 'RETRYCOUNT', delivery)[1]
      if claimed and claimed[2] then
        table.insert(reply[lane + 1][1], { id, claimed[2], delivery, tonumber(redis.call('HGET', uncounted, id)) or 0 })
        taken = taken + 1
      else
        redis.call('XACK', stream, group, id)
        redis.call('HDEL', uncounted, id)
        redis.call('HDEL', KEYS[first + 4], id)
        table.insert(reply[lane + 1][2], id)
      end
    end
    redis.call('ZREM', key, member)
  end
  return #due == most
end
local more = {}
for lane = 1, lanes do
  local wrong = checkLane(6 * lane - 4)
  reply[lane + 1] = wrong and wrong.err or { {}, {} }
  more[lane] = { not wrong and ARGV[4] == '1', not wrong and ARGV[5] == '1' }
end
-- In shares, so that none of many waits for the others; what some leave over is for whoever has more.
local share = math.max(1, math.floor(limit / math.max(1, 2 * lanes)))
local found = true
while found and taken < limit do
  found = false
  for lane = 1, lanes do
    for kind = 1, 2 do
      if more[lane][kind] and taken < limit then
        more[lane][kind] = take(lane, KEYS[6 * lane - 4 + kind], math.min(share, limit - taken))
        found = found or more[lane][kind]
      end
    end
  end
end
return reply`)

/**
 * Takes over what is pending for consumers whose lease has run out, and removes those that hold nothing and have not been seen for long.
 * KEYS: the lane's six. ARGV: group, consumer, limit, milliseconds that count as the lease of a consumer whose name tells none, and after which one
 * that holds nothing is removed; how many to look at, and where the last look ended: consumer and id.
 * Gives a list of { id, fields, delivery, uncounted }, one of ids whose entry is gone, and where this look ended; '' if it saw all.
 */
export const takeOver: Script = script(`${types}
local group, consumer, limit, idle, budget = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local fromName, fromId = ARGV[6], ARGV[7]
local stream = KEYS[1]
local problem = checkLane(1)
if problem then return problem end
local reply = { {}, {}, '', '' }
local function take(id, delivery)
  local claimed = redis.call('XCLAIM', stream, group, consumer, 0, id)[1]
  if claimed and claimed[2] then
    table.insert(reply[1], { id, claimed[2], delivery + 1, tonumber(redis.call('HGET', KEYS[6], id)) or 0 })
  else
    redis.call('XACK', stream, group, id)
    redis.call('HDEL', KEYS[5], id)
    redis.call('HDEL', KEYS[6], id)
    table.insert(reply[2], id)
  end
end
local function look(name, lease, from)
  while true do
    local count = math.min(budget, 100)
    local page = redis.call('XPENDING', stream, group, from, '+', count, name)
    for _, pending in ipairs(page) do
      from = pending[1]
      if #reply[1] >= limit then return from end
      if pending[3] >= lease then take(from, pending[4]) end
    end
    budget = budget - #page
    if #page < count then return end
    -- The last one is seen twice, because a range without its start is not for all servers.
    if budget < 2 then return from end
  end
end
local consumers = redis.call('XINFO', 'CONSUMERS', stream, group)
for _, one in ipairs(consumers) do
  local info = {}
  for i = 1, #one, 2 do info[one[i]] = one[i + 1] end
  local lease = tonumber(string.match(info.name, '/(%d+)$'))
  if info.pending == 0 then
    if info.name ~= consumer and info.idle >= idle then redis.call('XGROUP', 'DELCONSUMER', stream, group, info.name) end
  elseif (lease or (info.name ~= '${waitingConsumer}' and info.name ~= '${parkedConsumer}')) and info.name >= fromName then
    local stopped = look(info.name, lease or idle, info.name == fromName and fromId or '-')
    if stopped then
      reply[3], reply[4] = info.name, stopped
      return reply
    end
  end
end
return reply`)

/**
 * Puts aside what was read before its time. KEYS: the lane's six. ARGV: group, the consumer that read them, then id and delay of each.
 * Gives the ids that are put aside; a delivery that only found out about the delay is no attempt.
 */
export const putAside: Script = script(`${clock}
${members}
${types}
local problem = checkLane(1)
if problem then return problem end
local early = {}
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  local due = tonumber(string.match(id, '^%d+')) + tonumber(ARGV[i + 1])
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if due > now and pending and pending[2] == ARGV[2] then
    redis.call('ZREM', KEYS[2], member(id))
    redis.call('HINCRBY', KEYS[6], id, 1)
    redis.call('ZADD', KEYS[2], due, member(id))
    redis.call('XCLAIM', KEYS[1], ARGV[1], '${waitingConsumer}', 0, id, 'JUSTID')
    early[#early + 1] = id
  end
end
return early`)

/**
 * KEYS: the lane's six. ARGV: group. Creates the group, from the first entry on. If it was there before and is lost, nobody knows
 * any more what was read: all that is in the stream comes anew, also what was parked, and what is noted about it goes. Gives how many were parked, or -1 if the group is there.
 */
export const createGroup: Script = script(`${types}
local problem = checkLane(1)
if problem then return problem end
local created = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if created.err then
  if string.sub(created.err, 1, 9) == 'BUSYGROUP' then return -1 end
  return created
end
local parked = redis.call('ZCARD', KEYS[4])
for i = 2, 6 do redis.call('DEL', KEYS[i]) end
return parked`)
