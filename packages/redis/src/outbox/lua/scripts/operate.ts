import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/**
 * Makes parked or published records ready again.
 *
 *     KEYS: those of a shard
 *     ARGV: the status to look for ('F' or 'S'), milliseconds until they may be claimed, '1' if their attempts still count, ids
 *     returns: the number of records
 *     writes: for each ready or waiting, keys, index, state, then out of index, keys and sent; counts; the hint
 */
export const rearmScript: OutboxScript = outboxScript(
  'rearm',
  `${shardLua}
local status, delay, keep = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local letter, ids = string.lower(status), { unpack(ARGV, 4) }
local found, seen, count = fetch(state, ids), {}, 0
open()
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if s and s.status == status and not seen[id] then
    seen[id] = true
    s.status, s.attempts, s.at = 'O', keep and s.attempts or 0, now + delay
    await(id, s)
    addToKey('o', id, s)
    redis.call('ZADD', index, 0, 'o' .. s.seq .. id)
    redis.call('HSET', state, id, ackord.write(s))
    redis.call('ZREM', index, letter .. s.seq .. id)
    if status == 'S' then redis.call('ZREM', sent, id) else removeFromKey('f', id, s) end
    ackord.count(s.destinationHash, letter, -1)
    ackord.count(s.destinationHash, 'o', 1)
    count = count + 1
  end
end
ackord.flush(1)
if count > 0 then redis.call('XADD', wake, 'MAXLEN', '~', 1, '*', 'n', count) end
return count`,
)

/**
 * Makes a parked or published record ready again with another body, if its state has not changed since it was read.
 *
 *     KEYS: those of a shard
 *     ARGV: id, its state as it was read, body, destinationHash, destination, milliseconds until it may be claimed, '1' if its attempts still
 *           count, the digest of its ordering key, or '', and its message id if its id is no longer the digest of its content, or ''
 *     returns: 1, or 0 if its state has changed
 *     writes: edited, body, ready or waiting, keys, index, state, then out of index, keys and sent; counts; the hint
 */
export const replaceScript: OutboxScript = outboxScript(
  'replace',
  `${shardLua}
local id, text, body, destinationHash, name, delay, keep, key, messageId = unpack(ARGV)
local s = redis.call('HGET', state, id) == text and ackord.read(text)
if not s or s.status ~= 'F' and s.status ~= 'S' then return 0 end
local letter = string.lower(s.status)
local known = redis.call('HGET', destinations, destinationHash)
if known and known ~= name then return redis.error_reply('ERR two destinations of an outbox have the same digest: ' .. known .. ', ' .. name) end
ackord.count(s.destinationHash, letter, -1)
local before = ackord.line('f', id, s)
ackord.count(destinationHash, 'o', 1)
s.status, s.attempts, s.at, s.destinationHash, s.key = 'O', keep == '1' and s.attempts or 0, now + tonumber(delay), destinationHash, ackord.ordered(1) and key or ''
if messageId == '' then redis.call('HDEL', edited, id) else redis.call('HSET', edited, id, messageId) end
redis.call('HSET', entries, id, body)
redis.call('HSETNX', destinations, destinationHash, name)
await(id, s)
addToKey('o', id, s)
redis.call('ZADD', index, 0, 'o' .. s.seq .. id)
redis.call('HSET', state, id, ackord.write(s))
redis.call('ZREM', index, letter .. s.seq .. id)
if letter == 's' then redis.call('ZREM', sent, id) elseif before then redis.call('ZREM', keys, before) end
ackord.flush(1)
redis.call('XADD', wake, 'MAXLEN', '~', 1, '*', 'n', 1)
return 1`,
)

/**
 * Deletes parked records.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     returns: the ids of the deleted records
 *     writes: state, body, error, edited, index, keys; counts
 */
export const discardScript: OutboxScript = outboxScript(
  'discard',
  `${shardLua}
local found, gone, members, lines, seen = fetch(state, ARGV), {}, {}, {}, {}
for i, id in ipairs(ARGV) do
  local s = ackord.read(found[i])
  if s and s.status == 'F' and not seen[id] then
    seen[id] = true
    gone[#gone + 1] = id
    members[#members + 1] = 'f' .. s.seq .. id
    lines[#lines + 1] = ackord.line('f', id, s)
    ackord.count(s.destinationHash, 'f', -1)
  end
end
forget(gone, members)
remove('ZREM', keys, lines)
ackord.flush(1)
return gone`,
)

