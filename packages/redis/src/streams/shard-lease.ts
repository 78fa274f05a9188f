import type { RedisPort } from '../port.ts'
import { type Script, script } from '../script.ts'

/** KEYS: lease. ARGV: token, milliseconds. Answers whether it was still held. */
const renew: Script = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

/** KEYS: lease. ARGV: token. */
const release: Script = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

/** The right to read a shard. Its token is used once, so that a late answer is never taken for a newer one's. */
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
      // It may be this one's all the same, and then nobody would read for as long as it lasts.
      this.release().catch(() => {})
      throw error
    }
  }

  async renew(): Promise<boolean> {
    return String(await this.#port.evaluate(renew, [this.key], [this.token, String(this.duration)])) === '1'
  }

  async release(): Promise<void> {
    await this.#port.evaluate(release, [this.key], [this.token])
  }
}
