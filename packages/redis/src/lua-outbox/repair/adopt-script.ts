import { keyCount } from '../layout.ts'
import { shardLua } from '../lua.ts'
import { type OutboxScript, outboxScript } from '../outbox-script.ts'
import { heldLua } from './runner-lock.ts'

/**
 * Parks what has a body and no state, or names a lane, if that is still so.
 *
 *     KEYS: those of a shard, the place of the pass, the lock
 *     ARGV: token and lease of the lock, 'state' or 'name' for what is missing, id, lane, destination, print
 *     gives: 1, or 0 if it is not so any longer, or -1 if the lock is somebody else's
 *     writes: 'state': seq, error, index, state, the name of the lane; counts. 'name': that
 */
export const adoptScript: OutboxScript = outboxScript(
  'adopt',
  `${shardLua}
${heldLua}
local token, lease, missing, id, lane, name, print = unpack(ARGV)
if not held(KEYS[${keyCount + 2}], token, lease) then return -1 end
if missing == 'name' then return redis.call('HSETNX', destinations, lane, name) end
local statuses = { O = true, S = true, F = true }
local s = ackord.read(redis.call('HGET', state, id))
if s and statuses[s.status] and #s.seq == 16 and #s.lane == 8 or redis.call('HEXISTS', entries, id) == 0 then return 0 end
open()
local number = string.format('%016.0f', redis.call('INCRBY', seq, 1))
redis.call('HSET', errors, id, 'Its state was missing or broken: whether it was published is not known.')
redis.call('ZADD', index, 0, 'f' .. number .. id)
redis.call('HSET', state, id, ackord.write({ status = 'F', attempts = 0, seq = number, created = string.format('%.0f', now), at = now, lane = lane,
  print = print, expires = 0, token = '' }))
redis.call('HSETNX', destinations, lane, name)
ackord.count(lane, 'f', 1)
ackord.flush(1)
return 1`,
)
