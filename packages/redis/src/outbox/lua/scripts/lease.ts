import { pollerLua } from './claim-fragment.ts'
import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/**
 * Extends the leases that still hold, and, with order per key, those of their store objects.
 *
 *     KEYS: those of a shard
 *     ARGV: lease; ids; tokens, or one for all
 *     returns: the indexes of lost claims, from 0
 *     writes: for each inflight, state; pollers
 */
export const renewScript: OutboxScript = outboxScript(
  'renew',
  `${shardLua}
${pollerLua}
local lease, ids = tonumber(ARGV[1]), split(ARGV[2])
local tokens, several = split(ARGV[3])
local found, lost = fetch(state, ids), {}
open()
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  local token = several == 1 and tokens[1] or tokens[i]
  local owner = ownerOf(token)
  if owner and living()[owner] then redis.call('ZADD', pollers, now + lease, owner) end
  if holds(s, token) then
    s.expires = now + lease
    redis.call('ZADD', inflight, s.expires, id)
    redis.call('HSET', state, id, ackord.write(s))
  else
    lost[#lost + 1] = i - 1
  end
end
return lost`,
)

/**
 * Releases claims that still hold: restores the state before the claim.
 *
 *     KEYS: those of a shard
 *     ARGV: ids; tokens, or one for all
 *     returns: the indexes of lost claims, from 0
 *     writes: for each ready or waiting, keys, state; inflight; counts
 */
export const releaseScript: OutboxScript = outboxScript(
  'release',
  `${shardLua}
${pollerLua}
local ids = split(ARGV[1])
local tokens, several = split(ARGV[2])
local found, lost, done, seen = fetch(state, ids), {}, {}, {}
open()
for i, id in ipairs(ids) do
  local s = ackord.read(found[i])
  if holds(s, several == 1 and tokens[1] or tokens[i]) and not seen[id] then
    seen[id] = true
    -- With order per key an attempt does not count when it is claimed.
    s.attempts, s.expires, s.token = ownerOf(s.token) and s.attempts or s.attempts - 1, 0, ''
    await(id, s)
    addToKey('o', id, s)
    redis.call('HSET', state, id, ackord.write(s))
    removeFromKey('i', id, s)
    ackord.count(s.destinationHash, 'i', -1)
    done[#done + 1] = id
  else
    lost[#lost + 1] = i - 1
  end
end
remove('ZREM', inflight, done)
ackord.flush(1)
return lost`,
)

/**
 * With order per key: a store object stops claiming, and others may claim its keys at once. Records that it still has in flight may have been published, so that counts as
 * an attempt.
 *
 *     KEYS: those of a shard
 *     ARGV: the name of the store object
 *     returns: 1, or 0 if its lease had expired
 *     writes: for each ready, keys, state; inflight, pollers; counts; the hint
 */
export const leaveScript: OutboxScript = outboxScript(
  'leave',
  `${shardLua}
${pollerLua}
local mine = ARGV[1]
if not living()[mine] then return 0 end
open()
local inFlight, back = redis.call('ZRANGEBYSCORE', inflight, '-inf', '+inf'), {}
for i, text in ipairs(fetch(state, inFlight)) do
  local id, s = inFlight[i], ackord.read(text)
  if s and s.status == 'O' and ownerOf(s.token) == mine then
    s.attempts = s.attempts + 1
    lapse(id, s)
    back[#back + 1] = id
  end
end
remove('ZREM', inflight, back)
redis.call('ZREM', pollers, mine)
ackord.flush(1)
redis.call('XADD', wake, 'MAXLEN', '~', 1, '*', 'n', 0)
return 1`,
)
