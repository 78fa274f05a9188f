import { type RedisPort, type Reply, type Script, script } from '../../../src/client/port.ts'

/**
 * A server whose clock can be moved forward: scripts see a later TIME, entries get ids of that time, and the idle times of pending entries
 * grow by the same duration. The offset is stored under a key beside the others.
 */
export interface MovedClock {
  readonly port: RedisPort
  /** `streams`: the streams whose pending entries become older. */
  move(duration: number, streams: readonly string[], group: string): Promise<void>
}

const growOlder = script(`redis.call('INCRBY', KEYS[1], ARGV[1])
for i = 2, #KEYS do
  local from = '-'
  repeat
    local page = redis.pcall('XPENDING', KEYS[i], ARGV[2], from, '+', 1000)
    if page.err then page = {} end
    for j, one in ipairs(page) do
      if j > 1 or from == '-' then
        redis.call('XCLAIM', KEYS[i], ARGV[2], one[2], 0, one[1], 'IDLE', one[3] + ARGV[1], 'RETRYCOUNT', one[4], 'JUSTID')
      end
    end
    if #page == 1000 then from = page[1000][1] end
  until #page < 1000
end`)

export function movedClock(port: RedisPort, key: string): MovedClock {
  const moved = new Map<string, Script>()
  // Includes the client's prefix, because the key is not among the keys passed to the script.
  const offset = `(tonumber(redis.call('GET', '${port.keyPrefix}${key}')) or 0)`
  const time = `(function()
    local time = redis.call('TIME')
    local ms = time[1] * 1000 + math.floor(time[2] / 1000) + ${offset}
    return { math.floor(ms / 1000), (ms % 1000) * 1000 + time[2] % 1000 }
  end)()`

  function later(given: Script): Script {
    const known = moved.get(given.sha)
    if (known !== undefined) return known
    const changed = script(
      given.lua.replaceAll("redis.call('TIME')", time).replaceAll(
        "return '*'",
        `local time = ${time}
  return string.format('%.0f-*', time[1] * 1000 + math.floor(time[2] / 1000))`,
      ),
    )
    moved.set(given.sha, changed)
    return changed
  }

  return {
    port: { ...port, evaluate: (given, keys, args, options): Promise<Reply> => port.evaluate(later(given), keys, args, options) },
    async move(duration, streams, group) {
      await port.evaluate(growOlder, [key, ...streams], [String(duration), group])
    },
  }
}
