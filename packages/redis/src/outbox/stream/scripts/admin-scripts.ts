import { type Script, script } from '../../../client/port.ts'
import { failureLua } from '../../failure-field.ts'
import { cancelEntryLua } from './cancel-fragment.ts'
import { lookup, messageIndex } from './index-scripts.ts'
import { clock, groupInfo, members, parkedConsumer, rows, types, waitingConsumer } from './prelude.ts'

/**
 * KEYS: the six of a destination. ARGV: group, first id, last id, maximum number, the consumer whose entries are listed, or '' for all, '0' if entries of the default form
 * are returned without their data, and a message id or ''. If the index of message ids is complete, all entries with that one are listed instead.
 * Returns the time, '1' if it has used the index, and for each entry, in order, what `row` returns.
 */
export const listEntries: Script = script(`${clock}
${members}
${types}
local problem = checkKeys(1)
if problem then return problem end
local stream, group = KEYS[1], ARGV[1]
${rows}
${lookup}
local entries, indexed = {}, ARGV[7] ~= '' and idsWith(ARGV[7])
if indexed then
  for _, id in ipairs(indexed) do entries[#entries + 1] = id and redis.call('XRANGE', stream, id, id)[1] or nil end
elseif ARGV[5] == '' then
  entries = redis.call('XRANGE', stream, ARGV[2], ARGV[3], 'COUNT', ARGV[4])
else
  local page = redis.pcall('XPENDING', stream, group, ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  for _, pending in ipairs(page.err and {} or page) do
    -- A missing entry is returned as its id alone, so that the next page begins behind it.
    entries[#entries + 1] = redis.call('XRANGE', stream, pending[1], pending[1])[1] or { pending[1] }
  end
end
local reply = { tostring(now), indexed and '1' or '0' }
for _, found in ipairs(entries) do
  if ARGV[6] == '0' and found[2] then found[2][4] = '' end
  reply[#reply + 1] = row(found)
end
return reply`)

/**
 * Makes parked entries ready again. KEYS: the six of a destination. ARGV: group, milliseconds until they may be claimed, '1' if their attempts still count, then ids.
 * Returns the number of entries.
 */
export const rearmParked: Script = script(`${clock}
${members}
${types}
local problem = checkKeys(1)
if problem then return problem end
local delay, keep, count = tonumber(ARGV[2]), ARGV[3] == '1', 0
for i = 4, #ARGV do
  local id = ARGV[i]
  local answer = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  local pending = not answer.err and answer[1]
  if pending and pending[2] == '${parkedConsumer}' then
    local attempts = keep and pending[4] - (tonumber(redis.call('HGET', KEYS[6], id)) or 0) or 0
    redis.call('ZREM', KEYS[4], member(id))
    if not keep then redis.call('HSET', KEYS[6], id, pending[4]) end
    redis.call('ZADD', KEYS[attempts > 0 and 3 or 2], delay > 0 and now + delay or 0, member(id))
    redis.call('XCLAIM', KEYS[1], ARGV[1], '${waitingConsumer}', 0, id, 'JUSTID')
    count = count + 1
  end
end
return count`)

/**
 * Parks entries that no claim holds. KEYS: the six of a destination, its gate. ARGV: group, the reason as error, cause and line of the history, then ids. Returns the ids of the parked entries.
 *
 * An entry that the group has not read yet becomes pending for the consumer `parked` without being read: the group's last id is not changed, so that the entries
 * before it are still read in their turn. Such an entry always has a field in `uncounted`, by which `takeFresh` recognises and skips it. XREADGROUP would read it, so the gate is closed.
 *
 * If the group was lost together with its parked entries, the next claim must report that, and nothing is parked here.
 */
export const parkEntries: Script = script(`${clock}
${members}
${types}
${groupInfo}
${failureLua}
local problem = checkKeys(1)
if problem then return problem end
local stream, group, parked = KEYS[1], ARGV[1], {}
local found, hasStream = groupOf(1)
if not found then
  if not hasStream or redis.call('ZCARD', KEYS[4]) > 0 then return parked end
  redis.call('XGROUP', 'CREATE', stream, group, '0')
  local isIndexed = redis.call('HGET', KEYS[5], '')
  for i = 2, 6 do if i ~= 5 or not isIndexed then redis.call('DEL', KEYS[i]) end end
  redis.call('SET', KEYS[7], 'closed')
end
for i = 5, #ARGV do
  local id = ARGV[i]
  if redis.call('XRANGE', stream, id, id)[1] then
    local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
    local lease = pending and tonumber(string.match(pending[2], '/(%d+)$'))
    if not pending or pending[2] == '${waitingConsumer}' or lease and pending[3] >= lease then
      redis.call('ZREM', KEYS[2], member(id))
      redis.call('ZREM', KEYS[3], member(id))
      redis.call('ZADD', KEYS[4], now, member(id))
      redis.call('HSET', KEYS[5], id, failureField(redis.call('HGET', KEYS[5], id), now, ARGV[2], ARGV[3], ARGV[4]))
      if pending then
        redis.call('XCLAIM', stream, group, '${parkedConsumer}', 0, id, 'JUSTID')
      else
        redis.call('SET', KEYS[7], 'closed')
        redis.call('HSETNX', KEYS[6], id, 1)
        redis.call('XCLAIM', stream, group, '${parkedConsumer}', 0, id, 'FORCE', 'RETRYCOUNT', 1, 'JUSTID')
      end
      parked[#parked + 1] = id
    end
  end
end
return parked`)

