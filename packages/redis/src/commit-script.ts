import { enqueueLua } from './lua-outbox/enqueue-lua.ts'
import { ackordLua } from './lua-outbox/lua.ts'
import { type Script, script } from './script.ts'

/**
 * Commits the transactions of several messages, one after the other; what becomes of one says nothing about the next. Nothing of this is ever
 * thrown: a thrown error would take the others with it, and its text differs from server to server.
 *
 *     KEYS: for each message its marker, then the keys of its guards and commands, in their order
 *     ARGV: rule, retention, then for each message: token, plan, then for each guard and command what follows its keys
 *     rule: 'lease': the marker must hold the token. 'once': there must be no marker
 *     plan: for each guard and command its kind, how many keys it has, ':' if they lead and '@' if not, and how many further arguments
 *
 * The answer to each is one of
 *
 *     OK answers           committed; the marker is done:<token>. The answers are those to the events for a Lua outbox
 *     DONE                 it had been, by these very bytes: the client sent them twice
 *     LOST held            the marker holds this instead; nothing written
 *     TYPE n found         the n-th key holds something else than it must; nothing written
 *     MISSING n            the n-th key must be there; nothing written
 *     CONFLICT n           the n-th guard does not hold; nothing written
 *     EVENT n error        the n-th is for a Lua outbox, which does not take it; nothing written
 *     REFUSED error        the server takes no writes: out of memory, read only; nothing written
 *     PARTIAL n error      the n-th failed and those before it were carried out; the marker is partial:<token>:…
 *     UNDONE n error       the same, and those before it were undone; there is no marker
 */
function commitLua({ undo, outbox }: CommitScriptOptions): string {
  return `${outbox ? `${ackordLua}\n${enqueueLua}` : ''}
local rule, retention = ARGV[1], ARGV[2]
local wanted = { s = 'string', i = 'string', f = 'string', h = 'hash', l = 'list', e = 'set', z = 'zset', x = 'stream', L = 'list', y = 'zset' }
local guards = { g = true, n = true, k = true, m = true, w = true }
local shape = '(%a)(%d+)([:@])(%d+)'
local guarded = pcall
local gmatch, sub, call, pcall = string.gmatch, string.sub, redis.call, redis.pcall

-- The words of a command whose keys do not all lead: its first argument tells where they are.
local function spread(a, k, keys, argc)
  local words, place = {}, {}
  local n = 0
  for position in gmatch(ARGV[a + 1], '%d+') do
    place[tonumber(position)] = KEYS[k + n]
    n = n + 1
  end
  words[1] = ARGV[a]
  local from = a + 2
  for position = 1, keys + argc - 1 do
    if place[position] then words[position + 1] = place[position]
    else words[position + 1] = ARGV[from] from = from + 1 end
  end
  return words
end

-- Of an expiry that is recorded behind a mark: one that has ended goes, and a live one ends no earlier than this.
local function extend(key, ends, subject)
  local held = pcall('ZSCORE', key, subject)
  if type(held) == 'table' then return held end
  local before = tonumber(held or '')
  if not before then return end
  local time = redis.call('TIME')
  if before <= time[1] * 1000 + math.floor(time[2] / 1000) then return pcall('ZREM', key, subject) end
  if before < tonumber(ends) then return pcall('ZADD', key, ends, subject) end
end

-- What keys hold, as far as a message before has written to them: many share the stream of their events.
local known = {}

local function check(kind, n, key, a, seen)
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
  local want, before = wanted[kind], seen[key]
  if before then
    if want and before ~= true and before ~= want then return 'TYPE ' .. n .. ' ' .. before end
    return
  end
  seen[key] = want or true
  if want and known[key] == want and kind ~= 'i' and kind ~= 'f' and kind ~= 'L' then return end
  if want then
    local found = call('TYPE', key).ok
    if found == 'none' then
      if kind == 'L' then return 'MISSING ' .. n end
    elseif found ~= want then return 'TYPE ' .. n .. ' ' .. found
    elseif kind == 'i' and not string.find(call('GET', key), '^-?[1-9]%d*$') and call('GET', key) ~= '0' then return 'TYPE ' .. n .. ' text'
    elseif kind == 'f' and not tonumber(call('GET', key)) then return 'TYPE ' .. n .. ' text' end
  elseif kind == 'A' and call('EXISTS', key) == 0 then return 'MISSING ' .. n end
end
${undo ? undoLua : ''}
-- The plan of a message, read once. The tables are used again for the next.
local kinds, counts, places, argcs = {}, {}, {}, {}
local answers, a, k, last = {}, 3, 1, #ARGV
while a < last do
  local marker, token, plan = KEYS[k], ARGV[a], ARGV[a + 1]
  local held, answer = pcall('GET', marker), nil
  if rule == 'lease' and held ~= token or rule == 'once' and held then
    if type(held) == 'table' then held = held.err end
    if held == 'done:' .. token then answer = 'DONE'
    elseif held and sub(held, 1, #token + 9) == 'partial:' .. token .. ':' then answer = 'PARTIAL ' .. sub(held, #token + 10)
    else answer = 'LOST ' .. (held or '') end
  end

  -- Before the first write: what would fail is found while nothing has been written.
  local from, fromKey, n, seen = a + 2, k + 1, 0, {}${outbox ? '\n  ackord.planned = {}' : ''}
  a, k = from, fromKey
  for kind, keys, place, argc in gmatch(plan, shape) do
    n = n + 1
    kinds[n], counts[n], places[n], argcs[n] = kind, keys, place, argc
    ${outbox ? outboxCheckLua : ''}for j = 0, keys - 1 do
      if answer${outbox ? " or kind == 'q'" : ''} then break end
      answer = check(j > 0 and kind == 'A' and 'a' or kind, n, KEYS[k + j], a, seen)
    end
    a, k = a + argc + 1, k + keys
  end
  local saved
  ${undo ? 'saved = {} if not answer then save(plan, from, fromKey, saved) end' : ''}

  -- The first write: a server that takes none refuses here.
  if not answer then
    local written = pcall('SET', marker, 'done:' .. token, 'PX', retention)
    if written.err then answer = 'REFUSED ' .. written.err end
  end

  local stored = {}
  if not answer then
    for m = 1, n do
      local kind, keys, place, argc = kinds[m], counts[m], places[m], argcs[m]
      if not guards[kind] then
        local reply
        ${outbox ? outboxRunLua : ''}if kind == 'y' then reply = extend(KEYS[fromKey], ARGV[from + 1], ARGV[from + 2])
        elseif place == '@' then reply = pcall(unpack(spread(from, fromKey, keys, argc)))
        elseif keys == '1' then reply = pcall(ARGV[from], KEYS[fromKey], unpack(ARGV, from + 1, from + argc))
        else reply = pcall(ARGV[from], KEYS[fromKey], KEYS[fromKey + 1], unpack(ARGV, from + 1, from + argc)) end
        if type(reply) == 'table' and reply.err then
          answer = 'PARTIAL ' .. m .. ' ' .. reply.err
          known = {}
          ${undo ? "if restore(saved) then call('DEL', marker) answer = 'UNDONE ' .. m .. ' ' .. reply.err break end" : ''}
          pcall('SET', marker, 'partial:' .. token .. ':' .. m .. ' ' .. reply.err, 'PX', retention)
          break
        end
        ${outbox ? "if kind == 'q' then stored[#stored + 1] = reply else" : ''}if keys == '1' then known[KEYS[fromKey]] = wanted[kind] else known = {} end
        ${undo ? "if kind ~= 'q' then note(saved, ARGV[from], KEYS[fromKey], keys, fromKey, reply) end" : ''}
      end
      from, fromKey = from + argc + 1, fromKey + keys
    end
  end
  answers[#answers + 1] = answer or #stored > 0 and 'OK ' .. table.concat(stored, ' ') or 'OK'
end
return answers`
}

