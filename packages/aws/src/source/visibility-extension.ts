import type { Runtime, Timer } from '@ackord/core'
import { type HeldMessage, visibilityOf } from './held-message.ts'
import type { QueueClient } from './queue-client.ts'
import { RefusedEntry } from './request-batcher.ts'

export interface VisibilityExtensionSettings {
  readonly client: QueueClient
  readonly runtime: Runtime
  /** Milliseconds. */
  readonly visibilityTimeout: number
  /** The messages that are held now. */
  readonly held: () => Iterable<HeldMessage>
  /** Called when SQS does not extend the timeout of a message any more: another consumer has it, or will. */
  readonly onLost: (held: HeldMessage, reason: unknown) => void
}

/** Extends the visibility timeout of the held messages after each third of it, so that SQS does not deliver them again while a handler runs. */
export class VisibilityExtension {
  readonly #settings: VisibilityExtensionSettings
  #timer: Timer | undefined

  constructor(settings: VisibilityExtensionSettings) {
    this.#settings = settings
  }

  start(): void {
    const { runtime, visibilityTimeout } = this.#settings
    const extend = () => {
      this.#extend()
      this.start()
    }
    this.#timer = runtime.setTimeout(extend, visibilityTimeout / 3, { keepAlive: false })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  /** One request per message at a time: a slow one that takes effect after a later verdict would undo it. */
  #extend(): void {
    for (const held of [...this.#settings.held()]) {
      if (held.lost === undefined && !held.settling && held.extending === undefined) held.extending = this.#extendOne(held)
    }
  }

  /** Never rejects: what fails is tried again at the next third. */
  async #extendOne(held: HeldMessage): Promise<void> {
    const { client, visibilityTimeout, onLost } = this.#settings
    const { handle } = held
    const seconds = visibilityOf(held, visibilityTimeout)
    try {
      if (seconds === 0) onLost(held, new Error('SQS hides a message for twelve hours at most.'))
      else await client.changeVisibility(handle, seconds)
    } catch (error) {
      const isExpired = error instanceof RefusedEntry && error.senderFault
      if (isExpired && held.handle === handle) onLost(held, error)
    } finally {
      held.extending = undefined
    }
  }
}
