import { setMaxListeners } from 'node:events'
import { idle, type Runtime } from '@ackord/core'
import { abortable, eachWakeUp } from '@ackord/core/internal'
import { withDeadline } from '../client/evaluate.ts'
import type { DedicatedPort, RedisPort } from '../client/port.ts'
import { asList } from '../client/reply.ts'

export interface WakeUpsOptions {
  readonly signal: AbortSignal
  /** Milliseconds. */
  readonly block: number
  readonly deadline: number
}

/** Follows one source of wake-ups. */
export interface Follower {
  /** A connection of its own: blocking reads must not delay other commands. */
  readonly port: DedicatedPort
  readonly signal: AbortSignal
  /** Wakes the consumer, and then pauses. Resolves to whether to go on. */
  wake(): Promise<boolean>
}

/** Milliseconds between two hints: in a steady flow, not every record needs one. */
const pause = 10

/** Yields when one of these sources has something new. Each is followed on a connection of its own until the signal, or until one fails. */
export async function* wakeUps<Source>(
  { port, runtime }: { readonly port: RedisPort; readonly runtime: Runtime },
  sources: readonly Source[],
  options: WakeUpsOptions,
  follow: (source: Source, follower: Follower) => Promise<void>,
): AsyncGenerator<void, void, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  // Each source listens to the signal: avoids Node's MaxListenersExceededWarning.
  setMaxListeners(0, signal)
  let failure: { readonly error: unknown } | undefined
  let following: readonly Promise<void>[] = []

  function followAll(hint: () => void): () => void {
    const wake = () => {
      hint()
      return idle(runtime, pause, signal)
    }
    following = sources.map(async (source) => {
      try {
        await withOwnPort(port, signal, async (own) => {
          await follow(source, { port: withDeadline(own, options.block + options.deadline, runtime), signal, wake })
        })
      } catch (error) {
        failure = { error }
        hint()
      }
    })
    return () => stop.abort()
  }

  try {
    for await (const hint of eachWakeUp(followAll, options.signal)) {
      if (failure !== undefined) throw failure.error
      yield hint
    }
  } finally {
    await Promise.all(following)
  }
}

/** The signal closes the connection, also while a command blocks, and ends the work without an error. */
async function withOwnPort(port: RedisPort, signal: AbortSignal, work: (own: DedicatedPort) => Promise<void>): Promise<void> {
  const opening = port.dedicate(signal)
  // The connection may come late, when nothing waits for it any more.
  opening.catch(() => {})
  let own: DedicatedPort
  try {
    own = await abortable(opening, signal)
  } catch (error) {
    void opening.then((late) => late.close()).catch(() => {})
    if (signal.aborted) return
    throw error
  }
  const close = () => void own.close().catch(() => {})
  signal.addEventListener('abort', close, { once: true })
  try {
    await work(own)
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', close)
    close()
  }
}

/** Follows a stream to which writers add an entry when they have stored something. They keep it short, but not to one entry: exact trimming is several times as slow. `block`: milliseconds for which one read waits. */
export async function followWakeStream(key: string, block: number, { port, signal, wake }: Follower): Promise<void> {
  let known: string | undefined
  while (!signal.aborted) {
    // Read after each wait: if the stream was deleted, its ids begin again, and none of them would be behind the known one.
    const last = await lastId(port, key)
    if (last !== known) {
      known = last
      if (!(await wake())) return
    }
    const args = ['COUNT', '1', 'BLOCK', String(Math.ceil(block)), 'STREAMS', key, known]
    await port.send({ name: 'XREAD', args, keys: [5] })
  }
}

async function lastId(port: DedicatedPort, key: string): Promise<string> {
  const reply = await port.send({ name: 'XREVRANGE', args: [key, '+', '-', 'COUNT', '1'], keys: [0] })
  const [first] = asList(reply)
  return String(asList(first)[0] ?? '0-0')
}
