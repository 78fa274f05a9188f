import { type Script, script } from '../../../client/port.ts'
import { failureLua } from '../../failure-field.ts'
import { messageIndex } from './index-scripts.ts'
import { clock, holding, members, parkedConsumer, types, waitingConsumer } from './prelude.ts'

// Common to all. KEYS: the six of a destination, for each relay with claims there. ARGV: group, then for each of these: the relay's name; the
// ids in their order; for each its delivery followed by a letter, or one for all, both with blanks between them, because many arguments are slow;
// then the arguments of the letters. Returns the indexes of lost claims.

const forEachHeld = (work: string): string => `${types}
${holding}
local group, at, place = ARGV[1], 2, 0
local lost = {}
for first = 1, #KEYS - 5, 6 do
  local problem = checkKeys(first)
  if problem then return problem end
end
for first = 1, #KEYS - 5, 6 do
  local stream, name = KEYS[first], ARGV[at]
  local ids, count = split(ARGV[at + 1])
  local words = split(ARGV[at + 2])
  at = at + 3
  local pending = pendingOf(stream, group, ids, count)
  if pending.err then return pending end
  local done, finished = {}, 0
  local delivery, letter, owner, lease
  for i = 1, count do
    local id, one, held = ids[i], pending[i], false
    if words[i] then delivery, letter = tonumber(string.sub(words[i], 1, -2)), string.sub(words[i], -1) end
    if one then
      if one[2] ~= owner then
        owner = one[2]
        lease = leaseOf(owner, name)
      end
      held = one[4] == delivery and one[3] < lease
    end
    if not held then lost[#lost + 1] = place end
    place = place + 1
    ${work}
  end`

/**
 * `p`: published. `f`: failed, with the milliseconds until it may be retried, and the failure. `k`: parked, with the failure. A failure is an error, its cause and the line of the history.
 * The first write is one that a server accepts when its memory is full; then it accepts the following ones. The claim is given up
 * last: if the server refuses a write before that, for a missing permission, the record is still claimed, and taken over later.
 */
export const settleHeld: Script = script(`${clock}
${members}
${failureLua}
${messageIndex}
${forEachHeld(`if letter == 'p' then
      if held then
        finished = finished + 1
        done[finished] = id
        if delivery > 1 then redis.call('HDEL', KEYS[first + 5], id) end
      end
    else
      local failed = letter == 'f'
      if failed then at = at + 1 end
      if held then
        local key = KEYS[first + (failed and 2 or 3)]
        redis.call('ZREM', key, member(id))
        redis.call('ZADD', key, failed and now + tonumber(ARGV[at - 1]) or now, member(id))
        local before = redis.call('HGET', KEYS[first + 4], id)
        redis.call('HSET', KEYS[first + 4], id, failureField(before, now, ARGV[at], ARGV[at + 1], ARGV[at + 2]))
        redis.call('XCLAIM', stream, group, failed and '${waitingConsumer}' or '${parkedConsumer}', 0, id, 'JUSTID')
      end
      at = at + 3
    end`)}
  for i = 1, finished, 1000 do
    local last = math.min(i + 999, finished)
    -- Also those of first deliveries: an entry that replaces a parked one has its failures.
    forget(KEYS[first + 4], done, i, last)
    redis.call('XACK', stream, group, unpack(done, i, last))
    redis.call('XDEL', stream, unpack(done, i, last))
  end
end
return lost`)

/** `r`: restores the state before the claim. Writes in the same order. */
export const releaseHeld: Script = script(`${members}
${forEachHeld(`if held then
      redis.call('ZREM', KEYS[first + 1], member(id))
      local uncounted = redis.call('HINCRBY', KEYS[first + 5], id, 1)
      redis.call('ZADD', KEYS[first + (delivery > uncounted and 2 or 1)], 0, member(id))
      redis.call('XCLAIM', stream, group, '${waitingConsumer}', 0, id, 'JUSTID')
    end`)}
end
return lost`)

/** `r`: renews the lease. The last of ARGV is its duration. */
export const renewHeld: Script = script(`${forEachHeld(`if held then
      finished = finished + 1
      done[finished] = id
    end`)}
  for i = 1, finished, 1000 do
    local command = { 'XCLAIM', stream, group, name .. '/' .. ARGV[#ARGV], 0, unpack(done, i, math.min(i + 999, finished)) }
    command[#command + 1] = 'JUSTID'
    redis.call(unpack(command))
  end
end
return lost`)
