import { keyCount } from '../layout.ts'
import { outboxLua } from '../outbox-lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'
import { expiryLua } from './expiry-lua.ts'

/** What all of them begin with. KEYS: those of a shard, and those of the expiry. */
const begin = `${outboxLua}${expiryLua}
local function refused(e)
  local problem = ackord.expiryProblem(1, e)
  return problem and redis.error_reply(problem)
end
local due, contexts, revoked, decided, parked = unpack(KEYS, ${keyCount + 1})
`

/** As `ackord.recordExpiry`, whose arguments are all that it has. */
export const recordScript: OutboxScript = outboxScript(
  'expiry_record',
  `${begin}
return refused() or ackord.recordExpiry(1, 1)`,
)

/** As `ackord.revokeExpiry`, whose arguments are all that it has. */
export const revokeScript: OutboxScript = outboxScript(
  'expiry_revoke',
  `${begin}
return refused(4) or ackord.revokeExpiry(1, 1)`,
)

/** As `ackord.decideExpiry`, whose arguments are all that it has. */
export const decideScript: OutboxScript = outboxScript(
  'expiry_decide',
  `${begin}
return refused(ARGV[5] == '' and 6 or nil) or ackord.decideExpiry(1, 1)`,
)

/**
 * Reads what is due, oldest first. Writes nothing.
 *
 *     ARGV: how many, cutoff or ''
 *     gives: the time; milliseconds until the next that is not due yet, or -1; then of each subject, dueAt and context
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
 * Reads some of what is parked. Writes nothing.
 *
 *     ARGV: cursor, about how many
 *     gives: the next cursor; then of each subject, and dueAt, parkedAt and reason in one text
 */
export const parkedScript: OutboxScript = outboxScript(
  'expiry_parked',
  `${begin}
return refused() or redis.call('HSCAN', parked, ARGV[1], 'COUNT', ARGV[2])`,
)

/**
 * Puts back what is parked, or removes it for good.
 *
 *     ARGV: '1' to put it back, '0' to remove it; subjects
 *     gives: how many it was
 *     writes: of each due, out of parked. Removed: out of contexts and parked
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
    -- What was issued again since then is not touched.
    local recorded = redis.call('ZSCORE', due, subject)
    if ARGV[1] == '1' and not recorded then redis.call('ZADD', due, dueAt, subject) end
    if ARGV[1] == '0' and not recorded then redis.call('HDEL', contexts, subject) end
    redis.call('HDEL', parked, subject)
    count = count + 1
  end
end
return count`,
)
