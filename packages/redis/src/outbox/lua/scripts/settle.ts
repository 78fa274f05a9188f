import { pollerLua } from './claim-fragment.ts'
import { type OutboxScript, outboxScript, shardLua } from './prelude.ts'

/**
 * Applies outcomes to claims that still hold.
 *
 *     KEYS: those of a shard
 *     ARGV: '1' if published records are kept; initial, factor, max and jitter of the back-off; a number from 0 to 1; the maximum of attempts; '1' if
 *           the ages are wanted; ids; tokens, or one for all; letters; then the arguments of the letters. `p` published: none. `f` failed: milliseconds until it may be claimed, or ''
 *           for the back-off of its attempts and parking at their maximum, and the failure. `k` parked: the failure. A failure is an error, its cause and the line of the history
 *     returns: the indexes of lost claims, from 0; and the milliseconds from storing to now of published records, if wanted
 *     writes: published and not kept: state, body, error, edited, index, inflight, keys. The others: error, their new index entries, state, inflight, keys. counts
 */
export const settleScript: OutboxScript = outboxScript(
  'settle',
  `${shardLua}
${pollerLua}
local keep, seed, mostAttempts = ARGV[1] == '1', tonumber(ARGV[6]), tonumber(ARGV[7])
local initial, factor, max, jitter = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local wantsAges = ARGV[8] == '1'
local ids = split(ARGV[9])
local tokens, several = split(ARGV[10])
local letters, at = ARGV[11], 12
local found, seen = fetch(state, ids), {}
local lost, ages, gone, goneMembers, done = {}, {}, {}, {}, {}
open()

-- From the stored attempts: the exponent is bounded before it is used.
local function backoff(attempts, i)
  local delay = max
  local power = math.pow(factor, math.min(math.max(attempts - 1, 0), 1000))
  if initial * power < max then delay = initial * power end
  local random = (seed + i * 0.6180339887498949) % 1
  return math.floor(delay * (1 + jitter * (2 * random - 1)) + 0.5)
end
local function close(id, s, status, letter)
  s.status, s.at = status, now
  redis.call('ZADD', index, 0, letter .. s.seq .. id)
  redis.call('HSET', state, id, ackord.write(s))
  redis.call('ZREM', index, 'o' .. s.seq .. id)
  ackord.count(s.destinationHash, 'o', -1)
  ackord.count(s.destinationHash, letter, 1)
end

for i, id in ipairs(ids) do
  local letter, delay = string.sub(letters, i, i), nil
  if letter == 'f' then delay, at = ARGV[at], at + 1 end
  local s = ackord.read(found[i])
  local held = holds(s, several == 1 and tokens[1] or tokens[i]) and not seen[id]
  if not held then
    lost[#lost + 1] = i - 1
  else
    -- Of two outcomes for one claim, the first counts.
    seen[id] = true
    -- With order per key an attempt counts here.
    if ownerOf(s.token) and letter ~= 'p' then s.attempts = s.attempts + 1 end
    s.expires, s.token = 0, ''
    ackord.count(s.destinationHash, 'i', -1)
    if letter == 'p' then
      if wantsAges then ages[#ages + 1] = math.max(0, now - tonumber(s.created)) end
      if keep then
        redis.call('ZADD', sent, now, id)
        close(id, s, 'S', 's')
        redis.call('HDEL', errors, id)
        done[#done + 1] = id
      else
        gone[#gone + 1] = id
        goneMembers[#goneMembers + 1] = 'o' .. s.seq .. id
        ackord.count(s.destinationHash, 'o', -1)
      end
      removeFromKey('i', id, s)
    else
      fail(id, ARGV[at], ARGV[at + 1], ARGV[at + 2])
      if letter == 'k' or delay == '' and s.attempts >= mostAttempts then
        addToKey('f', id, s)
        close(id, s, 'F', 'f')
      else
        s.at = now + (delay == '' and backoff(s.attempts, i) or tonumber(delay))
        await(id, s)
        addToKey('o', id, s)
        redis.call('HSET', state, id, ackord.write(s))
      end
      removeFromKey('i', id, s)
      done[#done + 1] = id
    end
  end
  if letter ~= 'p' then at = at + 3 end
end
forget(gone, goneMembers)
remove('ZREM', inflight, gone)
remove('ZREM', inflight, done)
ackord.flush(1)
return { lost, ages }`,
)
