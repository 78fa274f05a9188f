import { enqueueLua } from './enqueue-fragment.ts'
import { ackordLua, type OutboxScript, outboxScript } from './prelude.ts'

/**
 * Stores records that are not stored yet.
 *
 *     KEYS: those of a shard
 *     ARGV: those of `ackord.enqueue`
 *     returns: '<now>:' and a sign for each
 *     writes: as `ackord.enqueue`
 */
export const enqueueScript: OutboxScript = outboxScript(
  'enqueue',
  `${ackordLua}
${enqueueLua}
local problem = ackord.check(1, 1)
if problem then return redis.error_reply(problem) end
return ackord.enqueue(1, 1)`,
)