/**
 * Replaces a parked entry by one with the same failures. KEYS: the six of a destination, the stream of the new entry, the set of destinations, the stream for wake-ups,
 * and `errors`, `uncounted` and the gate of the new entry's destination. ARGV: group, id, the destination, '1' if the attempts still count, '1' if message ids are indexed in any case, otherwise
 * they are if there is an index, the message id of the new entry, then its fields. Returns its id, or '' if the old one was not parked.
 */
export const replaceParked: Script = script(`${members}
${types}
${messageIndex}
local problem = checkKeys(1) or check(7, 'stream', 'set', 'stream', 'hash', 'hash')
if problem then return problem end
local id = ARGV[2]
local answer = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
local pending = not answer.err and answer[1]
if not pending or pending[2] ~= '${parkedConsumer}' then return '' end
local attempts = ARGV[4] == '1' and pending[4] - (tonumber(redis.call('HGET', KEYS[6], id)) or 0) or 0
-- XREADGROUP must not read the new entry: it may be large, and it may have attempts.
redis.call('SET', KEYS[12], 'closed')
local added = redis.call('XADD', KEYS[7], '*', unpack(ARGV, 7))
-- Without a group the first claim would mistake the attempts and failures for those of a lost group.
if redis.call('XLEN', KEYS[7]) == 1 then redis.pcall('XGROUP', 'CREATE', KEYS[7], ARGV[1], '0') end
local failures = redis.call('HGET', KEYS[5], id)
if failures then redis.call('HSET', KEYS[10], added, failures) end
if ARGV[5] == '1' or redis.call('HGET', KEYS[10], '') then addToIndex(KEYS[10], added, ARGV[6]) end
if attempts > 0 then redis.call('HSET', KEYS[11], added, 1 - attempts) end
redis.call('SADD', KEYS[8], ARGV[3])
redis.call('XADD', KEYS[9], 'MAXLEN', '~', 1, '*', 'n', 1)
redis.call('XACK', KEYS[1], ARGV[1], id)
redis.call('XDEL', KEYS[1], id)
redis.call('ZREM', KEYS[4], member(id))
forget(KEYS[5], { id }, 1, 1)
redis.call('HDEL', KEYS[6], id)
return added`)

/** KEYS: the six of a destination. ARGV: group, then ids. Deletes those that are parked. Returns their ids. */
export const discardParked: Script = script(`${members}
${types}
${messageIndex}
local problem = checkKeys(1)
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
    forget(KEYS[5], { id }, 1, 1)
    redis.call('HDEL', KEYS[6], id)
    discarded[#discarded + 1] = id
  end
end
return discarded`)

/**
 * Deletes entries that are not due. KEYS: the six of a destination. ARGV: group, then of each entry its id and when its delay ends, in milliseconds. Returns the ids of the deleted
 * entries. One that was deleted since it was read is not there.
 */
export const cancelWaiting: Script = script(`${clock}
${cancelEntryLua}
${types}
local problem = checkKeys(1)
if problem then return problem end
local cancelled = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  if redis.call('XRANGE', KEYS[1], id, id)[1] then
    local done = cancelEntry(1, ARGV[1], id, tonumber(ARGV[i + 1]), now)
    if type(done) == 'table' then return done end
    if done then cancelled[#cancelled + 1] = id end
  end
end
return cancelled`)

/**
 * Counts the entries of destinations under one tag. KEYS: the set of destinations, then the six of each destination that is to be counted. ARGV: group. Returns the names of all
 * destinations; then for each counted one the numbers of ready, waiting, leased and parked entries, and the age in milliseconds of the oldest that is not parked, or -1.
 * Delayed entries that no consumer has read yet count as ready.
 */
export const countEntries: Script = script(`${clock}
${types}
local problem = check(1, 'set')
for k = 2, #KEYS, 6 do problem = problem or checkKeys(k) end
if problem then return problem end
local group = ARGV[1]
local function count(k)
  local stream = KEYS[k]
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
          local later = redis.call('ZCOUNT', KEYS[k + 1], now + 1, '+inf') + redis.call('ZCOUNT', KEYS[k + 2], now + 1, '+inf')
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
  -- The first unread entry. Entries that were parked unread do not count; of many in a row only some are read.
  local looked, from = 0, last
  repeat
    local page, unread = redis.call('XRANGE', stream, from, '+', 'COUNT', parked > 0 and 10 or 2), nil
    for _, one in ipairs(page) do
      local id = one[1]
      if not unread and id ~= from and (parked == 0 or not redis.call('XPENDING', stream, group, id, id, 1)[1]) then unread = id end
    end
    if unread then see(unread) end
    looked = looked + #page
    local isLast = unread or #page < 10 or looked >= 1000
    from = #page > 0 and page[#page][1] or from
  until isLast
  return { ready, waiting, leased, parked, oldest and math.max(0, now - oldest) or -1 }
end
local reply = { redis.call('SMEMBERS', KEYS[1]) }
for k = 2, #KEYS, 6 do reply[#reply + 1] = count(k) end
return reply`)
