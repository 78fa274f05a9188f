import { idle, type Logger, type Runtime } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import type { OutboxStore } from './outbox-store.ts'

const retryAfter = 10_000

/** Calls `wake` for each of the store's hints until the signal is aborted. Never rejects. When the hints fail, polling does alone until they are back. */
export async function followWakeUps(
  store: OutboxStore,
  wake: () => void,
  options: { readonly signal: AbortSignal; readonly runtime: Runtime; readonly logger: Logger },
): Promise<void> {
  const { signal, runtime, logger } = options
  if (store.wakeUps === undefined) return
  let failing = false
  while (!signal.aborted) {
    try {
      await follow(store.wakeUps({ signal }), signal, () => {
        failing = false
        wake()
      })
    } catch (error) {
      if (signal.aborted) return
      if (!failing) logger.warn({ err: error }, "The store's wake-ups failed; until they work again, records wait for the next poll.")
      failing = true
    }
    await idle(runtime, retryAfter, signal)
  }
}

async function follow(wakeUps: AsyncIterable<void>, signal: AbortSignal, wake: () => void): Promise<void> {
  const iterator = wakeUps[Symbol.asyncIterator]()
  try {
    for (;;) {
      // Not `for await`: a store that overlooks the signal must not keep a stop waiting.
      const { done } = await abortable(iterator.next(), signal)
      if (done === true) return
      wake()
    }
  } finally {
    void leave(iterator)
  }
}

async function leave(iterator: AsyncIterator<void>): Promise<void> {
  try {
    await iterator.return?.()
  } catch {
    // Nobody follows it any more.
  }
}
