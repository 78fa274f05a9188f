import { createHash } from 'node:crypto'
import { isAckordError } from '@ackord/core'
import type { RabbitmqMessage } from '../client.ts'
import type { CountHeader } from '../server-version.ts'
import { headerOf } from './read-message.ts'
import { carriedDeliveries } from './retry-message.ts'

// Bounds the memory: a queue with more failing messages than this begins to count the oldest anew.
const maxEntries = 10_000

export interface DeliveryCountsOptions {
  readonly queue: string
  /** Whether the queue counts deliveries: quorum queues do, classic ones do not. `undefined` if its type is not known. */
  readonly counted: boolean | undefined
}

interface Entry {
  readonly deliveries: number
  /** The count in the headers of that delivery. A quorum queue has another one each time; a sender's stays as it is. */
  readonly written: number
}

/**
 * How often each message was delivered. Quorum queues say so in headers. Classic queues only tell first deliveries from later ones, so messages that failed are
 * counted here: per process, and bounded.
 */
export class DeliveryCounts {
  readonly #queue: string
  readonly #entries = new Map<string, Entry>()
  #counted: boolean | undefined

  constructor({ queue, counted }: DeliveryCountsOptions) {
    this.#queue = queue
    this.#counted = counted
  }

  /** The number of deliveries, this one included. `header` is where quorum queues of this server count. */
  of(native: RabbitmqMessage, header: CountHeader): number {
    const carried = carriedDeliveries(native, this.#queue)
    const written = writtenCount(native, header)
    if (!native.fields.redelivered) {
      // The queue has nothing to count yet, so the sender has written it.
      if (written > 0 && this.#counted !== true) this.#remember(native, { deliveries: 0, written })
      if (carried > 0) return Math.max(carried, this.#entry(native)?.deliveries ?? 0) + 1
      return 1 + roundsThrough(this.#queue, headerOf(native.properties.headers, 'x-death'))
    }
    // A quorum queue has a count for everything that it delivers again.
    if (this.#counted === undefined && written < 0) this.#counted = false
    const entry = this.#entry(native)
    const isBelieved = this.#counted !== false && written > 0 && (this.#counted === true || entry?.written !== written)
    return Math.max(carried + (isBelieved ? written : 1), entry?.deliveries ?? 0) + 1
  }

  /** The delivery was nacked. */
  failed(native: RabbitmqMessage, header: CountHeader, deliveries: number, error: unknown): void {
    // Given back without having been tried.
    if (isAckordError(error, 'ACKORD_SHUTDOWN') || isAckordError(error, 'ACKORD_KEY_NACKED')) return
    this.#remember(native, { deliveries, written: writtenCount(native, header) })
  }

  /** The message will not come again. */
  settled(native: RabbitmqMessage): void {
    if (this.#entries.size > 0) this.#entries.delete(keyOf(native))
  }

  #entry(native: RabbitmqMessage): Entry | undefined {
    return this.#entries.size === 0 ? undefined : this.#entries.get(keyOf(native))
  }

  #remember(native: RabbitmqMessage, entry: Entry): void {
    const key = keyOf(native)
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    const [oldest] = this.#entries.keys()
    if (this.#entries.size > maxEntries && oldest !== undefined) this.#entries.delete(oldest)
  }
}

/** -1 if there is none. */
function writtenCount({ properties }: RabbitmqMessage, header: CountHeader): number {
  const count = headerOf(properties.headers, header)
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 ? count : -1
}

function roundsThrough(queue: string, deaths: unknown): number {
  if (!Array.isArray(deaths)) return 0
  let rounds = 0
  for (const death of deaths) {
    // Other reasons, such as its time to live, do not say that it was delivered.
    if (death?.queue === queue && death.reason === 'rejected' && Number.isSafeInteger(death.count) && death.count > 0) rounds += death.count
  }
  return rounds
}

// Enough to tell messages without an id apart.
const hashedBytes = 65_536

/** By id where there is one. Hashed, because a sender chooses how long it is. */
function keyOf({ content, properties }: RabbitmqMessage): string {
  const { headers, messageId } = properties
  const id = [messageId, headerOf(headers, 'cloudEvents:id'), headerOf(headers, 'cloudEvents_id')].find(isText)
  const source = [headerOf(headers, 'cloudEvents:source'), headerOf(headers, 'cloudEvents_source')].find(isText)
  const hash = createHash('sha1')
  if (id === undefined) hash.update(`${content.byteLength} `).update(content.subarray(0, hashedBytes))
  else hash.update(JSON.stringify([id, source]))
  return hash.digest('base64')
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
