import { keyNames } from '../layout.ts'
import { ackordLua, type OutboxScript, outboxScript } from './prelude.ts'

/**
 * Tries every command that the scripts use, without changing any record, and checks the keys.
 *
 *     KEYS: those of a shard
 *     ARGV: '1' if there is order per key, else '0'
 *     returns: the problems, as strings
 *     writes: meta; seq and wake, if they do not exist; a hint
 */
export const verifyScript: OutboxScript = outboxScript(
  'verify',
  `${ackordLua}
local problem = ackord.problem(1) or ackord.mismatch(1, ARGV[1] == '1')
if problem then return { problem } end
local ${keyNames.join(', ')} = unpack(KEYS)
local problems = {}
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then problems[#problems + 1] = (...) .. ': ' .. reply.err end
end
try('INCRBY', seq, 0)
-- Not its layout: the first stored record decides whether there is order.
try('HSETNX', meta, 'verified', 0)
try('HSET', meta, 'checked', 1)
try('HINCRBY', meta, 'verified', 1)
for _, key in ipairs({ entries, state, errors, destinations, counts, edited }) do try('HDEL', key, '') end
for _, key in ipairs({ ready, waiting, inflight, sent, index, keys, pollers }) do
  try('ZADD', key, 'XX', 0, '')
  try('ZREM', key, '')
end
try('HGET', state, '')
try('HMGET', state, '')
try('HSTRLEN', entries, '')
try('HGETALL', meta)
try('ZRANGEBYSCORE', waiting, 0, 0, 'LIMIT', 0, 1)
try('ZRANGEBYLEX', ready, '[a', '[a', 'LIMIT', 0, 1)
try('ZLEXCOUNT', ready, '[a', '[a')
try('XADD', wake, 'MAXLEN', '~', 1, '*', 'n', 0)
return problems`,
)
