import { originField } from '../layout.ts'
import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/** `origins()`: the origins of a shard with their numbers, one after the other; and how many records were stored that they do not count. */
const originsLua = `local function origins()
  local found, flat, counted = {}, redis.call('HGETALL', meta), 0
  for i = 1, #flat, 2 do
    if string.sub(flat[i], 1, ${originField.length}) == '${originField}' then
      found[#found + 1], found[#found + 2] = string.sub(flat[i], ${originField.length + 1}), flat[i + 1]
      counted = counted + (tonumber(flat[i + 1]) or 0)
    end
  end
  return found, (tonumber(redis.call('GET', seq)) or 0) - counted
end`

/**
 * Reads the origins of records. Writes nothing.
 *
 *     KEYS: those of a shard
 *     ARGV: none
 *     returns: '1' if every record has one of these origins or is in `edited`; how many records were stored that they do not count; the number of edited ones; then origins and numbers
 */
export const originsScript: OutboxScript = outboxScript(
  'origins',
  `${shardLua}
${originsLua}
local found, uncounted = origins()
local isComplete = uncounted == (tonumber(redis.call('HGET', meta, 'uncounted')) or 0)
return { isComplete and '1' or '0', string.format('%.0f', uncounted), redis.call('HLEN', edited), found }`,
)

/**
 * Adds records to `edited`, if they exist and are not there yet.
 *
 *     KEYS: those of a shard
 *     ARGV: for each its id and message id
 *     returns: 0
 *     writes: edited
 */
export const addEditedScript: OutboxScript = outboxScript(
  'add_edited',
  `${shardLua}
for i = 1, #ARGV, 2 do
  if redis.call('HEXISTS', state, ARGV[i]) == 1 then redis.call('HSETNX', edited, ARGV[i], ARGV[i + 1]) end
end
return 0`,
)

/**
 * Ends the building of the index: all records that existed when it began have one of these origins, or are in `edited`.
 *
 *     KEYS: those of a shard
 *     ARGV: how many records were not counted when it began; how many origins; these; then unused origins, each with its number when it began
 *     returns: 1, or 0 if a record was stored since then whose origin was not counted
 *     writes: meta
 */
export const completeOriginsScript: OutboxScript = outboxScript(
  'complete_origins',
  `${shardLua}
${originsLua}
local _, uncounted = origins()
if string.format('%.0f', uncounted) ~= ARGV[1] then return 0 end
local last = 2 + tonumber(ARGV[2])
for i = last + 1, #ARGV, 2 do
  local field = '${originField}' .. ARGV[i]
  if redis.call('HGET', meta, field) == ARGV[i + 1] then redis.call('HDEL', meta, field) end
end
for i = 3, last do redis.call('HSETNX', meta, '${originField}' .. ARGV[i], 0) end
_, uncounted = origins()
redis.call('HSET', meta, 'uncounted', string.format('%.0f', uncounted))
return 1`,
)
