import { layoutVersion, maxOrigins, offsetOf, orderedLayoutVersion, originField } from '../layout.ts'

/**
 * Stores records, in any script that has `ackordLua` before it: that of the outbox, the commit of a transaction, a user's. The first function checks everything
 * and the second one writes, so that a script can do its own checks and writes in between:
 *
 *     ackord.check(k, a)     why the records cannot be stored, as the text of an error, or nil
 *     ackord.enqueue(k, a)   stores those that are not stored yet. Returns '<now>:' and a sign for each: '+' inserted, '=' duplicate, '!' conflict
 *
 *     KEYS from k on: those of a shard
 *     ARGV from a on: the number of records; '1' if a conflict is an error, else '0', and behind it 'o' if there is order per key; token and lease of a relay that receives them without a claim, or '' and 0;
 *                     then for each its id, destinationHash, destination, print with key, delay, body, origin
 *     writes: seq; for each body, its index entries, index, state; counts; the origins; the hint. Failures of the last three are ignored. `ackord.began` says whether it has written
 *
 * Arguments are made by `enqueueArguments()` or, for users, by `prepare()`.
 */
export const enqueueLua: string = `do
  local perRecord, head = 7, 4
  local call = redis.call
  -- Records that were checked and are not stored yet, by id: two records of one step may be in conflict with each other. false: the same step cancels the record that is stored
  -- or was to be.
  ackord.planned = {}
  function ackord.check(k, a)
    local problem = ackord.problem(k) or ackord.mismatch(k, string.sub(ARGV[a + 1] or '', 2) == 'o')
    if problem then return problem end
    local count = tonumber(ARGV[a])
    if not count or #ARGV < a + head + count * perRecord - 1 then return 'ERR the records of an outbox are not those of prepare()' end
    for i = 1, count do
      local at = a + head + (i - 1) * perRecord
      local name = call('HGET', KEYS[k + ${offsetOf('destinations')}], ARGV[at + 1])
      if name and name ~= ARGV[at + 2] then return 'ERR two destinations of an outbox have the same digest: ' .. name .. ', ' .. ARGV[at + 2] end
      if string.sub(ARGV[a + 1], 1, 1) == '1' then
        local id, print, planned, said = ARGV[at], nil, ackord.planned[ARGV[at]], ackord.parts(ARGV[at + 3])
        if planned == nil then
          local text = call('HGET', KEYS[k + ${offsetOf('state')}], id)
          local held = ackord.read(text)
          if text and not held then return 'CONFLICT ' .. id end
          print = held and held.print
        elseif planned then
          print = planned.print
        end
        if print and print ~= said then return 'CONFLICT ' .. id end
        if not print then ackord.planned[id] = { print = said, waits = (tonumber(ARGV[at + 4]) or 0) > 0 } end
      end
    end
  end
  function ackord.enqueue(k, a)
    local entries, state, index = KEYS[k + ${offsetOf('entries')}], KEYS[k + ${offsetOf('state')}], KEYS[k + ${offsetOf('index')}]
    local count, token, lease, now = tonumber(ARGV[a]), ARGV[a + 2], tonumber(ARGV[a + 3]), ackord.now()
    local signs, fresh, prints = {}, {}, {}
    for i = 1, count do
      local at = a + head + (i - 1) * perRecord
      local id, print = ARGV[at], ackord.parts(ARGV[at + 3])
      local text = not prints[id] and call('HGET', state, id)
      if prints[id] or text then
        local held = prints[id] or (ackord.read(text) or {}).print
        signs[i] = held == print and '=' or '!'
      else
        signs[i] = '+'
        prints[id] = print
        fresh[#fresh + 1] = at
      end
    end
    local reply = string.format('%.0f:', now) .. table.concat(signs)
    if #fresh == 0 then return reply end
    local last = call('INCRBY', KEYS[k + ${offsetOf('seq')}], #fresh)
    ackord.began = true
    -- Relays of earlier versions do not know order per key, and must not claim such records.
    if string.sub(ARGV[a + 1], 2) == 'o' then call('HSETNX', KEYS[k + ${offsetOf('meta')}], 'layout', '${orderedLayoutVersion}') end
    local origins = {}
    for i, at in ipairs(fresh) do
      local id, destinationHash, delay = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 4])
      local leased = token ~= '' and delay == 0
      local print, key = ackord.parts(ARGV[at + 3])
      local s = { status = 'O', attempts = leased and 1 or 0, seq = string.format('%016.0f', last - #fresh + i), created = string.format('%.0f', now),
        at = now + delay, destinationHash = destinationHash, print = print, key = key, expires = leased and now + lease or 0, token = leased and token or '' }
      call('HSET', entries, id, ARGV[at + 5])
      if leased then call('ZADD', KEYS[k + ${offsetOf('inflight')}], s.expires, id)
      elseif delay > 0 then call('ZADD', KEYS[k + ${offsetOf('waiting')}], s.at, ackord.member(id, s))
      else call('ZADD', KEYS[k + ${offsetOf('ready')}], 0, ackord.member(id, s)) end
      local line = ackord.line('o', id, s)
      if line then call('ZADD', KEYS[k + ${offsetOf('keys')}], 0, line) end
      call('ZADD', index, 0, 'o' .. s.seq .. id)
      call('HSET', state, id, ackord.write(s))
      redis.pcall('HSETNX', KEYS[k + ${offsetOf('destinations')}], destinationHash, ARGV[at + 2])
      ackord.count(destinationHash, 'o', 1)
      if leased then ackord.count(destinationHash, 'i', 1) end
      origins[ARGV[at + 6]] = (origins[ARGV[at + 6]] or 0) + 1
    end
    ackord.flush(k)
    -- An origin that is not counted makes the index of message ids incomplete, and it is not used until a search has built it again.
    local meta = KEYS[k + ${offsetOf('meta')}]
    for origin, stored in pairs(origins) do
      local field = '${originField}' .. origin
      local size = redis.pcall('HINCRBY', meta, field, stored) == stored and redis.pcall('HLEN', meta)
      if type(size) == 'number' and size > ${maxOrigins} then redis.pcall('HDEL', meta, field) end
    end
    redis.pcall('HSETNX', meta, 'layout', '${layoutVersion}')
    if token == '' then redis.pcall('XADD', KEYS[k + ${offsetOf('wake')}], 'MAXLEN', '~', 1, '*', 'n', #fresh) end
    return reply
  end
end`
