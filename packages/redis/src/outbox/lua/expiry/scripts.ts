import { script } from '../../../client/port.ts'
import type { CommitFragment } from '../../../client/queued-command.ts'
import { keyCount } from '../layout.ts'
import { type OutboxScript, outboxLua, outboxScript } from '../scripts/prelude.ts'
import { expiryKeyTypes } from './due-expiry.ts'

/**
 * The steps of expiry, for any script that has `outboxLua` before it. `k` is the index of a shard's first key in KEYS, with those of the expiry behind the
 * shard's; `a` that of a step's first argument in ARGV.
 *
 *     ackord.expiryProblem(k, e)   why a step is not possible, as the text of an error, or nil. `e`: the index of the event's arguments, if there is one.
 *                                  To be called before the first write. A revocation that stores nothing has no conflict
 *
 *     ackord.recordExpiry(k, a)    subject, dueAt, context, grace, '1' if it is issued again
 *         returns: 'recorded', 'moved', 'revoked' or 'decided'
 *         writes: context, due, out of revoked, decided and parked. Revoked: the mark
 *
 *     ackord.revokeExpiry(k, a)    subject, grace, '1' if an expired subject is left as it is; then the event, as for `ackord.enqueue`
 *         returns: 'revoked', 'duplicate' or 'expired'
 *         writes: the event, the mark, out of contexts, parked and, last, due
 *
 *     ackord.decideExpiry(k, a)    subject, dueAt or '' if it is not a time, cutoff or '', remember, the reason to park it or '';
 *                                  then, unless it is parked, the event
 *         returns: 'enqueued', 'duplicate', 'revoked', 'not_due' or 'parked'
 *         writes: the event, decided, out of contexts, parked and, last, due. Parked: parked, out of due. Not due: nothing
 */
