import { idle } from '@ackord/core'
import type { DedicatedPort } from '../port.ts'
import { asList } from '../reply.ts'
import { type Script, script } from '../script.ts'
import { type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import type { OutboxHome } from './outbox-home.ts'

/** KEYS: streams. Gives the id of the last entry of each that there ever was. */
const lastIds: Script = script(`local ids = {}
for i, stream in ipairs(KEYS) do
  local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  ids[i] = not last.err and last[1] and last[1][1] or '0-0'
end
return ids`)

/** Yields when an entry is added. It follows tag by tag: those of a cluster are on several nodes. */
export function streamWakeUps(home: OutboxHome, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  const { block } = options
  return wakeUps(home, home.lanes.tags, options, async (tag, { port, signal, wake }) => {
    let streams: readonly string[] = []
    let ids: readonly string[] = []
    let added = true
    while (!signal.aborted) {
      const found = await streamsOf(home, port, tag)
      if (added || found.join() !== streams.join()) {
        streams = found
        // Before the hint: what comes after these is told by the next read, what came before them is found by whoever is woken.
        if (streams.length > 0) ids = asList(await port.evaluate(lastIds, streams, [])).map(String)
        if (!(await wake())) return
      }
      if (streams.length > 0) added = await untilAdded(port, streams, ids, block)
      else if (!(await idle(home.runtime, block, signal))) return
      else added = false
    }
  })
}

/** `false` after a while in which there was none: there may be new destinations. */
async function untilAdded(port: DedicatedPort, streams: readonly string[], ids: readonly string[], block: number): Promise<boolean> {
  const args = ['COUNT', '1', 'BLOCK', String(Math.ceil(block)), 'STREAMS', ...streams, ...ids]
  const reply = await port.send({ name: 'XREAD', args, keys: streams.map((_, index) => index + 5) }, { binary: true })
  return asList(reply).length > 0
}

async function streamsOf({ lanes }: OutboxHome, port: DedicatedPort, tag: string): Promise<readonly string[]> {
  const names = await port.send({ name: 'SMEMBERS', args: [lanes.destinationsKey(tag)], keys: [0] }, { binary: true })
  return asList(names).map((name) => lanes.get(tag, String(name)).keys.stream)
}
