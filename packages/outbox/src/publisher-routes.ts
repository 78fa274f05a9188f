import { InvalidOptionError, type Publisher } from '@ackord/core'
import { checkFunction, checkName, describeValue } from '@ackord/core/internal'

/** A publisher for each destination, by its name in the store. `'*'` is for all that are not named. */
export type PublisherMap = Readonly<Record<string, Publisher>>

const anyOther = '*'

/** Which publisher serves which destination. */
export class PublisherRoutes {
  readonly #named = new Map<string, Publisher>()
  readonly #rest: Publisher | undefined

  constructor(publisher: Publisher | PublisherMap) {
    if (isPublisher(publisher)) {
      this.#rest = publisher
      return
    }
    const entries = typeof publisher === 'object' && publisher !== null ? Object.entries(publisher) : []
    if (entries.length === 0) {
      const expected = 'must have the method publish, or be a map of destinations to publishers, with at least one'
      throw new InvalidOptionError('publisher', `${expected}; it is ${describeValue(publisher)}.`)
    }
    for (const [destination, one] of entries) {
      checkName('publisher, the name of a destination,', destination)
      checkFunction(`publisher['${destination}'].publish`, one?.publish)
      if (destination === anyOther) this.#rest = one
      else this.#named.set(destination, one)
    }
  }

  /** All that can be served; `undefined` if it is any. */
  get destinations(): readonly string[] | undefined {
    return this.#rest === undefined ? [...this.#named.keys()] : undefined
  }

  publisherOf(destination: string): Publisher | undefined {
    return this.#named.get(destination) ?? this.#rest
  }
}

function isPublisher(publisher: Publisher | PublisherMap): publisher is Publisher {
  return typeof publisher?.publish === 'function'
}
