import type { Publisher, RawMessage } from '@ackord/core'

interface InstantPublisher extends Publisher {
  readonly published: number
  /** Resolves when the expected number of messages has been published. */
  readonly finished: Promise<void>
}

/** Confirms immediately, until the expected number of counted messages is reached. By default all count. */
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
