import { cancelLua } from './cancel-fragment.ts'
import { ackordLua, type OutboxScript, outboxScript } from './prelude.ts'

/**
 * Removes delayed records.
 *
 *     KEYS: those of a shard
 *     ARGV: those of `ackord.cancel`
 *     returns: a sign for each
 *     writes: as `ackord.cancel`
 */
export const cancelScript: OutboxScript = outboxScript(
  'cancel',
  `${ackordLua}
ackord.planned = {}
${cancelLua}
local problem = ackord.checkCancel(1, 1)
if problem then return redis.error_reply(problem) end
return ackord.cancel(1, 1)`,
)