export const expiryLua: string = `do
  local call = redis.call
  local types = { ${expiryKeyTypes.map((type) => `'${type}'`).join(', ')} }
  local function keysOf(k) return unpack(KEYS, k + ${keyCount}, k + ${keyCount} + #types - 1) end
  local function whole(number) return string.format('%.0f', number) end
  local function live(key, one)
    local ends = tonumber(call('ZSCORE', key, one) or '0')
    return ends and ends > ackord.now()
  end
  local function decision(dueAt, subject) return 'd' .. whole(dueAt) .. ' ' .. subject end
  -- Removes expired marks, a few at a time.
  local function prune(key)
    local old = call('ZRANGEBYSCORE', key, '-inf', whole(ackord.now()), 'LIMIT', 0, 20)
    if #old > 0 then call('ZREM', key, unpack(old)) end
  end
  local function clear(k, subject)
    local due, contexts, _, _, parked = keysOf(k)
    call('HDEL', contexts, subject)
    call('HDEL', parked, subject)
    call('ZREM', due, subject)
  end
  -- Why a revocation stores nothing, or nil; and whether the record is left over from a decided expiry.
  local function before(k, a)
    local due, _, revoked, decided = keysOf(k)
    local subject = ARGV[a]
    if live(revoked, subject) then return 'duplicate' end
    if ARGV[a + 2] ~= '1' then return end
    local score = tonumber(call('ZSCORE', due, subject) or '')
    local stale = score and live(decided, decision(score, subject))
    if stale or not score and live(decided, 's' .. subject) then return 'expired', stale end
  end

  function ackord.expiryProblem(k, e)
    local problem
    if e then problem = ackord.check(k, e) else problem = ackord.problem(k) end
    -- Only the event of a revocation is checked for conflicts; it is three behind the first argument.
    local conflict = problem and string.find(problem, '^CONFLICT ')
    if problem and not conflict then return problem end
    for i = 1, #types do
      local key = KEYS[k + ${keyCount} + i - 1]
      if not key then return 'ERR an expiry has ' .. #types .. ' keys behind those of its outbox, and the script was given fewer' end
      local found = call('TYPE', key).ok
      if found ~= 'none' and found ~= types[i] then
        return 'WRONGTYPE the key ' .. key .. ' of an expiry holds a ' .. found .. ', not a ' .. types[i]
      end
    end
    if conflict and not before(k, e - 3) then return problem end
  end

  function ackord.recordExpiry(k, a)
    local due, contexts, revoked, decided, parked = keysOf(k)
    local subject, dueAt, grace, again = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 3]), ARGV[a + 4] == '1'
    if live(revoked, subject) and not again then
      -- The issuer may repeat a late recording even later.
      if tonumber(call('ZSCORE', revoked, subject)) < dueAt + grace then call('ZADD', revoked, whole(dueAt + grace), subject) end
      return 'revoked'
    end
    if live(decided, decision(dueAt, subject)) then return 'decided' end
    local before = call('ZSCORE', due, subject)
    call('HSET', contexts, subject, ARGV[a + 2])
    call('ZADD', due, whole(dueAt), subject)
    call('ZREM', revoked, subject)
    call('ZREM', decided, 's' .. subject)
    call('HDEL', parked, subject)
    return before and tonumber(before) ~= dueAt and 'moved' or 'recorded'
  end

  function ackord.revokeExpiry(k, a)
    local due, _, revoked, _, parked = keysOf(k)
    local subject, grace, now = ARGV[a], tonumber(ARGV[a + 1]), ackord.now()
    local result, stale = before(k, a)
    if result == 'duplicate' or stale then clear(k, subject) end
    if result then return result end
    local score = tonumber(call('ZSCORE', due, subject) or '')
    ackord.enqueue(k, a + 3)
    local held = string.match(call('HGET', parked, subject) or '', '^(%d+) ')
    local dueAt = math.max(now, score or 0, tonumber(held or '0'))
    call('ZADD', revoked, whole(dueAt + grace), subject)
    prune(revoked)
    clear(k, subject)
    return 'revoked'
  end

  function ackord.decideExpiry(k, a)
    local due, contexts, revoked, decided, parked = keysOf(k)
    local subject, dueAt, cutoff, remember, reason = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[a + 4]
    local now = ackord.now()
    if live(revoked, subject) then
      clear(k, subject)
      return 'revoked'
    end
    local score = call('ZSCORE', due, subject)
    if dueAt and live(decided, decision(dueAt, subject)) then
      if score and tonumber(score) == dueAt then
        clear(k, subject)
        call('ZADD', decided, call('ZSCORE', decided, decision(dueAt, subject)), 's' .. subject)
      end
      return 'duplicate'
    end
    if not score then return 'not_due' end
    -- It may have been issued again since it was read: then it is another expiry, with another event.
    if dueAt and (tonumber(score) ~= dueAt or dueAt > math.min(cutoff or now, now)) then return 'not_due' end
    if not dueAt and string.find(score, '^%d+$') then return 'not_due' end
    if reason == '' and call('HEXISTS', contexts, subject) == 0 then reason = 'Its context is missing.' end
    if reason ~= '' then
      call('ZREM', due, '')
      call('HSET', parked, subject, whole(dueAt or 0) .. ' ' .. whole(now) .. ' ' .. reason)
      call('ZREM', due, subject)
      return 'parked'
    end
    local stored = ackord.enqueue(k, a + 5)
    local ends = whole(math.max(now, dueAt) + remember)
    call('ZADD', decided, ends, decision(dueAt, subject), ends, 's' .. subject)
    prune(decided)
    clear(k, subject)
    return string.sub(stored, -1) == '+' and 'enqueued' or 'duplicate'
  end
end`

/** The beginning of all scripts. KEYS: those of a shard, and those of the expiry. */
const begin = `${outboxLua}${expiryLua}
local function refused(e)
  local problem = ackord.expiryProblem(1, e)
  return problem and redis.error_reply(problem)
end
local due, contexts, revoked, decided, parked = unpack(KEYS, ${keyCount + 1})
`

