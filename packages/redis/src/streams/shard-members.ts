import type { RedisPort } from '../port.ts'
import { type Script, script } from '../script.ts'

/** KEYS: members zset. ARGV: member, milliseconds that it counts for. Answers the members. */
const join: Script = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)`)

/** Those who share the shards of a stream among them. */
export class ShardMembers {
  readonly #port: RedisPort
  readonly #key: string
  readonly #member: string

  constructor(port: RedisPort, key: string, member: string) {
    this.#port = port
    this.#key = key
    this.#member = member
  }

  /** Says that this one is alive, and how many of the shards are its part: all parts differ by one at most. */
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
