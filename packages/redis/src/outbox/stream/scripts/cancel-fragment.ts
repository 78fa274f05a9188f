import { script } from '../../../client/port.ts'
import type { CommitFragment } from '../../../client/queued-command.ts'
import { messageIndex } from './index-scripts.ts'
import { members, parkedConsumer, waitingConsumer } from './prelude.ts'

/**
 * `cancelEntry(k, group, id, due, now)`: removes an entry that is not due. KEYS from k on: the six of a destination. `due`: when its delay ends, in milliseconds. Returns whether it
 * was removed, or the reply of a command that failed.
 *
 * An entry that the group has read is due when `ready` or `retry` say so. An unread entry is due when its delay ends. So is an entry that a claim has read before its time
 * and has not put aside yet: such an entry has no field in `uncounted`, unlike an entry that an operator made ready before its delay ended.
 */
export const cancelEntryLua: string = `${members}
${messageIndex}
local function cancelEntry(k, group, id, due, now)
  local stream = KEYS[k]
  local page = redis.pcall('XPENDING', stream, group, id, id, 1)
  if page.err and not string.find(page.err, 'NOGROUP', 1, true) then return page end
  local pending = not page.err and page[1]
  if pending and pending[2] == '${waitingConsumer}' then
    due = tonumber(redis.call('ZSCORE', KEYS[k + 1], member(id)) or redis.call('ZSCORE', KEYS[k + 2], member(id)) or '0')
  elseif pending and (pending[2] == '${parkedConsumer}' or redis.call('HEXISTS', KEYS[k + 5], id) == 1) then
    due = 0
  end
  if due <= now then return false end
  if pending then redis.call('XACK', stream, group, id) end
  redis.call('XDEL', stream, id)
  redis.call('ZREM', KEYS[k + 1], member(id))
  redis.call('ZREM', KEYS[k + 2], member(id))
  forget(KEYS[k + 4], { id }, 1, 1)
  redis.call('HDEL', KEYS[k + 5], id)
  return true
end`

/**
 * `cancel()` in the commit of a transaction: removes delayed entries.
 *
 *     keys: the six of a destination
 *     arguments: group, then of each entry its id and when its delay ends, in milliseconds
 *     gives: the reply of a command that failed, or nil
 *
 * The removal cannot be rolled back: a stream accepts no entry with an id smaller than its last one.
 */
export const cancelFragment: CommitFragment = {
  letter: 'd',
  ...script(`${cancelEntryLua}
local hasCancelled = false
function fragment.check(name, k)
  for i, wanted in ipairs({ 'stream', 'zset', 'zset', 'zset', 'hash', 'hash' }) do
    local found = redis.call('TYPE', KEYS[k + i - 1]).ok
    if found ~= 'none' and found ~= wanted then
      return 'WRONGTYPE the key ' .. KEYS[k + i - 1] .. ' of an outbox holds a ' .. found .. ', not a ' .. wanted
    end
  end
end
function fragment.hasWritten() return hasCancelled end
function fragment.run(name, k, a, argc)
  hasCancelled = false
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  for i = a + 1, a + argc - 1, 2 do
    local done = cancelEntry(k, ARGV[a], ARGV[i], tonumber(ARGV[i + 1]), now)
    if type(done) == 'table' then return done end
    hasCancelled = hasCancelled or done
  end
end`),
}
