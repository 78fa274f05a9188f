import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Reads records by their ids. Writes nothing.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     gives: the time; then of each its id, state, body and error
 */
export const getScript: OutboxScript = outboxScript(
  'get',
  `${shardLua}
local states, bodies, texts = fetch(state, ARGV), fetch(entries, ARGV), fetch(errors, ARGV)
local reply = { string.format('%.0f', now) }
for i, id in ipairs(ARGV) do reply[i + 1] = { id, states[i], bodies[i], texts[i] } end
return reply`,
)
