import { Message, type Publisher, type Source } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'

/** The outbox of a service that can be killed: once the line is cut, its relay can neither claim nor settle, so its leases must expire. */
export function crashableOutbox(outbox: OutboxStore, lifeline: Lifeline): OutboxStore {
  const guarded =
    <Given extends unknown[], Result>(call: (...given: Given) => Promise<Result>) =>
    async (...given: Given): Promise<Result> => {
      lifeline.check()
      return await call(...given)
    }
  const { attach, leave, wakeUps } = outbox
  return {
    capabilities: outbox.capabilities,
    claim: guarded(outbox.claim),
    renew: guarded(outbox.renew),
    release: guarded(outbox.release),
    settle: guarded(async (outcomes) => {
      if (outcomes.some(({ result }) => result === 'published')) lifeline.published()
      lifeline.check()
      return await outbox.settle(outcomes)
    }),
    ...(attach !== undefined && { attach }),
    ...(leave !== undefined && { leave: guarded(leave) }),
    ...(wakeUps !== undefined && { wakeUps }),
  }
}

/** The source of a service that can be killed: once the line is cut, its verdicts do not reach the broker, which redelivers those messages. */
export function crashableSource(source: Source, lifeline: Lifeline, onAcked: () => void): Source {
  return {
    async *messages(options) {
      for await (const message of source.messages(options)) {
        const { data, attributes, deliveryCount } = message
        const acking = {
          async ack() {
            lifeline.checkVerdict()
            await message.ack()
            onAcked()
          },
          async nack(error: unknown, nackOptions: { readonly retryAfter?: number | undefined }) {
            lifeline.checkVerdict()
            await message.nack(error, nackOptions)
          },
          async reject(error: unknown) {
            lifeline.checkVerdict()
            await message.reject(error)
          },
        }
        yield new Message(data, attributes, { acking, deliveryCount })
      }
    },
  }
}

/**
 * Simulates a crash of a service, as seen by the store and the broker:
 *
 *     alive ─ arm() ─▶ armed: acks no longer reach the broker ─ a batch is published, or cut() ─▶ cut: no call gets through
 */
export class Lifeline {
  #armed = false
  #cut = false
  #dropped = 0

  /** The number of acks of handled messages that were dropped. */
  get droppedAcks(): number {
    return this.#dropped
  }

  get isCut(): boolean {
    return this.#cut
  }

  arm(): void {
    this.#armed = true
  }

  cut(): void {
    this.#cut = true
  }

  /** Called when the broker has confirmed events, before they are settled in the store: the moment that causes duplicates. */
  published(): void {
    if (this.#armed && this.#dropped > 0) this.cut()
  }

  /** Throws if the verdict on a message must not get through. */
  checkVerdict(): void {
    if (!this.#armed && !this.#cut) return
    this.#dropped += 1
    throw processKilled()
  }

  /** Throws if no call gets through any more. */
  check(): void {
    if (this.#cut) throw processKilled()
  }
}

function processKilled(): Error {
  return new Error('The process was killed.')
}

/** A publisher whose broker can be switched off. */
export class Outage implements Publisher {
  readonly #publisher: Publisher
  #down = false

  constructor(publisher: Publisher) {
    this.#publisher = publisher
  }

  begin(): void {
    this.#down = true
  }

  end(): void {
    this.#down = false
  }

  publish(...given: Parameters<Publisher['publish']>): ReturnType<Publisher['publish']> {
    if (!this.#down) return this.#publisher.publish(...given)
    const [, messages] = given
    const error = new Error('The broker is down.')
    return Promise.resolve(messages.map(() => ({ ok: false, error, scope: 'destination' })))
  }
}
