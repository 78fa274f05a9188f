import { splitLua } from '../split-lua.ts'
import { keyNames, keyTypes, layoutVersion, offsetOf } from './layout.ts'

/**
 * What the scripts share, as a table `ackord`. `k` is the place of a shard's first key in KEYS, `a` that of the first argument in ARGV.
 *
 *     ackord.now()             milliseconds, by the server's clock; the same during a script
 *     ackord.problem(k)        what is wrong with a shard's keys, or nil. To be asked before the first write
 *     ackord.read(text)        a state as a table, or nil if it is none
 *     ackord.write(state)      the text of it
 *     ackord.count(lane, letter, change), ackord.flush(k)   gathers changes of `counts`, and writes them
 */
export const ackordLua: string = `local ackord = {}
do
  local types = { ${keyTypes.map((type) => `'${type}'`).join(', ')} }
  local time
  function ackord.now()
    if not time then
      local parts = redis.call('TIME')
      time = parts[1] * 1000 + math.floor(parts[2] / 1000)
    end
    return time
  end
  function ackord.problem(k)
    for i = 1, #types do
      local key = KEYS[k + i - 1]
      if not key then return 'ERR an outbox has ' .. #types .. ' keys, and the script was given fewer' end
      local found = redis.call('TYPE', key).ok
      if found ~= 'none' and found ~= types[i] then
        return 'WRONGTYPE the key ' .. key .. ' of an outbox holds a ' .. found .. ', not a ' .. types[i]
      end
    end
    local last = redis.call('GET', KEYS[k + ${offsetOf('seq')}])
    if last and (not string.find(last, '^%d+$') or #last > 15) then
      return 'WRONGTYPE the key ' .. KEYS[k + ${offsetOf('seq')}] .. ' of an outbox holds no number that can be counted on from'
    end
    local layout = redis.call('HGET', KEYS[k + ${offsetOf('meta')}], 'layout')
    if layout and layout ~= '${layoutVersion}' then
      return 'ERR the outbox ' .. KEYS[k + ${offsetOf('meta')}] .. ' has layout ' .. layout .. ', which this version does not know'
    end
  end
  local shape = '^(%u) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%S*)$'
  function ackord.read(text)
    if not text then return end
    local status, attempts, seq, created, at, lane, print, expires, token = string.match(text, shape)
    if not status then return end
    return { status = status, attempts = tonumber(attempts), seq = seq, created = created, at = tonumber(at), lane = lane, print = print,
      expires = tonumber(expires), token = token }
  end
  function ackord.write(s)
    return string.format('%s %.0f %s %s %.0f %s %s %.0f %s', s.status, s.attempts, s.seq, s.created, s.at, s.lane, s.print, s.expires, s.token)
  end
  local changes = {}
  function ackord.count(lane, letter, change)
    local field = lane .. letter
    changes[field] = (changes[field] or 0) + change
  end
  -- They are for people: what cannot be counted must not fail what was done.
  function ackord.flush(k)
    local gathered = changes
    changes = {}
    for field, change in pairs(gathered) do
      if change ~= 0 and redis.pcall('HINCRBY', KEYS[k + ${offsetOf('counts')}], field, change) == 0 then
        redis.pcall('HDEL', KEYS[k + ${offsetOf('counts')}], field)
      end
    end
  end
end`

/** For scripts whose KEYS are those of one shard: each by its name, and what is wrong with one is the answer. */
export const shardLua: string = `${ackordLua}
local ${keyNames.join(', ')} = unpack(KEYS)
do
  local problem = ackord.problem(1)
  if problem then return redis.error_reply(problem) end
end
local now = ackord.now()
${splitLua}
-- Of many fields at once: a call takes some thousand words.
local function fetch(key, ids)
  local found = {}
  for from = 1, #ids, 1000 do
    local last = math.min(from + 999, #ids)
    local page = redis.call('HMGET', key, unpack(ids, from, last))
    for i = 1, last - from + 1 do found[from + i - 1] = page[i] end
  end
  return found
end
local function remove(command, key, members)
  for from = 1, #members, 1000 do redis.call(command, key, unpack(members, from, math.min(from + 999, #members))) end
end
-- Where a record is while it may be claimed or waits for that.
local function member(id, s) return s.lane .. (s.attempts > 0 and 'r' or 'f') .. s.seq .. id end
-- Lets the rest of the script through where memory is full.
local function open() redis.call('ZREM', inflight, '') end
local function await(id, s)
  if s.at > now then redis.call('ZADD', waiting, s.at, member(id, s)) else redis.call('ZADD', ready, 0, member(id, s)) end
end
-- Of records that are gone. The state first: without it nothing else counts.
local function forget(ids, members)
  remove('HDEL', state, ids)
  remove('HDEL', entries, ids)
  remove('HDEL', errors, ids)
  remove('ZREM', index, members)
end`
