import { type Script, script } from '../client/port.ts'
import type { CommitFragment } from '../client/queued-command.ts'

/**
 * Commits the transactions of several messages, one after the other; the result of one says nothing about the next. It never throws:
 * an error would affect the other messages, and its text differs from server to server.
 *
 *     KEYS: for each message its marker, then the keys of its guards and commands, in their order; in the end streams that wake their readers if anything is committed
 *     ARGV: rule, retention, then for each message: token, plan, then for each guard and command its name and its arguments that are not keys
 *     rule: 'lease': the marker must hold the token. 'once': there must be no marker
 *     token: may have a second word, which is in the marker only after the commit. It is different for each commit that is tried under one lease
 *     plan: for each guard and command its kind, the number of keys, ':' if they come first and '@' if not, and the number of further arguments
 *
 * The answer for each message is one of
 *
 *     OK answers           committed; the marker is done:<token>, and a command may have added a blank and more. The answers are those of fragments
 *     DONE                 committed before, by the same call: the client sent it twice
 *     LOST held            the marker holds this value instead; nothing written
 *     TYPE n found         the n-th key has another type than it must; nothing written
 *     VALUE n problem      the n-th command is not possible with the value of its key; nothing written
 *     MISSING n            the n-th key must exist; nothing written
 *     CONFLICT n           the n-th guard does not hold; nothing written
 *     EVENT n error        the n-th command is that of a fragment, which refuses it; nothing written
 *     REFUSED error        the server accepts no writes: out of memory, read only; nothing written
 *     PARTIAL n error      the n-th failed and those before it were carried out; the marker is partial:<token>:…
 *     UNDONE n error       the same, and those before it were undone; there is no marker
 *
 * The marker is written before the commands, because a server that accepts no writes refuses only the first one. So commands run inside of Lua's
 * own `pcall`, and any failure there, including an error of Lua, makes the marker `partial:` before anything else is done.
 */
