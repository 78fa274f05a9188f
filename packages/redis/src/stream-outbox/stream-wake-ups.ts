import { idle } from '@ackord/core'
import { abortable, hints } from '@ackord/core/internal'
import type { DedicatedPort, Reply } from '../port.ts'
import { type Script, script } from '../script.ts'
import { withDeadline } from '../with-deadline.ts'
import type { OutboxHome } from './outbox-home.ts'

export interface StreamWakeUpsOptions {
  readonly signal: AbortSignal
  /** Milliseconds. */
  readonly block: number
  readonly deadline: number
}

/** Milliseconds between two hints: while there is a steady flow, none is needed for each record. */
const pause = 10

/** KEYS: streams. Gives the id of the last entry of each that there ever was. */
const lastIds: Script = script(`local ids = {}
for i, stream in ipairs(KEYS) do
  local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  ids[i] = not last.err and last[1] and last[1][1] or '0-0'
end
return ids`)

/** Yields when an entry is added. Each tag has a connection of its own: what blocks must not be where others wait, and a cluster's tags are on several nodes. */
export async function* streamWakeUps(home: OutboxHome, options: StreamWakeUpsOptions): AsyncGenerator<void, void, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  let failure: { readonly error: unknown } | undefined
  let following: readonly Promise<void>[] = []

  function followAll(wake: () => void): () => void {
    following = home.lanes.tags.map(async (tag) => {
      try {
        await follow(home, tag, wake, { ...options, signal })
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

async function follow(home: OutboxHome, tag: string, wake: () => void, options: StreamWakeUpsOptions): Promise<void> {
  const { port, runtime } = home
  const { signal, block, deadline } = options
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
    let streams: readonly string[] = []
    let ids: readonly string[] = []
    let added = true
    while (!signal.aborted) {
      const found = await streamsOf(home, waiting, tag)
      if (added || found.join() !== streams.join()) {
        streams = found
        // Before the hint: what comes after these is told by the next read, what came before them is found by whoever is woken.
        if (streams.length > 0) ids = asList(await waiting.evaluate(lastIds, streams, [])).map(String)
        wake()
        if (!(await idle(runtime, pause, signal))) return
      }
      if (streams.length > 0) added = await untilAdded(waiting, streams, ids)
      else if (!(await idle(runtime, block, signal))) return
      else added = false
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', close)
    close()
  }

  /** `false` after a while in which there was none: there may be new destinations. */
  async function untilAdded(from: DedicatedPort, streams: readonly string[], ids: readonly string[]): Promise<boolean> {
    const args = ['COUNT', '1', 'BLOCK', String(Math.ceil(block)), 'STREAMS', ...streams, ...ids]
    const reply = await from.send({ name: 'XREAD', args, keys: streams.map((_, index) => index + 5) }, { binary: true })
    return asList(reply).length > 0
  }
}

async function streamsOf({ lanes }: OutboxHome, port: DedicatedPort, tag: string): Promise<readonly string[]> {
  const names = await port.send({ name: 'SMEMBERS', args: [lanes.destinationsKey(tag)], keys: [0] }, { binary: true })
  return asList(names).map((name) => lanes.get(tag, String(name)).keys.stream)
}

function asList(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? reply : []
}
