import { type Script, script } from '../../../client/port.ts'
import type { CommitFragment } from '../../../client/queued-command.ts'
import { types } from './prelude.ts'

/** How many entries of one stream may have the same message id, as after an event was appended twice. With more, searches read all entries. */
const maxSame = 16

/**
 * The index of message ids, in the hash `errors` of a destination, if the stores that append keep one:
 *
 *     m<message id>   the id of its entry. Of further entries with the same message id: with a NUL and a number behind it
 *     e<id>           the field of this entry
 *     (empty)         how many entries were ever added to the stream, as far as they are in the index. It is there before any other field of the index
 *
 * It is complete if the last one is the number that the stream itself has (`entries-added`, from Redis 7.0 on). It is never larger. If it is smaller, stores without the index have
 * added entries. The index is in `errors` because all versions delete that key together with the stream.
 *
 *     addToIndex(errors, id, messageId)      never fails: if the server refuses it, for a missing permission, the index is incomplete
 *     forget(errors, ids, first, last)       removes entries from the hash: failures, and the index if there is one. At most 1,000
 */
export const messageIndex: string = `local function addToIndex(errors, id, messageId)
  if type(redis.pcall('HINCRBY', errors, '', 1)) == 'table' then return end
  local field = 'm' .. messageId
  -- Refused, or it has replaced an entry with the same message id.
  if redis.pcall('HSET', errors, field, id, 'e' .. id, field) ~= 2 then redis.pcall('HINCRBY', errors, '', -1) end
end
local function forget(errors, ids, first, last)
  local size = redis.call('HLEN', errors)
  if size == 0 then return end
  if not redis.call('HGET', errors, '') then
    redis.call('HDEL', errors, unpack(ids, first, last))
    return
  end
  if size == 1 then return end
  local fields, count = {}, last - first + 1
  for i = 1, count do fields[i] = 'e' .. ids[first + i - 1] end
  local names = redis.call('HMGET', errors, unpack(fields))
  size = count
  for i = 1, count do
    size = size + 1
    fields[size] = ids[first + i - 1]
    if names[i] then
      size = size + 1
      fields[size] = names[i]
    end
  end
  redis.call('HDEL', errors, unpack(fields))
end`

/**
 * `append()` in the commit of a transaction, with the index: adds an entry, and its message id to the index.
 *
 *     keys: `entries` and `errors` of a destination
 *     arguments: '*', the fields of the entry, its message id
 *     gives: the id of the entry
 *
 * A stream that is rolled back may have had fewer entries, so the index is incomplete then.
 */
export const appendFragment: CommitFragment = {
  letter: 'o',
  ...script(`${messageIndex}
fragment.type = { 'stream', 'hash' }
function fragment.run(name, k, a, argc)
  local id = redis.pcall('XADD', KEYS[k], unpack(ARGV, a, a + argc - 2))
  if type(id) == 'string' then addToIndex(KEYS[k + 1], id, ARGV[a + argc - 1]) end
  return id
end
function fragment.undo(errors) redis.pcall('HSET', errors, '', 0) end`),
}

/** `addedTo(stream)`: how many entries were ever added to it; 0 if it does not exist; `nil` if that is unknown: before Redis 7.0, or without the permission. */
const added = `local function addedTo(stream)
  local info = redis.pcall('XINFO', 'STREAM', stream)
  if info.err then return string.find(info.err, 'no such key', 1, true) and 0 or nil end
  for i = 1, #info, 2 do
    if info[i] == 'entries-added' then return info[i + 1] end
  end
end`

/** `idsWith(messageId)`: a list of the ids of the entries with this message id, and `false`; `nil` if the index is not complete. KEYS: the six of a destination. */
export const lookup: string = `${added}
local function idsWith(messageId)
  local counted = redis.call('HGET', KEYS[5], '')
  if not counted or tonumber(counted) ~= addedTo(KEYS[1]) then return end
  local fields = { 'm' .. messageId }
  for i = 2, ${maxSame} do fields[i] = 'm' .. messageId .. '\\0' .. i end
  return redis.call('HMGET', KEYS[5], unpack(fields))
end`

/** Begins the building of the index. KEYS: the six of a destination. Returns how many entries it lacks, or '' if the server does not know. */
export const beginIndex: Script = script(`${types}
${added}
local problem = checkKeys(1)
if problem then return problem end
local number = addedTo(KEYS[1])
if not number then return '' end
redis.call('HSETNX', KEYS[5], '', 0)
return string.format('%.0f', number - redis.call('HGET', KEYS[5], ''))`)

/**
 * Removes index entries that versions without the index have left behind. KEYS: the six of a destination. ARGV: cursor, about how many. Returns the next cursor.
 */
export const sweepIndex: Script = script(`${types}
local problem = checkKeys(1)
if problem then return problem end
local page = redis.call('HSCAN', KEYS[5], ARGV[1], 'MATCH', 'e*', 'COUNT', ARGV[2])
for i = 1, #page[2], 2 do
  local field, name = page[2][i], page[2][i + 1]
  local id = string.sub(field, 2)
  if #redis.call('XRANGE', KEYS[1], id, id) == 0 then
    if redis.call('HGET', KEYS[5], name) == id then redis.call('HDEL', KEYS[5], name) end
    redis.call('HDEL', KEYS[5], field)
  end
end
return page[1]`)

/** Adds entries that exist to the index. KEYS: the six of a destination. ARGV: id and message id of each. Returns 1, or 0 if too many entries have the same message id. */
export const indexEntries: Script = script(`${types}
local problem = checkKeys(1)
if problem then return problem end
local errors = KEYS[5]
local function isFree(field, id)
  local held = redis.call('HGET', errors, field)
  return not held or held == id or redis.call('HGET', errors, 'e' .. held) ~= field
end
for i = 1, #ARGV, 2 do
  local id, field = ARGV[i], 'm' .. ARGV[i + 1]
  if #redis.call('XRANGE', KEYS[1], id, id) > 0 then
    local free, same = field, 1
    while not isFree(free, id) do
      same = same + 1
      if same > ${maxSame} then return 0 end
      free = field .. '\\0' .. same
    end
    redis.call('HSET', errors, free, id, 'e' .. id, free)
  end
end
return 1`)

/**
 * Ends the building of the index. KEYS: the six of a destination. ARGV: how many entries it lacked when it began. Changes nothing if a store without the index has
 * added entries since then, or the key was deleted.
 */
export const completeIndex: Script = script(`${types}
${added}
local problem = checkKeys(1)
if problem then return problem end
local number, counted = addedTo(KEYS[1]), redis.call('HGET', KEYS[5], '')
if not number or not counted or string.format('%.0f', number - counted) ~= ARGV[1] then return end
redis.call('HSET', KEYS[5], '', number)`)
