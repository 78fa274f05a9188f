import { type Script, script } from '../../client/port.ts'

// Only commands that Redis 6.0 has and allows in scripts: XREADGROUP is not allowed. A client that reconnects may send any of these scripts twice.

/** `claim(id, idle)`: `{ id, fields, deliveries }`, counted as one more delivery. Without fields if the entry was deleted: then it is acked. `nil`: it does not exist, or has not been idle for long enough. */
const claim = `
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local function pending(id)
  return redis.call('XPENDING', stream, group, id, id, 1)[1]
end
local function claim(id, idle)
  local before = pending(id)
  if not before then return nil end
  local claimed = redis.call('XCLAIM', stream, group, consumer, idle, id)
  if claimed[1] then return { id, claimed[1][2], before[4] + 1 } end
  -- From 7.0 on, claiming a deleted entry removes it from the pending ones; before, the claim returns nothing.
  if #claimed == 0 and pending(id) then return nil end
  redis.call('XACK', stream, group, id)
  return { id, false, before[4] }
end
`

const clock = `
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`

/**
 * Takes nacked entries that are due.
 * KEYS: stream, retry zset. ARGV: group, consumer, limit. Answers the entries, and milliseconds until the next one is due, or -1.
 */
export const takeDue: Script = script(`${clock}${claim}
local instant, taken = now(), {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', instant, 'LIMIT', 0, ARGV[3])) do
  taken[#taken + 1] = claim(id, 0)
  redis.call('ZREM', KEYS[2], id)
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return { taken, first[2] and math.max(0, tonumber(first[2]) - instant) or -1 }`)

/**
 * Takes over idle entries, except nacked ones that are not due yet.
 * KEYS: stream, retry zset. ARGV: group, consumer, idle time, limit, the ids. Answers the entries.
 */
export const takeOver: Script = script(`${claim}
local taken, limit = {}, tonumber(ARGV[4])
for at = 5, #ARGV do
  if #taken == limit then break end
  if not redis.call('ZSCORE', KEYS[2], ARGV[at]) then taken[#taken + 1] = claim(ARGV[at], ARGV[3]) end
end
return taken`)

/**
 * Delivers an entry of this consumer once more. KEYS: stream. ARGV: group, consumer, id, deliveries so far.
 * Answers the entry, 'GONE' if it is not pending, or 'LOST' if another consumer has it.
 */
export const takeAgain: Script = script(`${claim}
local found = pending(ARGV[3])
if not found then return 'GONE' end
if found[2] ~= consumer or found[4] ~= tonumber(ARGV[4]) then return 'LOST' end
return claim(ARGV[3], 0) or 'GONE'`)

/**
 * Applies verdicts, each only while this consumer still has the delivery.
 * KEYS: stream, retry zset, dead-letter stream. ARGV: group, consumer, the name of the consumer for nacked entries, then per verdict: kind, id,
 * deliveries, the number of further values, then these. `ack`: none. `nack`: the delay, and the deliveries to count. `dead`: the fields of the dead letter.
 * Answers per verdict 'OK', 'GONE' (no longer pending: it was settled), 'LOST' (another consumer has it), or the error of the server.
 */
export const settle: Script = script(`${clock}
local stream, group, consumer, waiting = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local carryOut = {
  ack = function(id)
    redis.call('XACK', stream, group, id)
  end,
  nack = function(id, at)
    redis.call('XCLAIM', stream, group, waiting, 0, id, 'RETRYCOUNT', ARGV[at + 1], 'JUSTID')
    redis.call('ZADD', KEYS[2], now() + tonumber(ARGV[at]), id)
  end,
  dead = function(id, at, count)
    local added = redis.pcall('XADD', KEYS[3], '*', unpack(ARGV, at, at + count - 1))
    if type(added) == 'table' and added.err then return added.err end
    redis.call('XACK', stream, group, id)
  end,
}
local answers, at = {}, 4
while at <= #ARGV do
  local kind, id, deliveries, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local found = redis.call('XPENDING', stream, group, id, id, 1)[1]
  local answer
  if not found then
    answer = 'GONE'
  elseif found[2] == consumer and found[4] == deliveries then
    answer = carryOut[kind](id, at + 4, count) or 'OK'
  elseif kind == 'nack' and found[2] == waiting and redis.call('ZSCORE', KEYS[2], id) then
    answer = 'OK'
  else
    answer = 'LOST'
  end
  answers[#answers + 1] = answer
  at = at + 4 + count
end
return answers`)

