import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Reads records in the order in which they were stored. Writes nothing.
 *
 *     KEYS: those of a shard
 *     ARGV: the letter of their status, the seq behind which to begin, or '', how many
 *     gives: the time; then of each its member of the index, state, body and error
 */
export const listScript: OutboxScript = outboxScript(
  'list',
  `${shardLua}
local after = ARGV[2] == '' and '[' .. ARGV[1] or '(' .. ARGV[1] .. ARGV[2] .. '~'
local members = redis.call('ZRANGEBYLEX', index, after, '(' .. ARGV[1] .. '~', 'LIMIT', 0, ARGV[3])
local ids = {}
for i, one in ipairs(members) do ids[i] = string.sub(one, 18) end
local states, bodies, texts = fetch(state, ids), fetch(entries, ids), fetch(errors, ids)
local reply = { string.format('%.0f', now) }
for i, one in ipairs(members) do reply[i + 1] = { one, states[i], bodies[i], texts[i] } end
return reply`,
)
