import { claimLua, destinationsLua, oldestLua, pollerLua } from './claim-fragment.ts'
import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/**
 * Claims records with order per key: for each key a run from its first record on, and none while a record of the key is in flight. Records without a key are claimed
 * beside them, in no order. The live store objects share the digests of keys evenly; records of an object that is no longer live are claimable again, with
 * the attempt counted. Keys are found from one to the next, so that records behind the first ones of a key are never read.
 *
 *     KEYS: those of a shard
 *     ARGV: limit, lease, token, the name of the store object, how many further keys and members to read; 'all', 'only' or 'except', destination hashes, the one to begin behind, the most
 *           bytes of all bodies together, '1' if the first record is claimed even if it is larger; what happens to records behind a parked one: 'given', 'kept'
 *           or 'marked'; '1' if one store object at a time may poll; '1' if records with a key come before those without; destination hashes, and the key to begin behind in each
 *     returns: the destination to begin behind next time; '1' if there may be more that it did not read; the number of removed members; the number
 *            of parked records; the bytes of all bodies; '1' if it stopped before a record that was too large; the time; destination hashes, and the key to begin
 *            behind in each; then for each record id, body, attempts, created, seq, the parked record before it or '', and destinationHash and key or ''
 *     writes: pollers; for each inflight, keys, state, then out of ready, waiting and keys; counts
 */