/** Resets the idle time of entries, so that they are not taken over. KEYS: stream. ARGV: group, consumer, the ids. Answers the ids that this consumer no longer has. */
export const keep: Script = script(`
local stream, group, consumer, lost = KEYS[1], ARGV[1], ARGV[2], {}
for at = 3, #ARGV do
  local found = redis.call('XPENDING', stream, group, ARGV[at], ARGV[at], 1)[1]
  if found and found[2] == consumer then
    redis.call('XCLAIM', stream, group, consumer, 0, ARGV[at], 'JUSTID')
  else
    lost[#lost + 1] = ARGV[at]
  end
end
return lost`)

/**
 * Releases entries of the consumer that were not yielded, as if they had not been delivered: other consumers get them at once.
 * KEYS: stream, retry zset. ARGV: group, consumer, the name of the consumer for waiting entries, limit, the ids to keep. Answers the number of released entries.
 */
export const giveBack: Script = script(`${clock}
local stream, group, consumer, waiting = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local kept, given = {}, 0
for at = 5, #ARGV do kept[ARGV[at]] = true end
for _, found in ipairs(redis.call('XPENDING', stream, group, '-', '+', tonumber(ARGV[4]) + #ARGV - 4, consumer)) do
  if not kept[found[1]] then
    redis.call('XCLAIM', stream, group, waiting, 0, found[1], 'RETRYCOUNT', math.max(0, found[4] - 1), 'JUSTID')
    redis.call('ZADD', KEYS[2], now(), found[1])
    given = given + 1
  end
end
return given`)

/** Decrements the count of deliveries that did not happen; the entries stay pending. KEYS: stream. ARGV: group, consumer, the ids. */
export const uncount: Script = script(`
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
for at = 3, #ARGV do
  local found = redis.call('XPENDING', stream, group, ARGV[at], ARGV[at], 1)[1]
  if found and found[2] == consumer then
    redis.call('XCLAIM', stream, group, consumer, 0, ARGV[at], 'RETRYCOUNT', math.max(0, found[4] - 1), 'JUSTID')
  end
end`)

/** An entry, as XRANGE returns it. By a script, because a client that reads from replicas could ask one that does not have it yet. KEYS: stream. ARGV: group, consumer, id. */
export const fetch: Script = script(`return redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])`)

/** Removes a consumer without pending entries: removing others would lose their entries. KEYS: stream. ARGV: group, consumer. */
export const removeConsumer: Script = script(`
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1`)

/**
 * For the owner of a shard: takes all pending entries in a range of ids, from every consumer, and extends the lease.
 * KEYS: stream, lease. ARGV: group, consumer, token, lease in milliseconds, from, to, limit, the ids that it has already.
 * Answers 'LOST' if another instance has the lease; otherwise the entries, and the last id that was read if there may be more.
 */
export const takeRange: Script = script(`${claim}
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return 'LOST' end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
local has, taken = {}, {}
for at = 8, #ARGV do has[ARGV[at]] = true end
local found = redis.call('XPENDING', stream, group, ARGV[5], ARGV[6], ARGV[7])
for _, entry in ipairs(found) do
  if not has[entry[1]] then taken[#taken + 1] = claim(entry[1], 0) end
end
return { taken, #found == tonumber(ARGV[7]) and found[#found][1] or '' }`)
