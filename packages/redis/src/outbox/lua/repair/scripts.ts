import { keyCount } from '../layout.ts'
import { type OutboxScript, outboxScript, shardLua } from '../scripts/prelude.ts'
import { heldLua } from './runner-lock.ts'

/** In the order in which the step script counts them. */
export const repairClasses = [
  /** (a) a member of ready or waiting without a record. */
  'orphans',
  /** (b) an open record that no claim would find. Its stored time is restored. */
  'unindexed',
  /** (c) a published or parked record that claims would find. */
  'settled',
  /** (d) a lease that has run out. */
  'expired',
  /** (e) a body without a state: it is parked. */
  'stateless',
  /** (f) a state without a body: open ones are parked. */
  'bodiless',
  /** (g) another wrong or missing index entry. */
  'strays',
  /** (h) a time or a score that is invalid, or not that of the record. */
  'times',
  /** Wrong numbers in `counts`. */
  'counts',
] as const

export type RepairClass = (typeof repairClasses)[number]

/** The phases of a pass. Wrong index entries are removed first, then missing ones are added, so that one pass is enough. */
export const repairPhases = [
  'ready',
  'waiting',
  'inflight',
  'sent',
  'index',
  'keys',
  'errors',
  'edited',
  'state',
  'entries',
  'sums',
] as const

export type RepairPhase = (typeof repairPhases)[number]

/**
 * Checks a part of a shard, and repairs what it finds in the same step, so that it may run at any time.
 *
 *     KEYS: those of a shard, the position of the pass, the lock
 *     ARGV: phase, cursor, about how many, '1' to change nothing, token and lease of the lock, the most records whose counts are recomputed;
 *           then the next phase
 *     returns: 'lost' alone, if another process has the lock. Otherwise the next cursor; the number of findings of each class; '1' if the counts were not recomputed;
 *            then for each record whose body must be read: 'state' or 'name' for what is missing, id, destinationHash, body
 *     writes: for each record its new index entries, then its state, then out of the old ones; counts; the position of the pass
 */
