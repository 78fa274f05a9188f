import type { DedicatedPort } from '../port.ts'
import { asList } from '../reply.ts'
import { type WakeUpsOptions, wakeUps } from '../wake-ups.ts'
import type { LuaHome } from './lua-home.ts'

/** Yields when something was stored or re-armed. */
export function luaWakeUps(home: LuaHome, options: WakeUpsOptions): AsyncGenerator<void, void, void> {
  return wakeUps(home, home.shards.all, options, async (shard, { port, signal, wake }) => {
    const key = shard.key('wake')
    let known: string | undefined
    while (!signal.aborted) {
      // Looked at after each wait: when all was deleted, the ids begin anew, and none of them would be behind the one that is known.
      const last = await lastId(port, key)
      if (last !== known) {
        known = last
        if (!(await wake())) return
      }
      const args = ['BLOCK', String(Math.ceil(options.block)), 'STREAMS', key, known]
      await port.send({ name: 'XREAD', args, keys: [3] })
    }
  })
}

async function lastId(port: DedicatedPort, key: string): Promise<string> {
  const reply = await port.send({ name: 'XREVRANGE', args: [key, '+', '-', 'COUNT', '1'], keys: [0] })
  const [first] = asList(reply)
  return String(asList(first)[0] ?? '0-0')
}
