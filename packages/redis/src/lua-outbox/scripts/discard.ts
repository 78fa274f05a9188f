import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'

/**
 * Removes parked records for good.
 *
 *     KEYS: those of a shard
 *     ARGV: ids
 *     gives: the ids of those that it removed
 *     writes: state, body, error, index; counts
 */
export const discardScript: OutboxScript = outboxScript(
  'discard',
  `${shardLua}
local found, gone, members, seen = fetch(state, ARGV), {}, {}, {}
for i, id in ipairs(ARGV) do
  local s = ackord.read(found[i])
  if s and s.status == 'F' and not seen[id] then
    seen[id] = true
    gone[#gone + 1] = id
    members[#members + 1] = 'f' .. s.seq .. id
    ackord.count(s.lane, 'f', -1)
  end
end
forget(gone, members)
ackord.flush(1)
return gone`,
)
