import { type Script, script } from '../../../client/port.ts'
import { messageIndex } from './index-scripts.ts'
import { byteRoom, clock, groupInfo, members, parkedConsumer, types, waitingConsumer } from './prelude.ts'

/** The maximum number of entries that are read at once. They are in memory before their sizes are known. */
const pageSize = 16

/** The maximum number of parked entries that one script skips. The next claim continues behind them. */
const maxPassed = 1000

/**
 * Takes entries that were read before and are due.
 * KEYS: the set of destinations; per destination its six keys. ARGV: group, consumer, limit, the most bytes, whether the first entry is taken even if it is larger,
 * whether to take from `ready` (1 or 0), and from `retry`, and whether to return the destinations.
 * Returns these, the bytes, '1' if it stopped before an entry that did not fit, the time, and per destination a list of { id, fields, delivery, uncounted } and one of ids whose entry
 * is missing, or the problem of its keys.
 */
export const takeDue: Script = script(`${clock}
${members}
${types}
${messageIndex}
${byteRoom(4)}
local group, consumer, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local destinations = (#KEYS - 1) / 6
local problem = check(1, 'set')
if problem then return problem end
local reply = { ARGV[8] == '1' and redis.call('SMEMBERS', KEYS[1]) or {}, 0, '0', now }
local function take(destination, key, most)
  local first = 6 * destination - 4
  local stream, uncounted = KEYS[first], KEYS[first + 5]
  local due = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, most)
  for _, member in ipairs(due) do
    local id = entry(member)
    local answer = redis.pcall('XPENDING', stream, group, id, id, 1)
    -- The group is lost. \`takeFresh\` creates it again, and all entries of the stream are read again.
    if answer.err then return false end
    local pending = answer[1]
    if not pending or pending[2] == '${waitingConsumer}' then
      local found = redis.call('XRANGE', stream, id, id)[1]
      if found then
        if not fits(found[2]) then return false end
        local delivery = pending and pending[4] + 1 or 1
        redis.call('XCLAIM', stream, group, consumer, 0, id, 'FORCE', 'RETRYCOUNT', delivery, 'JUSTID')
        table.insert(reply[destination + 4][1], { id, found[2], delivery, tonumber(redis.call('HGET', uncounted, id)) or 0 })
      else
        redis.call('XACK', stream, group, id)
        redis.call('HDEL', uncounted, id)
        forget(KEYS[first + 4], { id }, 1, 1)
        table.insert(reply[destination + 4][2], id)
      end
    end
    redis.call('ZREM', key, member)
  end
  return #due == most
end
local more = {}
for destination = 1, destinations do
  local wrong = checkKeys(6 * destination - 4)
  reply[destination + 4] = wrong and wrong.err or { {}, {} }
  more[destination] = { not wrong and ARGV[6] == '1', not wrong and ARGV[7] == '1' }
end
-- In shares, so that no destination waits for the others; what some do not use is for those that have more.
local share = math.max(1, math.floor(limit / math.max(1, 2 * destinations)))
local found = true
while found and taken < limit and not full do
  found = false
  for destination = 1, destinations do
    for kind = 1, 2 do
      if more[destination][kind] and taken < limit and not full then
        more[destination][kind] = take(destination, KEYS[6 * destination - 4 + kind], math.min(share, limit - taken))
        found = found or more[destination][kind]
      end
    end
  end
end
reply[2], reply[3] = bytes, full and '1' or '0'
return reply`)

/**
 * Takes entries that no consumer has read, like XREADGROUP, which has no limit in bytes and is not allowed in scripts before Redis 7. Creates missing groups.
 * If an existing group was lost, it is unknown which entries were read: all entries of the stream are delivered again, including parked ones, and the other keys are deleted, except
 * `errors` with an index of message ids: that of a new stream is there before its group.
 * KEYS: per destination its six, then the gate of each. ARGV: group, consumer, limit, the most bytes, whether the first entry is taken even if it is larger.
 * Returns the bytes, '1' if it stopped before an entry that did not fit, and per destination a list of { id, fields, uncounted }, the number of entries that were parked in a lost group,
 * '1' if the destination is empty, and '1' if its gate is open; or the problem of its keys. Opens gates that were never closed, and others when all entries were read.
 *
 * An entry behind the group's last id may be pending already, if an operator parked it before it was read: it is skipped, whatever its state is now. Such entries have a
 * field in `uncounted`. So does an entry that an operator stored with its earlier attempts: it is taken as its second delivery, so that the field is removed in the end.
 */