/** ARGV: those of `ackord.recordExpiry`. */
export const recordScript: OutboxScript = outboxScript(
  'expiry_record',
  `${begin}
return refused() or ackord.recordExpiry(1, 1)`,
)

/** ARGV: those of `ackord.revokeExpiry`. */
export const revokeScript: OutboxScript = outboxScript(
  'expiry_revoke',
  `${begin}
return refused(4) or ackord.revokeExpiry(1, 1)`,
)

/** ARGV: those of `ackord.decideExpiry`. */
export const decideScript: OutboxScript = outboxScript(
  'expiry_decide',
  `${begin}
return refused(ARGV[5] == '' and 6 or nil) or ackord.decideExpiry(1, 1)`,
)

/**
 * Reads due expiries, oldest first. Writes nothing.
 *
 *     ARGV: how many, cutoff or ''
 *     returns: the time; milliseconds until the next one is due, or -1; then for each its subject, dueAt and context
 */
export const dueScript: OutboxScript = outboxScript(
  'expiry_due',
  `${begin}
local problem = refused()
if problem then return problem end
local now = ackord.now()
local cutoff = string.format('%.0f', math.min(tonumber(ARGV[2]) or now, now))
local rows = redis.call('ZRANGEBYSCORE', due, '-inf', cutoff, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local next = redis.call('ZRANGEBYSCORE', due, '(' .. string.format('%.0f', now), '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local reply = { string.format('%.0f', now), next and string.format('%.0f', tonumber(next) - now) or '-1' }
for i = 1, #rows, 2 do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = rows[i], rows[i + 1], redis.call('HGET', contexts, rows[i])
end
return reply`,
)

/**
 * Reads some parked expiries. Writes nothing.
 *
 *     ARGV: cursor, about how many
 *     returns: the next cursor; then for each its subject, and dueAt, parkedAt and reason as one string
 */
export const parkedScript: OutboxScript = outboxScript(
  'expiry_parked',
  `${begin}
return refused() or redis.call('HSCAN', parked, ARGV[1], 'COUNT', ARGV[2])`,
)

/**
 * Makes parked expiries due again, or removes them.
 *
 *     ARGV: '1' to make them due, '0' to remove them; subjects
 *     returns: the number of expiries
 *     writes: for each due, out of parked. Removed: out of contexts and parked
 */
export const unparkScript: OutboxScript = outboxScript(
  'expiry_unpark',
  `${begin}
local problem = refused()
if problem then return problem end
local count = 0
redis.call('ZREM', due, '')
for i = 2, #ARGV do
  local subject = ARGV[i]
  local dueAt = string.match(redis.call('HGET', parked, subject) or '', '^(%d+) ')
  if dueAt then
    -- An expiry that was recorded again since then is not changed.
    local recorded = redis.call('ZSCORE', due, subject)
    if ARGV[1] == '1' and not recorded then redis.call('ZADD', due, dueAt, subject) end
    if ARGV[1] == '0' and not recorded then redis.call('HDEL', contexts, subject) end
    redis.call('HDEL', parked, subject)
    count = count + 1
  end
end
return count`,
)

/**
 * `extend()` in the commit of a transaction: the mark of a revoked subject is removed if it has ended, and otherwise ends no earlier than this.
 *
 *     keys: the marks
 *     arguments: the end, in milliseconds; the subject
 */
export const extendFragment: CommitFragment = {
  letter: 'y',
  ...script(`fragment.type = 'zset'
function fragment.run(name, k, a)
  local key, ends, subject = KEYS[k], ARGV[a], ARGV[a + 1]
  local held = redis.pcall('ZSCORE', key, subject)
  if type(held) == 'table' then return held end
  local before = tonumber(held or '')
  if not before then return end
  local time = redis.call('TIME')
  if before <= time[1] * 1000 + math.floor(time[2] / 1000) then return redis.pcall('ZREM', key, subject) end
  if before < tonumber(ends) then return redis.pcall('ZADD', key, ends, subject) end
end`),
}
