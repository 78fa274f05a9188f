import { splitLua } from '../../../client/port.ts'

// Parts that the scripts share.

/** The consumers of entries that no relay has claimed. Names of relays end in their lease, so no relay has these names. */
export const waitingConsumer = 'waiting'
export const parkedConsumer = 'parked'

/** `now`: milliseconds, by the server's clock. */
export const clock = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`

/** Ids as members of a sorted set, where members with the same score sort by their bytes: padded, so that they sort as ids. */
export const members = `local function member(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return string.rep('0', 20 - #ms) .. ms .. '-' .. string.rep('0', 20 - #seq) .. seq
end
local function entry(member)
  local ms, seq = string.match(member, '^0*(%d+)-0*(%d+)$')
  return ms .. '-' .. seq
end`

/** Checks types before anything is written: a script that fails halfway is not rolled back. */
export const types = `local function check(first, ...)
  for i, wanted in ipairs({ ... }) do
    local found = redis.call('TYPE', KEYS[first + i - 1]).ok
    if found ~= 'none' and found ~= wanted then
      return redis.error_reply('WRONGTYPE the key ' .. KEYS[first + i - 1] .. ' of an outbox holds a ' .. found .. ', not a ' .. wanted)
    end
  end
end
local function checkKeys(first) return check(first, 'stream', 'zset', 'zset', 'zset', 'hash', 'hash') end`

/**
 * Which of these entries a relay still holds: pending for it with any lease, not expired, and of the same delivery.
 * The hot path: one command suffices where the entries are close together, as after a read; mostly no other entry is pending between them.
 */
export const holding: string = `${splitLua}
local function pendingOf(stream, group, ids, wanted)
  local count = 2 * wanted + 10
  local page = redis.pcall('XPENDING', stream, group, ids[1], ids[wanted], count)
  if page.err then
    if string.find(page.err, 'NOGROUP', 1, true) then return {} end
    return page
  end
  if #page == wanted then
    local same = true
    for i = 1, wanted do
      if page[i][1] ~= ids[i] then
        same = false
        break
      end
    end
    if same then return page end
  end
  local byId, found = {}, {}
  for i = 1, #page do byId[page[i][1]] = page[i] end
  for i = 1, wanted do
    local id = ids[i]
    -- Of two outcomes for one claim, the first counts.
    if id ~= ids[i - 1] then found[i] = byId[id] or #page == count and redis.call('XPENDING', stream, group, id, id, 1)[1] end
  end
  return found
end
local function leaseOf(owner, name)
  local base, lease = string.match(owner, '^(.*)/(%d+)$')
  return base == name and tonumber(lease) or 0
end`

/**
 * Counts the bytes that a script takes: `fits(fields)` returns whether an entry may be taken too, and counts it if so. A script reads an entry before it claims it, so that
 * an entry that does not fit stays as it is. ARGV of the scripts: the most bytes, and '1' if the first entry is taken even if it is larger.
 */
export const byteRoom = (
  maxBytes: number,
): string => `local maxBytes, atLeastOne = tonumber(ARGV[${maxBytes}]), ARGV[${maxBytes + 1}] == '1'
local taken, bytes, full, largest = 0, 0, false, 0
local function fits(fields)
  local size = 0
  for i = 1, #fields do size = size + #fields[i] end
  if bytes + size > maxBytes and (taken > 0 or not atLeastOne) then
    full = true
    return false
  end
  taken, bytes = taken + 1, bytes + size
  if size > largest then largest = size end
  return true
end`

/**
 * The group of the stream at KEYS[first]: `group.pending` and `group.last`, its last delivered id. `nil` without a group; in that case the second value says
 * whether the stream exists.
 */
export const groupInfo = `local function groupOf(first)
  local groups = redis.pcall('XINFO', 'GROUPS', KEYS[first])
  if groups.err then
    if string.find(groups.err, 'no such key', 1, true) then return nil, false end
    -- A stream that cannot be read is not an empty one. The same call again raises the error.
    redis.call('XINFO', 'GROUPS', KEYS[first])
  end
  for _, one in ipairs(groups) do
    local info = {}
    for i = 1, #one, 2 do info[one[i]] = one[i + 1] end
    if info.name == ARGV[1] then return { pending = info.pending, last = info['last-delivered-id'] } end
  end
  return nil, true
end`

/**
 * For scripts that list entries: `row(found)` returns of an entry its id, fields, state, deliveries that count, when it can be claimed, until when it is leased, when it was parked,
 * and the field of its failures. 'unread': no consumer has read it yet. KEYS: the six of a destination. ARGV: group.
 */
export const rows: string = `local function row(found)
  local id = found[1]
  local answer = redis.pcall('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  local pending = not answer.err and answer[1]
  local uncounted = tonumber(redis.call('HGET', KEYS[6], id))
  local state, attempts, available, leased, parked = 'unread', uncounted and 1 - uncounted or 0, '', '', ''
  if pending then
    local owner = pending[2]
    attempts = pending[4] - (uncounted or 0)
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
  return { id, found[2] or false, state, attempts, available, leased, parked, redis.call('HGET', KEYS[5], id) }
end`