export const takeFresh: Script = script(`${types}
${byteRoom(4)}
${groupInfo}
local group, consumer, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local destinations, reply, last, hasNotes, passed = #KEYS / 7, { 0, '0' }, {}, {}, 0
-- Destinations whose group could not be moved past parked entries: XREADGROUP would still read them.
local stuck = {}
local function gateOf(destination) return KEYS[6 * destinations + destination] end
-- If a gate cannot be opened, only speed is lost.
local function openGate(destination)
  local created = redis.pcall('XGROUP', 'CREATE', gateOf(destination), group, '$', 'MKSTREAM')
  reply[destination + 2][4] = created.ok and '1' or '0'
end
-- All groups first: if one is refused, nothing is taken yet.
for destination = 1, destinations do
  local first = 6 * destination - 5
  local wrong = checkKeys(first)
  if wrong then
    reply[destination + 2] = wrong.err
  else
    local found, hasStream = groupOf(first)
    local parked, isEmpty, gate = 0, not found and not hasStream, redis.call('TYPE', gateOf(destination)).ok
    if found then
      last[destination] = found.last
      isEmpty = found.pending == 0 and redis.call('XLEN', KEYS[first]) == 0
      hasNotes[destination] = redis.call('HLEN', KEYS[first + 5]) > 0
    elseif hasStream then
      parked = redis.call('ZCARD', KEYS[first + 3])
      -- A server whose memory is full accepts DEL, and then the rest of the same script. Without the group nothing could be published to free memory.
      local isIndexed = redis.call('HGET', KEYS[first + 4], '')
      for i = 1, 5 do if i ~= 4 or not isIndexed then redis.call('DEL', KEYS[first + i]) end end
      redis.call('XGROUP', 'CREATE', KEYS[first], group, '0')
      -- Entries that were read before are unread again.
      if gate == 'stream' then
        redis.call('SET', gateOf(destination), 'closed')
        gate = 'string'
      end
      last[destination] = '0-0'
    end
    reply[destination + 2] = { {}, parked, isEmpty and '1' or '0', gate == 'stream' and '1' or '0' }
    if isEmpty then
      last[destination] = nil
    elseif gate == 'none' then
      openGate(destination)
    end
  end
end
-- Older servers have no exclusive ranges.
local function after(id)
  local head, digits = string.match(id, '^(%d+%-)(%d+)$')
  local nines = string.match(digits, '9*$')
  local rest = string.sub(digits, 1, #digits - #nines)
  if rest == '' then return head .. '1' .. string.rep('0', #nines) end
  return head .. string.sub(rest, 1, -2) .. (tonumber(string.sub(rest, -1)) + 1) .. string.rep('0', #nines)
end
-- One entry at first and then more and more, as long as they are small: sizes are known only when entries are in memory.
local page = 1
local function claim(stream, ids, delivery, lastId)
  if #ids == 0 then return end
  local command = { 'XCLAIM', stream, group, consumer, 0, unpack(ids) }
  for _, word in ipairs({ 'FORCE', 'RETRYCOUNT', delivery, 'JUSTID', 'LASTID', lastId }) do command[#command + 1] = word end
  redis.call(unpack(command))
end
-- The fields of these entries in 'uncounted'.
local function notesOf(destination, entries)
  if not hasNotes[destination] or #entries == 0 then return {} end
  local ids = {}
  for i, found in ipairs(entries) do ids[i] = found[1] end
  return redis.call('HMGET', KEYS[6 * destination], unpack(ids))
end
local function take(destination, most)
  local stream, given, before = KEYS[6 * destination - 5], reply[destination + 2][1], taken
  while taken - before < most do
    local count = math.min(page, most - (taken - before))
    local entries, ids, again, seen = redis.call('XRANGE', stream, after(last[destination]), '+', 'COUNT', count), {}, {}, nil
    local notes = notesOf(destination, entries)
    for i, found in ipairs(entries) do
      local id, note = found[1], notes[i]
      if note and redis.call('XPENDING', stream, group, id, id, 1)[1] then
        passed = passed + 1
      else
        if not fits(found[2]) then break end
        if note then
          again[#again + 1] = id
          found[3] = note
        else
          ids[#ids + 1] = id
        end
        given[#given + 1] = found
      end
      seen = id
    end
    if seen then
      last[destination] = seen
      claim(stream, ids, 1, seen)
      claim(stream, again, 2, seen)
      -- Without the permission for it, the next claim skips them again.
      if #ids + #again > 0 then stuck[destination] = nil
      elseif redis.pcall('XGROUP', 'SETID', stream, group, seen).err then stuck[destination] = true end
    end
    if passed >= ${maxPassed} or full then return false end
    if #entries < count then
      if reply[destination + 2][4] == '0' and not stuck[destination] then
        redis.call('DEL', gateOf(destination))
        openGate(destination)
      end
      return false
    end
    page = largest * 2 * page <= maxBytes - bytes and math.min(2 * page, ${pageSize}) or 1
  end
  return true
end
local share = math.max(1, math.floor(limit / math.max(1, destinations)))
local serving = {}
for destination = 1, destinations do if last[destination] then serving[#serving + 1] = destination end end
while #serving > 0 and taken < limit and not full do
  local left = {}
  for _, destination in ipairs(serving) do
    if taken < limit and not full and take(destination, math.min(share, limit - taken)) then left[#left + 1] = destination end
  end
  serving = left
end
reply[1], reply[2] = bytes, full and '1' or '0'
return reply`)