function commitLua(undo: boolean, fragments: readonly CommitFragment[]): string {
  return `local rule, retention = ARGV[1], ARGV[2]
local wanted = { s = 'string', i = 'string', f = 'string', p = 'string', h = 'hash', c = 'hash', r = 'hash', l = 'list', e = 'set', z = 'zset', x = 'stream', L = 'list' }
local guards = { g = true, n = true, k = true, m = true, w = true }
-- For commands that write to their first key whatever it holds: the types that the other keys may have.
local sources = { u = { zset = true, set = true }, t = { set = true }, b = { string = true } }
-- By their letters: commands that Redis does not have.
local fragments = {}
${fragments.map(fragmentLua).join('\n')}
local shape = '(%a)(%d+)([:@])(%d+)'
local guarded = pcall
local gmatch, match, sub, find, call, pcall = string.gmatch, string.match, string.sub, string.find, redis.call, redis.pcall

-- The words of a command whose keys do not come first: its first argument has the positions of the keys.
local function spread(a, k, keys, argc)
  local words, keyAt = {}, {}
  local n = 0
  for position in gmatch(ARGV[a + 1], '%d+') do
    keyAt[tonumber(position)] = KEYS[k + n]
    n = n + 1
  end
  words[1] = ARGV[a]
  local from = a + 2
  for position = 1, keys + argc - 1 do
    if keyAt[position] then words[position + 1] = keyAt[position]
    else words[position + 1] = ARGV[from] from = from + 1 end
  end
  return words
end

-- An integer of up to 64 bits, which a Lua number cannot hold: as billions and the rest. nil if Redis would not accept it.
local function whole(text)
  if not text or #text > 20 or text ~= '0' and not find(text, '^-?[1-9]%d*$') then return end
  local sign, digits = 1, text
  if sub(text, 1, 1) == '-' then sign, digits = -1, sub(text, 2) end
  return #digits > 9 and sign * tonumber(sub(digits, 1, -10)) or 0, sign * tonumber(sub(digits, -9))
end

-- The sum of two, or nil if it has more than 64 bits. The low part of a sum is never negative.
local function sum(high, low, otherHigh, otherLow)
  low = low + otherLow
  local carry = math.floor(low / 1000000000)
  high, low = high + otherHigh + carry, low - carry * 1000000000
  if high > 9223372036 or high == 9223372036 and low > 854775807 then return end
  if high < -9223372037 or high == -9223372037 and low < 145224192 then return end
  return high, low
end

-- Redis accepts neither blanks nor text that is not a number; Lua accepts both.
local function isReal(text)
  local value = #text < 5000 and not find(text, '[%s%znN]') and tonumber(text)
  return value and value > -math.huge and value < math.huge
end

-- For counters: adds up what a transaction does to one, and reports an overflow.
local function count(n, id, held, name, amount, sums)
  local known = sums[id]
  local high, low
  if known then high, low = known[1], known[2] else high, low = whole(held or '0') end
  if high and not known then high, low = sum(high, low, 0, 0) end
  if not high then return 'TYPE ' .. n .. ' text' end
  local by, byLow = 0, 1
  if amount then by, byLow = whole(amount) end
  if not by then return 'VALUE ' .. n .. ' its amount is no whole number' end
  if sub(name, 1, 4) == 'DECR' then by, byLow = -by, -byLow end
  high, low = sum(high, low, by, byLow)
  if not high or name == 'DECRBY' and amount == '-9223372036854775808' then return 'VALUE ' .. n .. ' the result has more than 64 bits' end
  sums[id] = { high, low }
end

-- The types of keys that an earlier message has written to: many share the stream of their events.
local known = {}

-- Checks a command against the value of its key. Not for keys that an earlier command of the same transaction writes to: the new value is not there yet.
local function checkValue(kind, n, key, a, found, sums)
  if kind == 'i' then
    local name = string.upper(ARGV[a])
    return count(n, key, call('GET', key), name, (name == 'INCRBY' or name == 'DECRBY') and ARGV[a + 1] or nil, sums)
  elseif kind == 'c' then
    return count(n, key .. '\\0' .. ARGV[a + 1], call('HGET', key, ARGV[a + 1]), 'HINCRBY', ARGV[a + 2], sums)
  elseif found == 'none' then return
  elseif kind == 'f' or kind == 'r' then
    local held = kind == 'f' and call('GET', key) or kind == 'r' and call('HGET', key, ARGV[a + 1])
    if held and not isReal(held) then return 'TYPE ' .. n .. ' text' end
  elseif kind == 'p' then
    local size, head = call('STRLEN', key), call('GETRANGE', key, 0, 15)
    local encoding = string.byte(head, 5)
    if sub(head, 1, 4) ~= 'HYLL' or size < 16 or encoding > 1 or encoding == 0 and size ~= 12304 then return 'TYPE ' .. n .. ' text' end
  elseif kind == 'L' and string.upper(ARGV[a]) == 'LSET' and not call('LINDEX', key, ARGV[a + 1]) then
    return 'VALUE ' .. n .. ' the list has no element at this index'
  end
end

-- Whether a command keeps the value of its key. An expiry in the past deletes the key.
local expiries = { EXPIRE = 0, PEXPIRE = 0, EXPIREAT = 1, PEXPIREAT = 1000 }
local function keeps(name, time)
  local perSecond = expiries[name]
  if not perSecond then return name == 'PERSIST' end
  return (tonumber(time) or 0) > perSecond * (call('TIME')[1] + 1)
end

local valued = { i = true, c = true, f = true, r = true, p = true, L = true }

-- 'seen': the types of keys that earlier commands use, or true. 'changed': keys whose values will no longer be those that the server has.
local function check(kind, n, key, a, at, seen, changed)
  local first = at == 0
  if guards[kind] then
    local value, expected
    if kind == 'g' then value, expected = pcall('GET', key), ARGV[a]
    elseif kind == 'n' then value, expected = call('EXISTS', key) == 1, false
    elseif kind == 'k' then value, expected = pcall('HGET', key, ARGV[a]), ARGV[a + 1]
    elseif kind == 'm' then value, expected = pcall('HGET', key, ARGV[a]), false
    else
      value, expected = call('DUMP', key), ARGV[a]
      value = value and redis.sha1hex(value) or ''
    end
    if value ~= expected then return 'CONFLICT ' .. n end
    return
  end
  local want, before, found = wanted[kind], seen[key], nil
  if type(want) == 'table' then want = want[at + 1] end
  if sources[kind] and not first then
    found = before or call('TYPE', key).ok
    if found ~= true and found ~= 'none' and not sources[kind][found] then return 'TYPE ' .. n .. ' ' .. found end
    return
  end
  if kind == 'a' and keeps(string.upper(ARGV[a]), ARGV[a + 1]) then return end
  if before then
    if want and before ~= true and before ~= want then return 'TYPE ' .. n .. ' ' .. before end
    -- SET, DEL, RENAME and the like: from here on the key may have another type.
    if not want then seen[key] = true end
  else
    seen[key] = want or true
    if want and known[key] == want and not valued[kind] then
      changed[key] = true
      return
    end
    if want then
      found = call('TYPE', key).ok
      if found == 'none' then
        if kind == 'L' then return 'MISSING ' .. n end
      elseif found ~= want then return 'TYPE ' .. n .. ' ' .. found end
    elseif kind == 'A' and first and call('EXISTS', key) == 0 then return 'MISSING ' .. n end
  end
  if valued[kind] and not changed[key] then
    changed[0] = changed[0] or {}
    local problem = checkValue(kind, n, key, a, found, changed[0])
    if problem then return problem end
  end
  if kind ~= 'i' and kind ~= 'c' then changed[key] = true end
end
${undo ? undoLua : ''}
-- The plan of a message, read once. The tables are reused for the next.
local kinds, counts, layouts, argcs = {}, {}, {}, {}

-- Writes the marker and runs the commands of a message. Returns the error of the failed command, or, second, why the server accepts no writes.
-- 'current' is the number of the failed command, also if Lua itself fails.
local current
local function apply(marker, token, n, from, fromKey, saved, stored)
  current = 0
  -- The first write: a server that accepts none refuses here.
  local written = pcall('SET', marker, 'done:' .. token, 'PX', retention)
  if written.err then return nil, written.err end
  for m = 1, n do
    current = m
    local kind, keys, layout, argc = kinds[m], counts[m], layouts[m], argcs[m]
    if not guards[kind] then
      local reply
      local own = fragments[kind]
      if own and own.type then reply = own.run(ARGV[from], fromKey, from + 1, tonumber(argc))
      elseif own then
        local done, result = guarded(own.run, ARGV[from], fromKey, from + 1, tonumber(argc))
        if saved and own.hasWritten() then saved[0] = { touched = true, large = true } end
        if done then reply = result else reply = { err = type(result) == 'table' and result.err or tostring(result) } end
      elseif layout == '@' then reply = pcall(unpack(spread(from, fromKey, keys, argc)))
      elseif keys == '1' then reply = pcall(ARGV[from], KEYS[fromKey], unpack(ARGV, from + 1, from + argc))
      else reply = pcall(ARGV[from], KEYS[fromKey], KEYS[fromKey + 1], unpack(ARGV, from + 1, from + argc)) end
      if type(reply) == 'table' and reply.err then return reply.err end
      if own then stored[#stored + 1] = type(reply) == 'string' and reply or '' end
      if not own or own.type then
        local want = wanted[kind]
        if type(want) == 'table' then
          for j, one in ipairs(want) do known[KEYS[fromKey + j - 1]] = one end
        elseif keys == '1' then known[KEYS[fromKey]] = want
        else known = {} end
        ${undo ? 'note(saved, ARGV[from], keys, fromKey, reply, ARGV[from + 1], own)' : ''}
      end
    end
    from, fromKey = from + argc + 1, fromKey + keys
  end
end

local answers, a, k, last, committed = {}, 3, 1, #ARGV, false
while a < last do
  local marker, token, plan = KEYS[k], ARGV[a], ARGV[a + 1]
  local held, answer = pcall('GET', marker), nil
  if rule == 'lease' and held ~= token and held ~= match(token, '^%S+') or rule == 'once' and held then
    if type(held) == 'table' then held = held.err end
    if held and sub(held .. ' ', 1, #token + 6) == 'done:' .. token .. ' ' then answer = 'DONE'
    elseif held and sub(held, 1, #token + 9) == 'partial:' .. token .. ':' then answer = 'PARTIAL ' .. sub(held, #token + 10)
    else answer = 'LOST ' .. (held or '') end
  end

  -- Before the first write: errors are detected while nothing has been written.
  local from, fromKey, n, seen, changed = a + 2, k + 1, 0, {}, {}
  for _, own in pairs(fragments) do
    if own.begin then own.begin() end
  end
  a, k = from, fromKey
  for kind, keys, layout, argc in gmatch(plan, shape) do
    n = n + 1
    kinds[n], counts[n], layouts[n], argcs[n] = kind, keys, layout, argc
    local own = fragments[kind]
    local isOwn = own and not own.type
    if isOwn and not answer then
      local problem = own.check(ARGV[a], k, a + 1, tonumber(argc))
      if problem then answer = 'EVENT ' .. n .. ' ' .. problem end
    end
    for j = 0, keys - 1 do
      if answer or isOwn then break end
      -- The key that a union is written to comes last: it may be a source too.
      local at = sources[kind] and keys - 1 - j or j
      answer = check(kind, n, KEYS[k + at], a, at, seen, changed)
    end
    a, k = a + argc + 1, k + keys
  end
  local saved
  ${undo ? 'saved = {} if not answer then save(plan, from, fromKey, saved) end' : ''}

  local stored = {}
  if not answer then
    -- No statement may come between a failure and the marker that records it.
    local whole, problem, refusal = guarded(apply, marker, token, n, from, fromKey, saved, stored) if not whole or problem then local text = current .. ' ' .. tostring(type(problem) == 'table' and problem.err or problem) pcall('SET', marker, 'partial:' .. token .. ':' .. text, 'PX', retention)
      answer = 'PARTIAL ' .. text
      known = {}
      ${undo ? undoneLua : ''}
    elseif refusal then answer = 'REFUSED ' .. refusal end
  end
  committed = committed or not answer
  answers[#answers + 1] = answer or #stored > 0 and 'OK ' .. table.concat(stored, ' ') or 'OK'
end
-- Short, but not trimmed to one entry: exact trimming takes several times as long.
if committed then
  for i = k, #KEYS do pcall('XADD', KEYS[i], 'MAXLEN', '~', '1', '*', 'n', '1') end
end
return answers`
}