/** More would make everybody wait while they are copied. */
const mostElements = 1_000
const mostBytes = 65_536

const undoLua = `
local sizes = { hash = 'HLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD' }

-- Keeps what each key holds. A stream is not copied: what is added to one can be taken out again.
local function save(plan, a, k, saved)
  for kind, keys, place, argc in gmatch(plan, shape) do
    if not guards[kind] and kind ~= 'q' then
      for j = 0, keys - 1 do
        local key = KEYS[k + j]
        if not saved[key] then
          local found = call('TYPE', key).ok
          local one = { found = found }
          if found == 'string' then one.large = call('STRLEN', key) > ${mostBytes}
          elseif sizes[found] then one.large = call(sizes[found], key) > ${mostElements} end
          if found == 'stream' then one.added = {}
          elseif found ~= 'none' and not one.large then one.dump, one.ttl = call('DUMP', key), call('PTTL', key) end
          saved[key] = one
        end
      end
    end
    a, k = a + argc + 1, k + keys
  end
end

local function note(saved, name, key, keys, k, reply)
  for j = 0, keys - 1 do saved[KEYS[k + j]].touched = true end
  local one = saved[key]
  if not one.added then return end
  if name == 'XADD' then one.added[#one.added + 1] = reply else one.large = true end
end

-- All or nothing: with one key that cannot be put back, the others would only hide what happened.
local function restore(saved)
  for _, one in pairs(saved) do if one.touched and one.large then return false end end
  for key, one in pairs(saved) do
    if one.touched then
      local reply
      if one.found == 'none' then reply = pcall('DEL', key)
      elseif one.added then reply = pcall('XDEL', key, unpack(one.added))
      else reply = pcall('RESTORE', key, one.ttl > 0 and one.ttl or 0, one.dump, 'REPLACE') end
      if type(reply) == 'table' and reply.err then return false end
    end
  end
  return true
end
`

/** Its types are the outbox's own to check, and what it holds under the id. */
const outboxCheckLua = `if kind == 'q' and not answer then
      local problem = ackord.check(k, a + 1)
      if problem then answer = 'EVENT ' .. n .. ' ' .. problem end
    end
    `

/** What it wrote cannot be undone: it is a part of large keys. It comes last, and all that it could fail with was looked at. */
const outboxRunLua = `if kind == 'q' then
          ackord.began = false
          local done, text = guarded(ackord.enqueue, fromKey, from + 1)
          if saved and ackord.began then saved[0] = { touched = true, large = true } end
          reply = done and text or { err = type(text) == 'table' and text.err or tostring(text) }
        else`

export interface CommitScriptOptions {
  /** Whether a transaction is undone when a command fails. */
  readonly undo: boolean
  /** Whether there are events for a Lua outbox. */
  readonly outbox: boolean
}

/** The one that most use. */
export const commitScript: Script = script(commitLua({ undo: false, outbox: false }))

const scripts: ReadonlyMap<string, Script> = new Map(
  [true, false].flatMap((undo) => [true, false].map((outbox) => [nameOf({ undo, outbox }), script(commitLua({ undo, outbox }))] as const)),
)

export function commitScriptFor(options: CommitScriptOptions): Script {
  return scripts.get(nameOf(options)) as Script
}

function nameOf({ undo, outbox }: CommitScriptOptions): string {
  return `${undo} ${outbox}`
}
