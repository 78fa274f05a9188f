import { setMaxListeners } from 'node:events'
import { idle, type Runtime } from '@ackord/core'
import { abortable, hints } from '@ackord/core/internal'
import { withDeadline } from '../client/evaluate.ts'
import type { DedicatedPort, RedisPort } from '../client/port.ts'
import { asList } from '../client/reply.ts'

export interface WakeUpsOptions {
  readonly signal: AbortSignal
  /** Milliseconds. */
  readonly block: number
  readonly deadline: number
}

/** What follows one place. */
export interface Follower {
  /** For nobody else: what blocks must not be where others wait. */
  readonly port: DedicatedPort
  readonly signal: AbortSignal
  /** Wakes, and then pauses. Gives whether to go on. */
  wake(): Promise<boolean>
}

/** Milliseconds between two hints: while there is a steady flow, none is needed for each record. */
const pause = 10

/** Yields when something has come to one of these places. Each is followed on a connection of its own until the signal, or until one fails. */
export async function* wakeUps<Place>(
  { port, runtime }: { readonly port: RedisPort; readonly runtime: Runtime },
  places: readonly Place[],
  options: WakeUpsOptions,
  follow: (place: Place, follower: Follower) => Promise<void>,
): AsyncGenerator<void, void, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  // Each place listens to it: avoids Node's MaxListenersExceededWarning.
  setMaxListeners(0, signal)
  let failure: { readonly error: unknown } | undefined
  let following: readonly Promise<void>[] = []

  function followAll(hint: () => void): () => void {
    const wake = () => {
      hint()
      return idle(runtime, pause, signal)
    }
    following = places.map(async (place) => {
      try {
        await withOwnPort(port, signal, async (own) => {
          await follow(place, { port: withDeadline(own, options.block + options.deadline, runtime), signal, wake })
        })
      } catch (error) {
        failure = { error }
        hint()
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

/** The signal closes the connection, also while a command blocks, and ends the work without an error. */
async function withOwnPort(port: RedisPort, signal: AbortSignal, work: (own: DedicatedPort) => Promise<void>): Promise<void> {
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

/** Follows a stream that holds one entry, which writers replace to tell that they have stored something. `block`: milliseconds that one read waits. */
export async function followWakeStream(key: string, block: number, { port, signal, wake }: Follower): Promise<void> {
  let known: string | undefined
  while (!signal.aborted) {
    // Looked at after each wait: when all was deleted, the ids begin anew, and none of them would be behind the one that is known.
    const last = await lastId(port, key)
    if (last !== known) {
      known = last
      if (!(await wake())) return
    }
    const args = ['BLOCK', String(Math.ceil(block)), 'STREAMS', key, known]
    await port.send({ name: 'XREAD', args, keys: [3] })
  }
}

async function lastId(port: DedicatedPort, key: string): Promise<string> {
  const reply = await port.send({ name: 'XREVRANGE', args: [key, '+', '-', 'COUNT', '1'], keys: [0] })
  const [first] = asList(reply)
  return String(asList(first)[0] ?? '0-0')
}