/** Larger keys are not saved: all other clients would wait while they are copied. */
const maxElements = 1_000
const maxBytes = 65_536

const undoLua = `
local sizes = { hash = 'HLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD' }

-- Saves the value of each key. A stream with more than one entry is not copied: added entries can be deleted again.
local function save(plan, a, k, saved)
  for kind, keys, layout, argc in gmatch(plan, shape) do
    if not guards[kind] and (not fragments[kind] or fragments[kind].type) then
      for j = 0, type(wanted[kind]) == 'table' and 0 or keys - 1 do
        local key = KEYS[k + j]
        if not saved[key] then
          local found = call('TYPE', key).ok
          local one = { found = found }
          if found == 'string' then one.large = call('STRLEN', key) > ${maxBytes}
          elseif sizes[found] then one.large = call(sizes[found], key) > ${maxElements} end
          if found == 'stream' and call('XLEN', key) > 1 then one.added = {}
          elseif found ~= 'none' and not one.large then one.dump, one.ttl = call('DUMP', key), call('PTTL', key) end
          saved[key] = one
        end
      end
    end
    a, k = a + argc + 1, k + keys
  end
end

local function note(saved, name, keys, k, reply, option, own)
  -- A write without a key cannot be restored.
  if keys == '0' then saved[0] = { touched = true, large = true } end
  for j = 0, keys - 1 do
    local key = KEYS[k + j]
    local one = saved[key] or { undo = own.undo }
    saved[key], one.touched = one, true
    if one.added then
      -- With an option before the id it may have trimmed entries, which cannot be restored. Nor can a stream that another command has written to or replaced.
      if name == 'XADD' and find(option, '^[%d*]') then one.added[#one.added + 1] = reply else one.large = true end
    end
  end
end

-- In parts: a call accepts some thousand words.
local function remove(key, ids)
  for from = 1, #ids, 1000 do
    local reply = pcall('XDEL', key, unpack(ids, from, math.min(from + 999, #ids)))
    if type(reply) == 'table' then return reply end
  end
end

-- All or nothing: if one key cannot be restored, restoring the others would only hide what happened.
local function restore(saved)
  for _, one in pairs(saved) do if one.touched and one.large then return false end end
  for key, one in pairs(saved) do
    if one.touched then
      local reply
      if one.undo then one.undo(key)
      elseif one.found == 'none' then reply = pcall('DEL', key)
      elseif one.added then reply = remove(key, one.added)
      else reply = pcall('RESTORE', key, one.ttl >= 0 and math.max(1, one.ttl) or 0, one.dump, 'REPLACE') end
      if type(reply) == 'table' and reply.err then return false end
    end
  end
  return true
end
`

