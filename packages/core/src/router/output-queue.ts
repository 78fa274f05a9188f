import { AckordError } from '../errors.ts'
import type { Message } from '../message/message.ts'

interface Offer {
  readonly outputs: readonly Message[]
  next: number
  readonly taken: () => void
  readonly refused: (error: unknown) => void
}

/** Passes outputs to the readers of an iteration. An offer counts as delivered when a reader has read all of it, not when it is queued. */
export class OutputQueue implements AsyncIterator<Message, undefined> {
  readonly #offers: Offer[] = []
  readonly #readers: ((result: IteratorResult<Message, undefined> | Promise<IteratorResult<Message, undefined>>) => void)[] = []
  readonly #onLeave: () => Promise<void>
  #end: { readonly error: unknown } | 'done' | undefined
  #refusal: { readonly error: unknown } | undefined
  #left = false

  /** `onLeave` is called when the reader leaves the loop. */
  constructor(onLeave: () => Promise<void>) {
    this.#onLeave = onLeave
  }

  /** Resolves once all are read, rejects if the reader left before. `undefined` means that readers were waiting and got them all immediately. */
  offer(outputs: readonly Message[]): Promise<void> | undefined {
    if (this.#left) return Promise.reject(readerLeft())
    let next = 0
    while (next < outputs.length) {
      const reader = this.#offers.length === 0 ? this.#readers.shift() : undefined
      if (reader === undefined) break
      reader({ done: false, value: outputs[next] as Message })
      next += 1
    }
    if (next === outputs.length) return undefined
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal.error)
    return new Promise((taken, refused) => {
      this.#offers.push({ outputs, next, taken, refused })
    })
  }

  /** No more offers: waiting and later readers see the end, or the error. */
  end(error?: { readonly error: unknown }): void {
    this.#end ??= error ?? 'done'
    for (const reader of this.#readers.splice(0)) reader(this.#ended())
  }

  /** Drops outputs that were not read yet; from now on only readers that already wait are served. */
  refuse(error: unknown): void {
    this.#refusal ??= { error }
    for (const offer of this.#offers.splice(0)) offer.refused(error)
  }

  next(): Promise<IteratorResult<Message, undefined>> {
    const offer = this.#offers[0]
    if (offer !== undefined) {
      const value = offer.outputs[offer.next] as Message
      offer.next += 1
      if (offer.next === offer.outputs.length) {
        this.#offers.shift()
        offer.taken()
      }
      return Promise.resolve({ done: false, value })
    }
    if (this.#end !== undefined) return this.#ended()
    return new Promise((resolve) => {
      this.#readers.push(resolve)
    })
  }

  async return(): Promise<IteratorResult<Message, undefined>> {
    if (this.#left) return { done: true, value: undefined }
    this.#left = true
    this.refuse(readerLeft())
    await this.#onLeave()
    this.end()
    return { done: true, value: undefined }
  }

  /** The error goes to one reader; for the others the queue has just ended. */
  #ended(): Promise<IteratorResult<Message, undefined>> {
    const end = this.#end
    this.#end = 'done'
    if (end !== undefined && end !== 'done') return Promise.reject(end.error)
    return Promise.resolve({ done: true, value: undefined })
  }
}

function readerLeft(): AckordError {
  return new AckordError('ACKORD_SHUTDOWN', 'The reader of the outputs left before it had read this one.')
}
