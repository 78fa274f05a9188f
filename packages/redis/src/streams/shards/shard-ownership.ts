import { type RedisPort, type Script, script } from '../../client/port.ts'
import { releaseScript } from '../../client/release-script.ts'

/** KEYS: lease. ARGV: token, milliseconds. Answers whether the lease was still held. */
const renew: Script = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

/** The lease on a shard. Its token is used once, so that a late answer is never mistaken for that of a newer lease. */
export class ShardLease {
  readonly key: string
  readonly token: string
  readonly duration: number
  readonly #port: RedisPort

  constructor(port: RedisPort, options: { readonly key: string; readonly token: string; readonly duration: number }) {
    this.#port = port
    this.key = options.key
    this.token = options.token
    this.duration = options.duration
  }

  async acquire(): Promise<boolean> {
    const { key, token, duration } = this
    try {
      const taken = await this.#port.send({ name: 'SET', args: [key, token, 'PX', String(duration), 'NX'], keys: [0] })
      if (taken !== null) return true
      // A client that reconnects may have sent it twice.
      return String(await this.#port.send({ name: 'GET', args: [key], keys: [0] })) === token
    } catch (error) {
      // The lease may be this instance's all the same; then no instance would read the shard until it expires.
      this.release().catch(() => {})
      throw error
    }
  }

  async renew(): Promise<boolean> {
    return String(await this.#port.evaluate(renew, [this.key], [this.token, String(this.duration)])) === '1'
  }

  async release(): Promise<void> {
    await this.#port.evaluate(releaseScript, [this.key], [this.token])
  }
}

/** KEYS: members zset. ARGV: member, milliseconds for which it counts. Answers the members. */
const join: Script = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)`)

/** The instances that share the shards of a stream. */
export class ShardMembers {
  readonly #port: RedisPort
  readonly #key: string
  readonly #member: string

  constructor(port: RedisPort, key: string, member: string) {
    this.#port = port
    this.#key = key
    this.#member = member
  }

  /** Renews the membership of this instance, and returns how many shards are its share: all shares differ by at most one. */
  async part(shards: number, duration: number): Promise<number> {
    const reply = await this.#port.evaluate(join, [this.#key], [this.#member, String(duration)])
    const members = (reply as readonly unknown[]).map(String).sort()
    const rest = shards % members.length
    return Math.floor(shards / members.length) + (members.indexOf(this.#member) < rest ? 1 : 0)
  }

  async leave(): Promise<void> {
    await this.#port.send({ name: 'ZREM', args: [this.#key, this.#member], keys: [0] })
  }
}
