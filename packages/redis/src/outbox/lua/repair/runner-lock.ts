import { type RedisPort, type Script, script } from '../../../client/port.ts'
import type { LuaShard } from '../layout.ts'

/** For scripts that only the holder of a lock may run: `held(lock, token, lease)` extends the lock, or returns false if another process has it. */
export const heldLua = `local function held(lock, token, lease)
  if redis.call('TYPE', lock).ok ~= 'string' or redis.call('GET', lock) ~= token then return false end
  redis.call('PEXPIRE', lock, lease)
  return true
end`

/**
 *     KEYS: the lock
 *     ARGV: token, lease
 *     returns: 1, or 0 if another process has it
 */
const acquireScript: Script = script(`local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'string' then return redis.error_reply('WRONGTYPE the lock ' .. KEYS[1] .. ' holds a ' .. found .. ', not a string') end
if found == 'string' then return 0 end
-- Removes nothing: if memory is full, the server accepts the rest of a script if it accepted its first write.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

/**
 *     KEYS: the lock
 *     ARGV: token
 *     returns: 1, or 0 if another process has it
 */
const releaseScript: Script =
  script(`if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

/**
 * The lock on a shard. It keeps two processes from doing the same work, but does not prove that there is only one: a process that was paused for longer than the lease does not
 * notice. So each step checks the lock in its own script, by `heldLua`.
 */
export class RunnerLock {
  readonly key: string
  readonly token: string
  readonly lease: string
  readonly #port: RedisPort

  constructor(port: RedisPort, shard: LuaShard, terms: { readonly role: string; readonly token: string; readonly lease: number }) {
    this.#port = port
    this.key = shard.key('lock', terms.role)
    this.token = terms.token
    this.lease = String(Math.ceil(terms.lease))
  }

  async acquire(): Promise<boolean> {
    return Number(await this.#port.evaluate(acquireScript, [this.key], [this.token, this.lease])) === 1
  }

  /** `false`: another process has it. */
  async release(): Promise<boolean> {
    return Number(await this.#port.evaluate(releaseScript, [this.key], [this.token])) === 1
  }
}
