import type { Publisher } from '@ackord/core'

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
