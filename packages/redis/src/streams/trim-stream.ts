import { checkCount, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import { type Script, script } from '../client/port.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { shardNames } from './entries/stream-names.ts'

export interface TrimStreamOptions {
  readonly stream: string
  /** The same number as that of the publisher and the sources. */
  readonly shards?: number | undefined
  /** The maximum number of entries that one step deletes: the server does nothing else meanwhile. Default: 1,000. */
  readonly limit?: number | undefined
  /** Whether `XTRIM MINID` may be used, which is faster. Default: true, on servers that have it, from 6.2 on. */
  readonly minId?: boolean | undefined
}

// Finding the acked entries and deleting them is one step: no client can read or ack an entry in between.
// KEYS: the stream. ARGV: limit, 1 if MINID may be used. Answers the number of deleted entries, and 1 if there may be more.
const trim: Script = script(`
local stream, limit = KEYS[1], tonumber(ARGV[1])
-- Compared as text, because the halves of an id have 64 bits and a number in Lua has 53.
local function less(left, right)
  local a, b = { string.match(left, '^(%d+)-(%d+)$') }, { string.match(right, '^(%d+)-(%d+)$') }
  for half = 1, 2 do
    if #a[half] ~= #b[half] then return #a[half] < #b[half] end
    if a[half] ~= b[half] then return a[half] < b[half] end
  end
  return false
end
if redis.call('EXISTS', stream) == 0 then return { 0, 0 } end
-- Every group has acked the entries before it, or up to and including it.
local bound, included
for _, facts in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local group = {}
  for at = 1, #facts, 2 do group[facts[at]] = facts[at + 1] end
  local first = redis.call('XPENDING', stream, group['name'])[2]
  local until_, with = first or group['last-delivered-id'], not first
  if not bound or less(until_, bound) or (until_ == bound and not with) then bound, included = until_, with end
end
-- Without a group no entry was delivered.
if not bound or bound == '0-0' then return { 0, 0 } end
local function hasMinId()
  if ARGV[2] ~= '1' then return false end
  local information = redis.pcall('INFO', 'server')
  if type(information) ~= 'string' then return false end
  local major, minor = string.match(information, 'redis_version:(%d+)%.(%d+)')
  return major and (tonumber(major) > 6 or (tonumber(major) == 6 and tonumber(minor) >= 2))
end
if hasMinId() then
  -- By whole nodes, as many as the limit allows: none if a node holds more entries than that.
  local deleted = redis.call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', limit)
  if deleted > 0 then return { deleted, 1 } end
end
-- The rest by their ids. In short pages, because a range also returns the fields of its entries.
local ids, from = {}, '-'
while #ids < limit do
  local count, before = math.min(100, limit - #ids + 1), #ids
  local found = redis.call('XRANGE', stream, from, bound, 'COUNT', count)
  for _, entry in ipairs(found) do
    if #ids < limit and entry[1] ~= from and (included or entry[1] ~= bound) then ids[#ids + 1] = entry[1] end
  end
  if #found < count or #ids == before then break end
  -- The last entry is also the first of the next page: older servers have no exclusive ranges.
  from = ids[#ids]
end
if #ids == 0 then return { 0, 0 } end
return { redis.call('XDEL', stream, unpack(ids)), #ids == limit and 1 or 0 }`)

/**
 * Deletes the entries that every group of a stream has acked, and no others; without a group none. Resolves to the number of entries.
 * A group that is created later, also one that starts at the first entry, does not get the deleted entries: create the groups before you trim.
 */
export async function trimStream(redis: Redis, options: TrimStreamOptions): Promise<number> {
  const { stream, shards, limit = 1000, minId = true, ...unknown } = options
  rejectUnknownOptions('trimStream()', unknown)
  checkName('stream', stream)
  if (shards !== undefined) checkCount('shards', shards)
  checkCount('limit', limit)
  const { port } = internalsOf(redis)
  // Lua cannot pass on more values in one call.
  const most = Math.min(limit, 4000)
  let total = 0
  for (const name of shardNames(stream, shards)) {
    for (let more = true; more; ) {
      const reply = await port.evaluate(trim, [name], [String(most), minId ? '1' : '0'])
      const [deleted, again] = (reply as readonly unknown[]).map(Number)
      total += deleted ?? 0
      more = again === 1
    }
  }
  return total
}
