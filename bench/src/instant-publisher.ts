import type { Publisher, RawMessage } from '@ackord/core'

interface InstantPublisher extends Publisher {
  readonly published: number
  /** Resolves when it has got as many as it waits for. */
  readonly finished: Promise<void>
}

/** Confirms at once, until it has got so many that count. By default all do. */
export function instantPublisher(expected: number, counts?: (message: RawMessage) => boolean): InstantPublisher {
  let published = 0
  let finish: (() => void) | undefined
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  return {
    finished,
    get published() {
      return published
    },
    async publish(_, messages) {
      published += counts === undefined ? messages.length : messages.filter(counts).length
      if (published >= expected) finish?.()
      return messages.map(() => ({ ok: true }))
    },
  }
}
