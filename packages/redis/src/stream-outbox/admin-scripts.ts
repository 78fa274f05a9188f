import { type Script, script } from '../script.ts'
import { clock, members, parkedConsumer, types, waitingConsumer } from './lua.ts'

/**
 * KEYS: the lane's six. ARGV: group, first id, last id, how many at most, and the consumer whose entries are meant, or ''.
 * Gives the time, and of each entry, in order: id, fields, state, deliveries that count, when it can be claimed, until when it is leased, when it was parked, last error.
 * 'unread' is one that nobody has read yet.
 */
export const listEntries: Script = script(`${clock}
${members}
${types}
local problem = checkLane(1)
if problem then return problem end
local stream, group = KEYS[1], ARGV[1]
local entries = {}
if ARGV[5] == '' then
  entries = redis.call('XRANGE', stream, ARGV[2], ARGV[3], 'COUNT', ARGV[4])
else
  local page = redis.pcall('XPENDING', stream, group, ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  for _, pending in ipairs(page.err and {} or page) do
    -- One that is gone is told by its id alone, so that whoever asks page by page goes on behind it.
    entries[#entries + 1] = redis.call('XRANGE', stream, pending[1], pending[1])[1] or { pending[1] }
  end
end
local reply = { tostring(now) }
for _, found in ipairs(entries) do
  local id = found[1]
  local answer = redis.pcall('XPENDING', stream, group, id, id, 1)
  local pending = not answer.err and answer[1]
  local state, attempts, available, leased, parked = 'unread', 0, '', '', ''
  if pending then
    local owner = pending[2]
    attempts = pending[4] - (tonumber(redis.call('HGET', KEYS[6], id)) or 0)
    if owner == '${parkedConsumer}' then
      state = 'parked'
      parked = redis.call('ZSCORE', KEYS[4], member(id)) or tostring(now)
    elseif owner == '${waitingConsumer}' then
      local due = redis.call('ZSCORE', KEYS[2], member(id)) or redis.call('ZSCORE', KEYS[3], member(id)) or '0'
      state = tonumber(due) > now and 'waiting' or 'ready'
      available = due
    else
      local lease = tonumber(string.match(owner, '/(%d+)$'))
      state = (not lease or pending[3] < lease) and 'leased' or 'ready'
      if lease and state == 'leased' then leased = tostring(now - pending[3] + lease) end
    end
  end
  reply[#reply + 1] = { id, found[2] or false, state, attempts, available, leased, parked, redis.call('HGET', KEYS[5], id) }
end
return reply`)

/** KEYS: the lane's six. ARGV: group, then ids. Makes those that are parked ready again, with no attempts counted. Gives how many it was. */
export const rearmParked: Script = script(`${members}
${types}
local problem = checkLane(1)
if problem then return problem end
local count = 0
for i = 2, #ARGV do
  local id = ARGV[i]
  local answer = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  local pending = not answer.err and answer[1]
  if pending and pending[2] == '${parkedConsumer}' then
    redis.call('ZREM', KEYS[4], member(id))
    redis.call('HSET', KEYS[6], id, pending[4])
    redis.call('ZADD', KEYS[2], 0, member(id))
    redis.call('XCLAIM', KEYS[1], ARGV[1], '${waitingConsumer}', 0, id, 'JUSTID')
    count = count + 1
  end
end
return count`)

/**
 * Puts another entry in the place of one that is parked. KEYS: the lane's six, the stream that the new one goes to, the set of destinations.
 * ARGV: group, id, the destination, then the new one's fields. Gives its id, or '' if the other one was not parked.
 */
export const replaceParked: Script = script(`${members}
${types}
local problem = checkLane(1) or check(7, 'stream', 'set')
if problem then return problem end
local id = ARGV[2]
local answer = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
local pending = not answer.err and answer[1]
if not pending or pending[2] ~= '${parkedConsumer}' then return '' end
local added = redis.call('XADD', KEYS[7], '*', unpack(ARGV, 4))
redis.call('SADD', KEYS[8], ARGV[3])
redis.call('XACK', KEYS[1], ARGV[1], id)
redis.call('XDEL', KEYS[1], id)
redis.call('ZREM', KEYS[4], member(id))
redis.call('HDEL', KEYS[5], id)
redis.call('HDEL', KEYS[6], id)
return added`)

/** KEYS: the lane's six. ARGV: group, then ids. Removes those that are parked. Gives their ids. */
export const discardParked: Script = script(`${members}
${types}
local problem = checkLane(1)
if problem then return problem end
local discarded = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local answer = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  local pending = not answer.err and answer[1]
  if pending and pending[2] == '${parkedConsumer}' then
    redis.call('XACK', KEYS[1], ARGV[1], id)
    redis.call('XDEL', KEYS[1], id)
    redis.call('ZREM', KEYS[4], member(id))
    redis.call('HDEL', KEYS[5], id)
    redis.call('HDEL', KEYS[6], id)
    discarded[#discarded + 1] = id
  end
end
return discarded`)

/**
 * KEYS: the lane's six. ARGV: group. Gives how many are ready, waiting, leased and parked, and how old in milliseconds the oldest is that is not parked, or -1.
 * Delayed ones that nobody has read yet count as ready.
 */
export const countEntries: Script = script(`${clock}
${types}
local problem = checkLane(1)
if problem then return problem end
local stream, group = KEYS[1], ARGV[1]
local ready, waiting, leased, parked = 0, 0, 0, 0
local oldest
local function see(id)
  local ms = tonumber(string.match(id, '^%d+'))
  if not oldest or ms < oldest then oldest = ms end
end
local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
local pending, last = 0, '-'
if not consumers.err then
  for _, one in ipairs(consumers) do
    local info = {}
    for i = 1, #one, 2 do info[one[i]] = one[i + 1] end
    pending = pending + info.pending
    if info.name == '${parkedConsumer}' then
      parked = info.pending
    elseif info.pending > 0 then
      local page = redis.call('XPENDING', stream, group, '-', '+', 1, info.name)
      if page[1] then see(page[1][1]) end
      if info.name == '${waitingConsumer}' then
        local later = redis.call('ZCOUNT', KEYS[2], now + 1, '+inf') + redis.call('ZCOUNT', KEYS[3], now + 1, '+inf')
        waiting = waiting + later
        ready = ready + info.pending - later
      else
        local lease = tonumber(string.match(info.name, '/(%d+)$'))
        local from = '-'
        local over = 0
        repeat
          page = lease and redis.call('XPENDING', stream, group, from, '+', 1000, info.name) or {}
          for i, held in ipairs(page) do
            if held[3] >= lease and (i > 1 or from == '-') then over = over + 1 end
          end
          from = #page > 0 and page[#page][1] or from
        until #page < 1000
        leased = leased + info.pending - over
        ready = ready + over
      end
    end
  end
  for _, one in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local info = {}
    for i = 1, #one, 2 do info[one[i]] = one[i + 1] end
    if info.name == group then last = info['last-delivered-id'] end
  end
end
ready = ready + math.max(0, redis.call('XLEN', stream) - pending)
for _, one in ipairs(redis.call('XRANGE', stream, last, '+', 'COUNT', 2)) do
  if one[1] ~= last then see(one[1]) end
end
return { ready, waiting, leased, parked, oldest and math.max(0, now - oldest) or -1 }`)
