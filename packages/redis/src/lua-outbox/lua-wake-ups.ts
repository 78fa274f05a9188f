import { idle } from '@ackord/core'
import { abortable, hints } from '@ackord/core/internal'
import type { DedicatedPort } from '../port.ts'
import { withDeadline } from '../with-deadline.ts'
import type { LuaShard } from './layout.ts'
import { asList, type LuaHome } from './lua-home.ts'

export interface LuaWakeUpsOptions {
  readonly signal: AbortSignal
  /** Milliseconds. */
  readonly block: number
  readonly deadline: number
}

/** Milliseconds between two hints: while there is a steady flow, none is needed for each record. */
const pause = 10

/** Yields when something was stored or re-armed. Each shard has a connection of its own: what blocks must not be where others wait. */
export async function* luaWakeUps(home: LuaHome, options: LuaWakeUpsOptions): AsyncGenerator<void, void, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  let failure: { readonly error: unknown } | undefined
  let following: readonly Promise<void>[] = []

  function followAll(wake: () => void): () => void {
    following = home.shards.all.map(async (shard) => {
      try {
        await follow(home, shard, wake, { ...options, signal })
      } catch (error) {
        failure = { error }
        wake()
      }
    })
    return () => stop.abort()
  }

  try {
    for await (const hint of hints(followAll, options.signal)) {
      if (failure !== undefined) throw failure.error
      yield hint
    }
  } finally {
    await Promise.all(following)
  }
}

async function follow({ port, runtime }: LuaHome, shard: LuaShard, wake: () => void, options: LuaWakeUpsOptions): Promise<void> {
  const { signal, block, deadline } = options
  const key = shard.key('wake')
  const opening = port.dedicate(signal)
  // It may be slow to come, and then nobody waits for it any more.
  opening.catch(() => {})
  let own: DedicatedPort
  try {
    own = await abortable(opening, signal)
  } catch (error) {
    void opening.then((late) => late.close()).catch(() => {})
    if (signal.aborted) return
    throw error
  }
  const waiting = withDeadline(own, block + deadline, runtime)
  const close = () => void own.close().catch(() => {})
  signal.addEventListener('abort', close, { once: true })
  try {
    let known: string | undefined
    while (!signal.aborted) {
      // Looked at after each wait: when all was deleted, the ids begin anew, and none of them would be behind the one that is known.
      const last = await lastId(waiting, key)
      if (last !== known) {
        known = last
        wake()
        if (!(await idle(runtime, pause, signal))) return
      }
      const args = ['BLOCK', String(Math.ceil(block)), 'STREAMS', key, known]
      await waiting.send({ name: 'XREAD', args, keys: [3] })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', close)
    close()
  }
}

async function lastId(port: DedicatedPort, key: string): Promise<string> {
  const reply = await port.send({ name: 'XREVRANGE', args: [key, '+', '-', 'COUNT', '1'], keys: [0] })
  const [first] = asList(reply)
  return String(asList(first)[0] ?? '0-0')
}