export const repairStepScript: OutboxScript = outboxScript(
  'repair_step',
  `${shardLua}
${heldLua}
local position, lock = KEYS[${keyCount + 1}], KEYS[${keyCount + 2}]
local phase, cursor, most, dry, token, lease, mostCounted, following = unpack(ARGV)
dry = dry == '1'
local found = redis.call('TYPE', position).ok
if found ~= 'none' and found ~= 'hash' then return redis.error_reply('WRONGTYPE the key ' .. position .. ' of an outbox holds a ' .. found .. ', not a hash') end
if not dry then
  if not held(lock, token, lease) then return { 'lost' } end
  open()
end
local function write(...) if not dry then redis.call(...) end end

local names = { ${repairClasses.map((name) => `'${name}'`).join(', ')} }
local tallies, reply = {}, { '0', '', '0' }
local function tally(name) tallies[name] = (tallies[name] or 0) + 1 end
local function count(...) if not dry then ackord.count(...) end end
local function has(key, one) return redis.call('ZSCORE', key, one) end
local letters = { O = 'o', S = 's', F = 'f' }
local latest, longest = 8.64e15, 30 * 24 * 3600 * 1000
local function formed(id) return #id == 22 and string.find(id, '^[%w_-]+$') end
-- An invalid state is ignored.
local function look(id, text)
  if not formed(id) then return end
  local s = ackord.read(text or redis.call('HGET', state, id))
  if s and letters[s.status] and #s.seq == 16 and #s.destinationHash == 8 and string.find(s.destinationHash, '^[%w_-]+$') and (s.key == '' or #s.key == 12) then return s end
end
local function endless(s) return s.expires > now + longest end
local function ask(what, id, destinationHash)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = what, id, destinationHash, redis.call('HGET', entries, id) or ''
end
-- Its member of keys, or nil if it has none.
local function lineOf(id, s)
  if s.status ~= 'S' then return ackord.line(s.status == 'F' and 'f' or s.token == '' and 'o' or 'i', id, s) end
end
local function lapse(id, s)
  local before = lineOf(id, s)
  s.expires, s.token = 0, ''
  count(s.destinationHash, 'i', -1)
  if not dry then
    redis.call('ZADD', ready, 0, member(id, s))
    addToKey('o', id, s)
    redis.call('HSET', state, id, ackord.write(s))
    if before then redis.call('ZREM', keys, before) end
  end
end
local function park(id, s, reason)
  write('ZADD', index, 0, 'f' .. s.seq .. id)
  if not dry then fail(id, reason) end
  local one, before = member(id, s), lineOf(id, s)
  if s.token ~= '' then count(s.destinationHash, 'i', -1) end
  count(s.destinationHash, 'o', -1)
  count(s.destinationHash, 'f', 1)
  local opened = 'o' .. s.seq .. id
  s.status, s.at, s.expires, s.token = 'F', now, 0, ''
  if not dry then addToKey('f', id, s) end
  write('HSET', state, id, ackord.write(s))
  if before then write('ZREM', keys, before) end
  write('ZREM', ready, one)
  write('ZREM', waiting, one)
  write('ZREM', inflight, id)
  write('ZREM', index, opened)
end

local phases = {}
local function claimable(key, one)
  local id = string.sub(one, 26)
  local s = look(id)
  if not s then
    tally('orphans')
    write('ZREM', key, one)
  elseif s.status ~= 'O' then
    tally('settled')
    write('ZREM', key, one)
  elseif s.token ~= '' or one ~= member(id, s) then
    tally('strays')
    write('ZREM', key, one)
  else return s end
end
function phases.ready(one, score)
  local s = claimable(ready, one)
  if s and score ~= 0 then
    tally('times')
    write('ZADD', ready, 0, one)
  end
end
function phases.waiting(one, score)
  local s = claimable(waiting, one)
  if not s then return end
  if has(ready, one) then
    tally('strays')
    if s.at <= now or s.at >= latest then return write('ZREM', waiting, one) end
    write('ZREM', ready, one)
  end
  if score ~= s.at and s.at < latest then
    tally('times')
    write('ZADD', waiting, string.format('%.0f', s.at), one)
  end
end
function phases.inflight(id, score)
  local s = look(id)
  if not s then tally('strays')
  elseif s.status ~= 'O' then tally('settled')
  elseif s.token == '' then tally('strays')
  elseif s.expires > now and not endless(s) then
    if score ~= s.expires then
      tally('times')
      write('ZADD', inflight, string.format('%.0f', s.expires), id)
    end
    return
  else
    tally(endless(s) and 'times' or 'expired')
    lapse(id, s)
  end
  write('ZREM', inflight, id)
end
function phases.sent(id, score)
  local s = look(id)
  if not s or s.status ~= 'S' then
    tally('strays')
    write('ZREM', sent, id)
  elseif score ~= s.at and s.at < latest then
    tally('times')
    write('ZADD', sent, string.format('%.0f', s.at), id)
  end
end
function phases.index(one, score)
  local id = string.sub(one, 18)
  local s = look(id)
  if not s or one ~= letters[s.status] .. s.seq .. id then
    tally('strays')
    write('ZREM', index, one)
  elseif score ~= 0 then
    tally('times')
    write('ZADD', index, 0, one)
  end
end
function phases.keys(one, score)
  local id = string.sub(one, 38)
  local s = look(id)
  if not s or one ~= lineOf(id, s) then
    tally('strays')
    write('ZREM', keys, one)
  elseif score ~= 0 then
    tally('times')
    write('ZADD', keys, 0, one)
  end
end
function phases.errors(id)
  if look(id) then return end
  tally('strays')
  write('HDEL', errors, id)
end
function phases.edited(id)
  if look(id) then return end
  tally('strays')
  write('HDEL', edited, id)
end
function phases.state(id, text)
  local s = look(id, text)
  local body = redis.call('HEXISTS', entries, id) == 1
  if not s then
    -- A record with a body gets a state when the bodies are read.
    if not body then
      tally('bodiless')
      write('HDEL', state, id)
    end
    return
  end
  local was = ackord.write(s)
  if s.at >= latest then
    tally('times')
    s.at = now
    if s.status == 'O' and s.token == '' then write('ZREM', waiting, member(id, s)) end
    if s.status == 'S' then write('ZADD', sent, string.format('%.0f', now), id) end
  end
  if s.status ~= 'O' and (s.token ~= '' or s.expires ~= 0) or s.token == '' and s.expires ~= 0 then
    tally(s.status == 'O' and 'times' or 'settled')
    s.expires, s.token = 0, ''
  end
  local line = lineOf(id, s)
  local unlined = line and not has(keys, line)
  if s.status == 'O' and s.token ~= '' and not has(inflight, id) then
    if s.expires > now and not endless(s) then
      tally('unindexed')
      write('ZADD', inflight, string.format('%.0f', s.expires), id)
    else
      tally(endless(s) and 'times' or 'expired')
      lapse(id, s)
    end
  elseif s.status == 'O' and s.token == '' and not has(ready, member(id, s)) and not has(waiting, member(id, s)) then
    tally('unindexed')
    if not dry then await(id, s) end
  elseif s.status == 'S' and not has(sent, id) then
    tally('strays')
    write('ZADD', sent, string.format('%.0f', s.at), id)
  end
  if not has(index, letters[s.status] .. s.seq .. id) then
    tally('strays')
    write('ZADD', index, 0, letters[s.status] .. s.seq .. id)
  end
  if unlined then
    tally('strays')
    write('ZADD', keys, 0, lineOf(id, s))
  end
  if ackord.write(s) ~= was then write('HSET', state, id, ackord.write(s)) end
  if not body then
    tally('bodiless')
    -- An empty body, so that the record is listed, and recognised for as long as it is kept.
    write('HSET', entries, id, '')
    if s.status == 'O' then park(id, s, 'It cannot be read: its body is missing.') end
  elseif redis.call('HEXISTS', destinations, s.destinationHash) == 0 then ask('name', id, s.destinationHash) end
end
function phases.entries(id)
  if formed(id) and not look(id) then ask('state', id, '') end
end

-- With an invalid number in counts, no record of its destination could change its state, here neither.
if phase == '${repairPhases[0]}' and cursor == '0' then
  local counted = redis.call('HGETALL', counts)
  for i = 1, #counted, 2 do
    if not string.find(counted[i + 1], '^-?%d+$') or #counted[i + 1] > 15 then
      tally('counts')
      write('HDEL', counts, counted[i])
    end
  end
end
if phase == 'sums' then
  local highest = 0
  for _, letter in ipairs({ 'o', 's', 'f' }) do
    local last = redis.call('ZREVRANGEBYLEX', index, '(' .. letter .. '~', '[' .. letter, 'LIMIT', 0, 1)[1]
    if last then highest = math.max(highest, tonumber(string.sub(last, 2, 17)) or 0) end
  end
  if highest > tonumber(redis.call('GET', seq) or '0') then
    tally('times')
    write('SET', seq, string.format('%.0f', highest))
  end
  if redis.call('HLEN', state) > tonumber(mostCounted) then reply[3] = '1' else
    local sums = {}
    local function add(field) sums[field] = (sums[field] or 0) + 1 end
    local flat = redis.call('HGETALL', state)
    for i = 1, #flat, 2 do
      local s = look(flat[i], flat[i + 1])
      if s then
        add(s.destinationHash .. letters[s.status])
        if s.token ~= '' then add(s.destinationHash .. 'i') end
      end
    end
    local counted = redis.call('HGETALL', counts)
    for i = 1, #counted, 2 do
      local field = counted[i]
      if tonumber(counted[i + 1]) ~= sums[field] then
        tally('counts')
        if sums[field] then write('HSET', counts, field, sums[field]) else write('HDEL', counts, field) end
      end
      sums[field] = nil
    end
    for field, sum in pairs(sums) do
      tally('counts')
      write('HSET', counts, field, sum)
    end
  end
else
  local key = ({ entries = entries, state = state, errors = errors, edited = edited, ready = ready, waiting = waiting, inflight = inflight, sent = sent, index = index, keys = keys })[phase]
  local isHash = key == entries or key == state or key == errors or key == edited
  local page = redis.call(isHash and 'HSCAN' or 'ZSCAN', key, cursor, 'COUNT', most)
  reply[1] = page[1]
  local seen = {}
  for i = 1, #page[2], 2 do
    local one = page[2][i]
    if not seen[one] then
      seen[one] = true
      if isHash then phases[phase](one, page[2][i + 1]) else phases[phase](one, tonumber(page[2][i + 1])) end
    end
  end
end
ackord.flush(1)
local numbers = {}
for i, name in ipairs(names) do numbers[i] = tallies[name] or 0 end
reply[2] = table.concat(numbers, ' ')
if not dry then
  if reply[1] == '0' and following == '' then redis.call('DEL', position)
  elseif reply[1] == '0' then redis.call('HSET', position, 'phase', following, 'cursor', '0')
  else redis.call('HSET', position, 'phase', phase, 'cursor', reply[1]) end
end
return reply`,
)

