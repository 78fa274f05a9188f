import { type Script, script } from '../client/port.ts'

/**
 * Finishes a running instance of a process. Answers 1, or 0 if there is none.
 *
 *     KEYS: the hash of the instance, the index
 *     ARGV: milliseconds to keep it, now, the instant when it expires, its member in the index
 */
export const endScript: Script = script(`
local instance, index = KEYS[1], KEYS[2]
if redis.call('HEXISTS', instance, 'version') == 0 or redis.call('HEXISTS', instance, 'expires_at') == 1 then return 0 end
redis.call('HINCRBY', instance, 'version', 1)
redis.call('HSET', instance, 'timeouts', '{}', 'changed_at', ARGV[2], 'expires_at', ARGV[3])
redis.call('PEXPIRE', instance, ARGV[1])
redis.call('ZADD', index, ARGV[3], ARGV[4])
return 1`)
