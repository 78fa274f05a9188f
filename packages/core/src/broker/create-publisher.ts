import { AckordError } from '../errors.ts'
import { outside } from '../message/context.ts'
import { checkName } from '../options.ts'
import type { PublishResult } from './publisher.ts'

/** The calls of a publisher that are under way. Once it is closed no other begins, and whoever closes it can wait for them. */
export class PublishCalls {
  readonly #publisher: string
  readonly #underWay = new Set<Promise<unknown>>()
  #closed = false

  /** `publisher`: what texts call it, such as 'The NATS publisher'. */
  constructor(publisher: string) {
    this.#publisher = publisher
  }

  /** Begins one. What it opens is used by later calls too, so it does not run in the context of this one. */
  async run(destination: string, signal: AbortSignal, publish: () => Promise<readonly PublishResult[]>): Promise<readonly PublishResult[]> {
    if (this.#closed) throw this.closedError()
    checkName('destination', destination)
    signal.throwIfAborted()
    const publishing = outside(publish)
    this.#underWay.add(publishing)
    try {
      return await publishing
    } finally {
      this.#underWay.delete(publishing)
    }
  }

  /** Lets no other begin. Resolves when those under way have ended, however that was. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#underWay)
  }

  closedError(): AckordError {
    return new AckordError('ACKORD_SHUTDOWN', `${this.#publisher} is closed.`)
  }
}
