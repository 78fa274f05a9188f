import { type RedisPort, type Script, script } from '../../../client/port.ts'
import type { LuaShard } from '../layout.ts'

/** For scripts whose work is for the holder of a lock only: `held(lock, token, lease)` extends it, or says that it is somebody else's by now. */
export const heldLua = `local function held(lock, token, lease)
  if redis.call('TYPE', lock).ok ~= 'string' or redis.call('GET', lock) ~= token then return false end
  redis.call('PEXPIRE', lock, lease)
  return true
end`

/**
 *     KEYS: the lock
 *     ARGV: token, lease
 *     gives: 1, or 0 if somebody else has it
 */
const acquireScript: Script = script(`local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'string' then return redis.error_reply('WRONGTYPE the lock ' .. KEYS[1] .. ' holds a ' .. found .. ', not a string') end
if found == 'string' then return 0 end
-- Removes nothing: where memory is full, the rest of a script is taken if its first write was.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

/**
 *     KEYS: the lock
 *     ARGV: token
 *     gives: 1, or 0 if it is somebody else's by now
 */
const releaseScript: Script =
  script(`if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

/**
 * Who does a job on a shard. It keeps two from doing the same work, and is no proof of being alone: whoever was paused for longer than the lease does not
 * know. So each step of the job asks for it in its own script, by `heldLua`.
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

  /** `false`: it is somebody else's by now, and stays so. */
  async release(): Promise<boolean> {
    return Number(await this.#port.evaluate(releaseScript, [this.key], [this.token])) === 1
  }
}