/**
 * Deletes open records that are not due and that no claim holds.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     returns: the ids of the deleted records
 *     writes: state, body, error, edited, index, ready, waiting, inflight, keys; counts
 */
export const cancelWaitingScript: OutboxScript = outboxScript(
  'cancel_waiting',
  `${shardLua}
local found, gone, indexed, members, lines, seen = fetch(state, ARGV), {}, {}, {}, {}, {}
for i, id in ipairs(ARGV) do
  local s = ackord.read(found[i])
  if s and s.status == 'O' and s.at > now and (s.token == '' or s.expires <= now) and not seen[id] then
    seen[id] = true
    gone[#gone + 1] = id
    indexed[#indexed + 1] = 'o' .. s.seq .. id
    members[#members + 1] = member(id, s)
    lines[#lines + 1] = ackord.line(s.token == '' and 'o' or 'i', id, s)
    if s.token ~= '' then ackord.count(s.destinationHash, 'i', -1) end
    ackord.count(s.destinationHash, 'o', -1)
  end
end
forget(gone, indexed)
remove('ZREM', ready, members)
remove('ZREM', waiting, members)
remove('ZREM', inflight, gone)
remove('ZREM', keys, lines)
ackord.flush(1)
return gone`,
)

/**
 * Deletes published records that are old enough, by when they were published.
 *
 *     KEYS: those of a shard
 *     ARGV: milliseconds, limit
 *     returns: the number of deleted records, and of those that it read
 *     writes: state, body, error, edited, index, sent; counts
 */
export const retentionScript: OutboxScript = outboxScript(
  'retention',
  `${shardLua}
local before = now - tonumber(ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', sent, '-inf', before, 'LIMIT', 0, ARGV[2])
local found, gone, members, stale = fetch(state, ids), {}, {}, {}
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if s and s.status == 'S' and s.at <= before then
    gone[#gone + 1] = id
    members[#members + 1] = 's' .. s.seq .. id
    ackord.count(s.destinationHash, 's', -1)
  elseif s and s.status == 'S' then redis.call('ZADD', sent, s.at, id)
  else stale[#stale + 1] = id end
end
forget(gone, members)
remove('ZREM', sent, gone)
remove('ZREM', sent, stale)
ackord.flush(1)
return { #gone, #ids }`,
)

/**
 * Parks open records that no claim holds: ready, waiting, or with an expired lease.
 *
 *     KEYS: those of a shard
 *     ARGV: the reason as error, cause and line of the history; ids
 *     returns: the ids of the parked records
 *     writes: for each index, keys, error, state, then out of ready, waiting and inflight; counts
 */
export const parkScript: OutboxScript = outboxScript(
  'park',
  `${shardLua}
local ids = { unpack(ARGV, 4) }
local found, parked, members = fetch(state, ids), {}, {}
local seen = {}
open()
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if s and s.status == 'O' and (s.token == '' or s.expires <= now) and not seen[id] then
    seen[id] = true
    parked[#parked + 1], members[#members + 1] = id, member(id, s)
    local letter = s.token == '' and 'o' or 'i'
    if s.token ~= '' then ackord.count(s.destinationHash, 'i', -1) end
    s.status, s.at, s.expires, s.token = 'F', now, 0, ''
    redis.call('ZADD', index, 0, 'f' .. s.seq .. id)
    addToKey('f', id, s)
    fail(id, ARGV[1], ARGV[2], ARGV[3])
    redis.call('HSET', state, id, ackord.write(s))
    redis.call('ZREM', index, 'o' .. s.seq .. id)
    removeFromKey(letter, id, s)
    ackord.count(s.destinationHash, 'o', -1)
    ackord.count(s.destinationHash, 'f', 1)
  end
end
remove('ZREM', ready, members)
remove('ZREM', waiting, members)
remove('ZREM', inflight, parked)
ackord.flush(1)
return parked`,
)
