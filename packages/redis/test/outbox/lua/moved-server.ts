import { redisKey } from '../../../src/client/keys.ts'
import { type RedisPort, type Script, script } from '../../../src/client/port.ts'

/** A server whose clock, as scripts see it, can be moved. The offset is stored under a key per tag, because the tags of a cluster are on several nodes. */
export interface MovedServer {
  readonly port: RedisPort
  move(duration: number): Promise<void>
  /** Stops the clock at this instant until it is moved again. */
  stopAt(instant: number): Promise<void>
}

export function movedServer(port: RedisPort, tags: readonly string[]): MovedServer {
  const moved = new Map<string, Script>()
  // The clock key is derived from the tag of the script's first key, because it is not among the keys passed to the script.
  const time = `(function()
    local time = redis.call('TIME')
    local moved = redis.call('GET', string.match(KEYS[1], '^[^{]*{[^}]*}') .. ':clock') or '0'
    local ms = tonumber(string.match(moved, '^at (%d+)$')) or time[1] * 1000 + math.floor(time[2] / 1000) + moved
    local microseconds = string.find(moved, '^at') and 0 or time[2] % 1000
    return { math.floor(ms / 1000), (ms % 1000) * 1000 + microseconds }
  end)()`

  function later(given: Script): Script {
    const known = moved.get(given.sha) ?? script(given.lua.replaceAll("redis.call('TIME')", () => time))
    moved.set(given.sha, known)
    return known
  }

  return {
    port: { ...port, evaluate: (given, keys, args, options) => port.evaluate(later(given), keys, args, options) },
    async move(duration) {
      for (const key of clockKeys(tags)) await port.send({ name: 'INCRBY', args: [key, String(duration)], keys: [0] })
    },
    async stopAt(instant) {
      for (const key of clockKeys(tags)) await port.send({ name: 'SET', args: [key, `at ${instant}`], keys: [0] })
    },
  }
}

/** The keys that hold the offset, to be deleted at the end. */
export function clockKeys(tags: readonly string[]): readonly string[] {
  return tags.map((tag) => redisKey(tag, 'clock'))
}
