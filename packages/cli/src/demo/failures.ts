import { Message, type Publisher, type Source } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'

/** The outbox, of which a relay gets nothing and to which it can tell nothing once the line is cut: its leases have to run out. */
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

/** The source, whose verdicts do not reach the broker once the line is cut: it will deliver those messages again. */
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
 * Lets a service die in the middle of its work, as far as the store and the broker can tell:
 *
 *     alive ─ arm() ─▶ armed: acks no longer reach the broker ─ a batch is published, or cut() ─▶ cut: nothing reaches anybody
 */
export class Lifeline {
  #armed = false
  #cut = false
  #dropped = 0

  /** How many acks were not let through, of messages that were handled. */
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

  /** Called when the broker has confirmed events, before the store hears of it: the moment that makes duplicates. */
  published(): void {
    if (this.#armed && this.#dropped > 0) this.cut()
  }

  /** Throws if a verdict on a message must not get through. */
  checkVerdict(): void {
    if (!this.#armed && !this.#cut) return
    this.#dropped += 1
    throw gone()
  }

  /** Throws if nothing gets through any more. */
  check(): void {
    if (this.#cut) throw gone()
  }
}

function gone(): Error {
  return new Error('The process is gone.')
}

/** A publisher that can be told that its broker is down. */
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