/**
 * Takes over entries of consumers whose lease has expired, and removes consumers that have no entries and were idle for long.
 * KEYS: the six of a destination. ARGV: group, consumer, limit, the most bytes, whether the first entry is taken even if it is larger, milliseconds that count as the lease of a consumer
 * without a lease in its name, and after which a consumer without entries is removed; how many entries to read, and where the last search ended: consumer and id.
 * Returns a list of { id, fields, delivery, uncounted }, one of ids whose entry is missing, where this search ended ('' if it saw all), the bytes, and '1' if it stopped before an
 * entry that did not fit.
 */
export const takeOver: Script = script(`${types}
${messageIndex}
${byteRoom(4)}
local group, consumer, limit, idle, budget = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6]), tonumber(ARGV[7])
local fromName, fromId = ARGV[8], ARGV[9]
local stream = KEYS[1]
local problem = checkKeys(1)
if problem then return problem end
local reply = { {}, {}, '', '', 0, '0' }
local function take(id, delivery)
  local found = redis.call('XRANGE', stream, id, id)[1]
  if found then
    if not fits(found[2]) then return end
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'RETRYCOUNT', delivery + 1, 'JUSTID')
    table.insert(reply[1], { id, found[2], delivery + 1, tonumber(redis.call('HGET', KEYS[6], id)) or 0 })
  else
    redis.call('XACK', stream, group, id)
    forget(KEYS[5], { id }, 1, 1)
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
      if full then return from end
    end
    budget = budget - #page
    if #page < count then return end
    -- The last entry is read twice: older servers have no exclusive ranges.
    if budget < 2 then return from end
  end
end
local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
if consumers.err then
  -- No consumer has read it yet, or the stream was deleted.
  if string.find(consumers.err, 'NOGROUP', 1, true) or string.find(consumers.err, 'no such key', 1, true) then return reply end
  return consumers
end
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
      break
    end
  end
end
reply[5], reply[6] = bytes, full and '1' or '0'
return reply`)

/**
 * Puts aside entries that were read before their delay ended. KEYS: the six of a destination. ARGV: group, the consumer that read them, then id and delay of each.
 * Returns the ids of entries that are not due, and of those that the consumer no longer holds, because they were cancelled or taken over meanwhile. A delivery that only
 * found the delay is no attempt.
 */
export const putAside: Script = script(`${clock}
${members}
${types}
local problem = checkKeys(1)
if problem then return problem end
local early = {}
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  local due = tonumber(string.match(id, '^%d+')) + tonumber(ARGV[i + 1])
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  local held = pending and pending[2] == ARGV[2]
  if held and due > now then
    redis.call('ZREM', KEYS[2], member(id))
    redis.call('HINCRBY', KEYS[6], id, 1)
    redis.call('ZADD', KEYS[2], due, member(id))
    redis.call('XCLAIM', KEYS[1], ARGV[1], '${waitingConsumer}', 0, id, 'JUSTID')
  end
  if not held or due > now then early[#early + 1] = id end
end
return early`)

/**
 * Drops destinations without records: they are removed from the set of destinations, so that claims do not ask for them, and their keys are deleted once they have
 * been empty for long enough. A commit adds its destinations to the set together with its records, so it runs before or after this script, never in between.
 * KEYS: the set of destinations, the sorted set of empty ones by when they were dropped, per destination its six, then the gate of each. ARGV: group, milliseconds after which keys
 * are deleted, then the names of the destinations.
 */
export const dropEmpty: Script = script(`${clock}
${types}
${groupInfo}
local problem = check(1, 'set', 'zset')
if problem then return problem end
for destination = 1, #ARGV - 2 do
  local first, name = 6 * destination - 3, ARGV[destination + 2]
  local isBroken = checkKeys(first)
  local group = not isBroken and groupOf(first)
  if isBroken then
    redis.call('ZREM', KEYS[2], name)
  elseif group and group.pending > 0 or redis.call('XLEN', KEYS[first]) > 0 then
    redis.call('ZREM', KEYS[2], name)
    redis.call('SADD', KEYS[1], name)
  elseif redis.call('SREM', KEYS[1], name) == 0 and (not group or now - string.match(group.last, '^%d+') >= tonumber(ARGV[2])) then
    -- Not earlier: a stream that is created again may reuse ids if the server's clock was set back, and a late settlement would apply to another record.
    for i = 0, 5 do redis.call('DEL', KEYS[first + i]) end
    redis.call('DEL', KEYS[2 + 6 * (#ARGV - 2) + destination])
    redis.call('ZREM', KEYS[2], name)
  else
    redis.call('ZADD', KEYS[2], now, name)
  end
end`)

/** KEYS: the sorted set of empty destinations. ARGV: milliseconds, maximum number. Returns destinations that were dropped at least this long ago. */
export const longEmpty: Script = script(`${clock}
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, ARGV[2])`)