/**
 * Parks a record with a body and no state, or stores the name of a destination, if that is still missing.
 *
 *     KEYS: those of a shard, the position of the pass, the lock
 *     ARGV: token and lease of the lock, 'state' or 'name' for what is missing, id, destinationHash, destination, print
 *     returns: 1, or 0 if it is no longer missing, or -1 if another process has the lock
 *     writes: 'state': seq, error, index, keys, state, the name of the destination; counts. 'name': that
 */
export const adoptScript: OutboxScript = outboxScript(
  'adopt',
  `${shardLua}
${heldLua}
local token, lease, missing, id, destinationHash, name, print = unpack(ARGV)
if not held(KEYS[${keyCount + 2}], token, lease) then return -1 end
if missing == 'name' then return redis.call('HSETNX', destinations, destinationHash, name) end
local statuses = { O = true, S = true, F = true }
local s = ackord.read(redis.call('HGET', state, id))
if s and statuses[s.status] and #s.seq == 16 and #s.destinationHash == 8 or redis.call('HEXISTS', entries, id) == 0 then return 0 end
open()
local number = string.format('%016.0f', redis.call('INCRBY', seq, 1))
fail(id, 'Its state was missing or broken: whether it was published is not known.')
redis.call('ZADD', index, 0, 'f' .. number .. id)
local said, key = ackord.parts(print)
if not ackord.ordered(1) then key = '' end
local adopted = { status = 'F', attempts = 0, seq = number, created = string.format('%.0f', now), at = now, destinationHash = destinationHash,
  print = said, key = key, expires = 0, token = '' }
addToKey('f', id, adopted)
redis.call('HSET', state, id, ackord.write(adopted))
redis.call('HSETNX', destinations, destinationHash, name)
ackord.count(destinationHash, 'f', 1)
ackord.flush(1)
return 1`,
)