/** Not after an error of Lua itself: then it is unknown whether the command was carried out. */
const undoneLua = `if whole then
        local tried, restored = guarded(restore, saved)
        if tried and restored then answer = 'UNDONE ' .. text pcall('DEL', marker) end
      end`

function fragmentLua({ letter, lua }: CommitFragment): string {
  return `do
local fragment = {}
${lua}
fragments.${letter}, wanted.${letter} = fragment, fragment.type
end`
}

/** The one that most transactions use. */
export const commitScript: Script = script(commitLua(false, []))

/** By whether they undo, and their fragments. There are few: a service queues the same kinds of commands for all messages. */
const scripts = new Map<string, Script>([['false', commitScript]])

/** The script for transactions with commands of these fragments. `undo`: whether a transaction is undone when a command fails. */
export function commitScriptFor(undo: boolean, fragments: readonly CommitFragment[]): Script {
  if (fragments.length === 0 && !undo) return commitScript
  const ordered = fragments.toSorted((one, other) => (one.letter < other.letter ? -1 : 1))
  const name = [undo, ...ordered.map(({ sha }) => sha)].join(' ')
  let found = scripts.get(name)
  if (found === undefined) {
    const twice = ordered.find(({ letter }, index) => ordered[index + 1]?.letter === letter)
    if (twice !== undefined) throw new Error(`Two fragments have the letter '${twice.letter}'.`)
    found = script(commitLua(undo, ordered))
    scripts.set(name, found)
  }
  return found
}
