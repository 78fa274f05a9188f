import { type Script, script, splitLua } from '../../../client/port.ts'
import { failureLua } from '../../failure-field.ts'
import { keyNames, keyTypes, layoutVersion, offsetOf, orderedLayoutVersion } from '../layout.ts'
import { enqueueLua } from './enqueue-fragment.ts'

/**
 * Common to the scripts: a table `ackord`. `k` is the index of a shard's first key in KEYS, `a` that of the first argument in ARGV.
 *
 *     ackord.now()             milliseconds, by the server's clock; the same during a script
 *     ackord.problem(k)        the problem of a shard's keys, or nil. To be called before the first write
 *     ackord.mismatch(k, ordered)   an error if an outbox with order per key is used without, or the other way round, or nil
 *     ackord.ordered(k)        whether the outbox was begun with order per key
 *     ackord.parts(print)      a print, and the ordering key behind it, or ''
 *     ackord.read(text)        a state as a table, or nil if it is invalid
 *     ackord.write(state)      a state as a string
 *     ackord.member(id, state)         the member of a record in `ready` or `waiting`
 *     ackord.line(letter, id, state)   its member in `keys`, or nil if it has no ordering key
 *     ackord.count(destinationHash, letter, change), ackord.flush(k)   gathers changes of `counts`, and writes them
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
    if layout and layout ~= '${layoutVersion}' and layout ~= '${orderedLayoutVersion}' then
      return 'ERR the outbox ' .. KEYS[k + ${offsetOf('meta')}] .. ' has layout ' .. layout .. ', which this version does not know'
    end
  end
  function ackord.mismatch(k, ordered)
    local layout = redis.call('HGET', KEYS[k + ${offsetOf('meta')}], 'layout')
    if layout and layout ~= (ordered and '${orderedLayoutVersion}' or '${layoutVersion}') then
      local is = ordered and 'without order, and is used with order per key' or 'with order per key, and is used without'
      return 'ERR the outbox ' .. KEYS[k + ${offsetOf('meta')}] .. ' has layout ' .. layout .. ': it was begun ' .. is
    end
  end
  function ackord.ordered(k) return redis.call('HGET', KEYS[k + ${offsetOf('meta')}], 'layout') == '${orderedLayoutVersion}' end
  function ackord.parts(print) return string.match(print, '^([^.]*)%.?(.*)$') end
  local shape = '^(%u) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%S*)$'
  function ackord.read(text)
    if not text then return end
    local status, attempts, seq, created, at, destinationHash, print, expires, token = string.match(text, shape)
    if not status then return end
    local said, key = ackord.parts(print)
    return { status = status, attempts = tonumber(attempts), seq = seq, created = created, at = tonumber(at), destinationHash = destinationHash, print = said, key = key,
      expires = tonumber(expires), token = token }
  end
  local function keyed(s) return s.key and s.key ~= '' end
  function ackord.write(s)
    local print = keyed(s) and s.print .. '.' .. s.key or s.print
    return string.format('%s %.0f %s %s %.0f %s %s %.0f %s', s.status, s.attempts, s.seq, s.created, s.at, s.destinationHash, print, s.expires, s.token)
  end
  function ackord.member(id, s) return s.destinationHash .. (keyed(s) and 'k' or s.attempts > 0 and 'r' or 'f') .. s.seq .. id end
  function ackord.line(letter, id, s) return keyed(s) and letter .. s.destinationHash .. s.key .. s.seq .. id or nil end
  local changes = {}
  function ackord.count(destinationHash, letter, change)
    local field = destinationHash .. letter
    changes[field] = (changes[field] or 0) + change
  end
  -- Counts are for operators: a failure to count must not fail the script. A destination without records is removed, including its name.
  function ackord.flush(k)
    local gathered, counts, ended = changes, KEYS[k + ${offsetOf('counts')}], {}
    changes = {}
    for field, change in pairs(gathered) do
      if change ~= 0 and redis.pcall('HINCRBY', counts, field, change) == 0 then
        redis.pcall('HDEL', counts, field)
        if string.sub(field, -1) ~= 'i' then ended[string.sub(field, 1, -2)] = true end
      end
    end
    for destinationHash in pairs(ended) do
      local left = redis.pcall('HMGET', counts, destinationHash .. 'o', destinationHash .. 'f', destinationHash .. 's')
      if not (left.err or left[1] or left[2] or left[3]) then redis.pcall('HDEL', KEYS[k + ${offsetOf('destinations')}], destinationHash) end
    end
  end
end`

/** For scripts whose KEYS are those of one shard: a local variable for each key, and an error reply if a key has a problem. */
export const shardLua: string = `${ackordLua}
local ${keyNames.join(', ')} = unpack(KEYS)
do
  local problem = ackord.problem(1)
  if problem then return redis.error_reply(problem) end
end
local now = ackord.now()
${splitLua}
-- Many fields in several calls: one call accepts some thousand words.
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
local member = ackord.member
-- Adds a record with an ordering key to those of its key, and removes it from its old place.
local function addToKey(letter, id, s)
  local one = ackord.line(letter, id, s)
  if one then redis.call('ZADD', keys, 0, one) end
end
local function removeFromKey(letter, id, s)
  local one = ackord.line(letter, id, s)
  if one then redis.call('ZREM', keys, one) end
end
${failureLua}
local function fail(id, ...) redis.call('HSET', errors, id, failureField(redis.call('HGET', errors, id), now, ...)) end
-- Lets the server accept the rest of the script if its memory is full.
local function open() redis.call('ZREM', inflight, '') end
local function await(id, s)
  if s.at > now then redis.call('ZADD', waiting, s.at, member(id, s)) else redis.call('ZADD', ready, 0, member(id, s)) end
end
-- Deletes records. The state first: without it the rest is ignored.
local function forget(ids, members)
  remove('HDEL', state, ids)
  remove('HDEL', entries, ids)
  remove('HDEL', errors, ids)
  remove('HDEL', edited, ids)
  remove('ZREM', index, members)
end`

/**
 * For the top of a script of your own, so that a business write and its event are one step. The keys and arguments of `prepare()` go
 * anywhere among the script's own; `k` and `a` are the indexes of the first ones.
 *
 *     local problem = ackord.check(k, a)          -- before the script's first write
 *     if problem then return redis.error_reply(problem) end
 *     …                                            -- checks of your own, the types of your keys among them
 *     local stored = ackord.enqueue(k, a)          -- the events first
 *     …                                            -- then your own writes
 *
 * `ackord.enqueue` returns `<milliseconds>:` and a sign for each record: `+` inserted, `=` duplicate, `!` conflict. The name `ackord` is reserved.
 */
export const outboxLua: string = `${ackordLua}
${enqueueLua}
`

/** A script of the outbox. Metrics have its name. */
export interface OutboxScript extends Script {
  readonly name: string
}

export function outboxScript(name: string, lua: string): OutboxScript {
  return { name, ...script(lua) }
}