export const claimOrderedScript: OutboxScript = outboxScript(
  'claim_ordered',
  `${shardLua}
do
  local problem = ackord.mismatch(1, true)
  if problem then return redis.error_reply(problem) end
end
${pollerLua}
local limit, lease, token, mine, budget = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local behindParked, exclusive, keyedFirst, cursors = ARGV[11], ARGV[12] == '1', ARGV[13] == '1', {}
for destinationHash, key in string.gmatch(ARGV[14], '(%S+) (%S+)') do cursors[destinationHash] = key end

if exclusive then
  for name in pairs(living()) do if name ~= mine then return { ARGV[8], '0', 0, 0, 0, '0', now, '' } end end
end
${claimLua}

-- Records of objects that are gone may have crashed them, so that counts as an attempt. Records of this object that it does not know of, because an answer was lost, were never received.
local gone = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', pollers, '-inf', '+inf')) do if not living()[name] then gone[#gone + 1] = name end end
local inFlight
if #gone > 0 then inFlight = redis.call('ZRANGEBYSCORE', inflight, '-inf', '+inf')
else inFlight = redis.call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, budget) end
local back = {}
for i, text in ipairs(fetch(state, inFlight)) do
  local id, s = inFlight[i], ackord.read(text)
  if not s or s.status ~= 'O' or s.token == '' then
    removed = removed + 1
    back[#back + 1] = id
  else
    local owner = ownerOf(s.token) or ''
    if not living()[owner] then s.attempts = s.attempts + 1 end
    if not living()[owner] or owner == mine and s.expires <= now then
      lapse(id, s)
      back[#back + 1] = id
    end
  end
end
remove('ZREM', inflight, back)
remove('ZREM', pollers, gone)
redis.call('ZADD', pollers, now + lease, mine)
living()[mine] = true
if #due == budget then more = '1' end

-- Our share of all digests, by their first two letters.
local names, low, high = {}, nil, nil
for name in pairs(living()) do names[#names + 1] = name end
table.sort(names)
do
  local alphabet = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
  local function at(number)
    if number >= 4096 then return '~' end
    local one, other = math.floor(number / 64) + 1, number % 64 + 1
    return string.sub(alphabet, one, one) .. string.sub(alphabet, other, other)
  end
  for i, name in ipairs(names) do
    if name == mine then low, high = at(math.floor(4096 * (i - 1) / #names)), at(math.floor(4096 * i / #names)) end
  end
end

local classes, known = 'fkr', 'fkr'
${destinationsLua}

local reply, count, looked, bytes, full = { cursor, '0', 0, 0, 0, '0', now, '' }, 0, 0, 0, false
local given = {}
${oldestLua}

-- The length of a body is known before the body is read, so that only claimed bodies are in memory. false: it does not fit.
local function give(id, s, size, behind)
  if bytes + size > maxBytes and (count > 0 or not atLeastOne) then
    full = true
    return false
  end
  local one, isKeyed = member(id, s), s.key ~= ''
  s.expires, s.token = now + lease, token
  redis.call('ZADD', inflight, s.expires, id)
  addToKey('i', id, s)
  redis.call('HSET', state, id, ackord.write(s))
  redis.call('ZREM', ready, one)
  if isKeyed then redis.call('ZREM', waiting, one) end
  removeFromKey('o', id, s)
  ackord.count(s.destinationHash, 'i', 1)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = id, false, s.attempts + 1, s.created, s.seq
  reply[n + 6], reply[n + 7] = behind or '', isKeyed and s.destinationHash .. s.key or ''
  given[#given + 1] = id
  count, bytes = count + 1, bytes + size
  return true
end
-- Records that cannot be read are parked.
local function parkUnreadable(id, s, reason)
  local one = member(id, s)
  addToKey('f', id, s)
  park(id, s, reason)
  removeFromKey('o', id, s)
  redis.call('ZREM', ready, one)
  redis.call('ZREM', waiting, one)
end
local function broken(id, destinationHash, key, number)
  local s = { attempts = 0, seq = number, created = string.format('%.0f', now), destinationHash = destinationHash, print = '-', key = key }
  parkUnreadable(id, s, 'It cannot be read: its state is missing or broken.')
end

-- The first member of a key at a place that fulfils the condition; others are removed.
local function firstAt(letter, destinationHash, key, status)
  while true do
    local from = letter .. destinationHash .. key
    local one = redis.call('ZRANGEBYLEX', keys, '[' .. from, '(' .. from .. '~', 'LIMIT', 0, 1)[1]
    if not one then return end
    local id = string.sub(one, 38)
    local s = ackord.read(redis.call('HGET', state, id))
    if s and s.status == status and (s.token ~= '') == (letter == 'i') and ackord.line(letter, id, s) == one then return id, s end
    redis.call('ZREM', keys, one)
    removed = removed + 1
  end
end
-- The next record of a run that may be claimed, or nil if the run has ended.
local function peek(run)
  while not run.over do
    local one = run.page[run.at]
    if not one then
      if run.isLast then break end
      run.page = redis.call('ZRANGEBYLEX', keys, run.from, run.last, 'LIMIT', 0, run.most)
      run.at, run.isLast, run.most = 1, #run.page < run.most, 20
      one = run.page[1]
      if not one then break end
      run.from = '(' .. run.page[#run.page]
    end
    local id = string.sub(one, 38)
    local s, size = ackord.read(redis.call('HGET', state, id)), redis.call('HSTRLEN', entries, id)
    if s and s.status == 'O' and s.token == '' and ackord.line('o', id, s) == one then
      local isBehind = run.parked and s.seq > run.parkedSeq
      if s.at > now or isBehind and behindParked == 'kept' then break end
      if size > 0 then return id, s, size, isBehind and run.parked or nil end
      parkUnreadable(id, s, 'It cannot be read: its body is missing.')
      break
    elseif size > 0 and not (s and statuses[s.status]) then
      broken(id, run.destinationHash, run.key, string.sub(one, 22, 37))
      break
    end
    redis.call('ZREM', keys, one)
    removed = removed + 1
    run.at = run.at + 1
  end
  run.over = true
end
local function takeOf(run)
  local id, s, size, behind = peek(run)
  if not id or not give(id, s, size, behind) then return false end
  run.at = run.at + 1
  return true
end

-- A destination: its keys within our share, from behind the one that was read last, and records without a key.
local function queueOf(destinationHash)
  local after, start = cursors[destinationHash], '[o' .. destinationHash .. low
  if after and (after < low or after >= high) then after = nil end
  return { destinationHash = destinationHash, page = {}, taken = 0, runs = {}, at = 0, start = start, after = after, met = after, from = after and '(o' .. destinationHash .. after .. '~' or start,
    last = '(o' .. destinationHash .. high, isWrapped = not after, isKeyedNext = keyedFirst }
end
-- The run of the next key that has claimable records.
local function nextRun(queue)
  while not queue.isDone do
    if looked >= budget then
      more = '1'
      break
    end
    local one = redis.call('ZRANGEBYLEX', keys, queue.from, queue.last, 'LIMIT', 0, 1)[1]
    if not one then
      if queue.isWrapped then break end
      queue.isWrapped, queue.from, queue.last = true, queue.start, '[o' .. queue.destinationHash .. queue.after .. '~'
    elseif #one ~= 59 or not string.find(one, '^[%w_-]+$') then
      redis.call('ZREM', keys, one)
      removed, looked = removed + 1, looked + 1
    else
      local key = string.sub(one, 10, 21)
      queue.before, queue.met, queue.from = queue.met, key, '(o' .. queue.destinationHash .. key .. '~'
      if not firstAt('i', queue.destinationHash, key, 'O') then
        local head = 'o' .. queue.destinationHash .. key
        local run = { destinationHash = queue.destinationHash, key = key, page = {}, at = 1, most = 1, from = '[' .. head, last = '(' .. head .. '~' }
        if behindParked ~= 'given' then
          local id, s = firstAt('f', queue.destinationHash, key, 'F')
          run.parked, run.parkedSeq = id, s and s.seq
        end
        if peek(run) then return run end
      end
      looked = looked + 1
    end
  end
  queue.isDone = true
end
local function takeKeyed(queue)
  local run = nextRun(queue)
  if run then
    queue.runs[#queue.runs + 1] = run
    if takeOf(run) then return true end
    -- It comes first the next time.
    queue.met = queue.before
    return false
  end
  -- Each destination has had one: another one of each.
  while #queue.runs > 0 and not full do
    queue.at = queue.at % #queue.runs + 1
    if takeOf(queue.runs[queue.at]) then return true end
    if not full then
      table.remove(queue.runs, queue.at)
      queue.at = queue.at - 1
    end
  end
  return false
end
-- Records that are claimed or parked are no longer in ready, so that the next page begins behind them.
local share = math.max(1, math.floor(limit / math.max(1, #serving)))
local function takeKeyless(queue)
  while true do
    if queue.taken == #queue.page then
      if queue.page.isLast then return false end
      queue.page, queue.taken = first(queue.destinationHash, share, 'fr'), 0
      queue.page.isLast = #queue.page < share
      if #queue.page == 0 then return false end
    end
    local one = queue.page[queue.taken + 1]
    local id = string.sub(one, 26)
    local s, size = ackord.read(redis.call('HGET', state, id)), redis.call('HSTRLEN', entries, id)
    if s and s.status == 'O' and s.token == '' and member(id, s) == one then
      if size > 0 then
        if not give(id, s, size) then return false end
        queue.taken = queue.taken + 1
        return true
      end
      parkUnreadable(id, s, 'It cannot be read: its body is missing.')
    elseif size > 0 and not (s and statuses[s.status]) then
      broken(id, queue.destinationHash, '', seqOf(one))
      redis.call('ZREM', ready, one)
    else
      redis.call('ZREM', ready, one)
      removed = removed + 1
    end
    queue.taken, looked = queue.taken + 1, looked + 1
    if looked >= budget then
      more = '1'
      return false
    end
  end
end
local function takeOne(queue)
  local isKeyed = queue.isKeyedNext
  queue.isKeyedNext = not isKeyed
  local take, other = takeKeyless, takeKeyed
  if isKeyed then take, other = takeKeyed, takeKeyless end
  return take(queue) or not full and other(queue)
end

-- One of each destination, then a second of each, so that no destination waits for the others, and a limit in bytes cuts runs at their ends.
local queues = {}
for i, destinationHash in ipairs(serving) do queues[i] = queueOf(destinationHash) end
local hasMore = true
while hasMore and count < limit and not full do
  hasMore = false
  for _, queue in ipairs(queues) do
    if count >= limit or full then break end
    if takeOne(queue) then
      hasMore = true
      reply[1] = queue.destinationHash
    end
  end
end
for i, body in ipairs(fetch(entries, given)) do reply[8 + 7 * (i - 1) + 2] = body end
ackord.flush(1)
local met = {}
for _, queue in ipairs(queues) do if queue.met then met[#met + 1] = queue.destinationHash .. ' ' .. queue.met end end
reply[2], reply[3], reply[4], reply[5], reply[6], reply[8] = more, removed, parked, bytes, full and '1' or '0', table.concat(met, ' ')
return reply`,
)
