import type { AmqpConnection, AmqpSession } from './client.ts'

/** Milliseconds for which the number of an ended session is not used again. */
const restingTime = 1000

/** RabbitMQ allows 64 sessions on a connection. From this number on, the number that has rested longest is used. */
const maxNumber = 60

/**
 * The channel numbers of a connection's sessions. rhea gives a new session the lowest free number, often that of a session whose end the broker has just confirmed. RabbitMQ
 * forgets that session a moment after its answer, and until then the beginning of the next one under the same number goes to the session that has ended: it is never answered.
 */
export class ChannelNumbers {
  static readonly #all = new WeakMap<AmqpConnection, ChannelNumbers>()

  readonly #connection: AmqpConnection
  /** When the last session of a number ended. */
  readonly #endedAt = new Map<number, number>()

  private constructor(connection: AmqpConnection) {
    this.#connection = connection
  }

  static of(connection: AmqpConnection): ChannelNumbers {
    let numbers = ChannelNumbers.#all.get(connection)
    if (numbers === undefined) {
      numbers = new ChannelNumbers(connection)
      ChannelNumbers.#all.set(connection, numbers)
    }
    return numbers
  }

  /** `now` is by the monotonic clock. */
  createSession(capacity: { readonly incoming: number; readonly outgoing: number }, now: number): AmqpSession {
    for (const [number, at] of this.#endedAt) if (now - at >= restingTime) this.#endedAt.delete(number)
    if (this.#endedAt.size === 0) return this.#connection.create_session(capacity)
    // Sessions that never begin: they occupy numbers, so that rhea takes another one.
    const fillers: AmqpSession[] = []
    let last: AmqpSession
    do {
      last = this.#connection.create_session(small)
      fillers.push(last)
    } while (this.#endedAt.has(numberOf(last)) && numberOf(last) < maxNumber)
    const chosen = this.#endedAt.has(numberOf(last)) ? this.#longestResting(fillers) : last
    chosen?.remove()
    const session = this.#connection.create_session(capacity)
    for (const filler of fillers) if (filler !== chosen) filler.remove()
    return session
  }

  ended(session: AmqpSession, now: number): void {
    const number = numberOf(session)
    // Moves the number to the end of the map, which is in the order of the ends.
    this.#endedAt.delete(number)
    this.#endedAt.set(number, now)
  }

  #longestResting(sessions: readonly AmqpSession[]): AmqpSession | undefined {
    for (const number of this.#endedAt.keys()) {
      const session = sessions.find((each) => numberOf(each) === number)
      if (session !== undefined) return session
    }
    return undefined
  }
}

/** rhea's types do not have it. */
function numberOf(session: AmqpSession): number {
  return (session as { readonly local?: { readonly channel?: number } }).local?.channel ?? Infinity
}

/** For sessions that never begin, and so need no room for deliveries. */
const small = { incoming: 1, outgoing: 1 }
