import { createHash } from 'node:crypto'
import { isAckordError } from '@ackord/core'
import type { CountHeader, RabbitmqMessage } from '../client.ts'
import { headerOf } from './read-message.ts'
import { carriedDeliveries } from './retry-queues.ts'

// Limits the memory: with more failing messages than this, the oldest counts start again.
const maxEntries = 10_000

/** The errors of messages that were returned without having been handled. */
const untried = ['ACKORD_SHUTDOWN', 'ACKORD_KEY_NACKED', 'ACKORD_TENANT_LIMITED'] as const

export interface DeliveryCountsOptions {
  readonly queue: string
  /** Whether the queue counts deliveries: quorum queues do, classic ones do not. `undefined` if its type is not known. */
  readonly counted: boolean | undefined
}

interface Entry {
  readonly deliveries: number
  /** The count in the headers of that delivery. A quorum queue writes another one each time; a sender's own count stays the same. */
  readonly written: number
}

/**
 * How often each message was delivered. Quorum queues count in a header. Classic queues only mark redeliveries, so failed messages are
 * counted here: per process, and up to a limit.
 */
export class DeliveryCounts {
  readonly #queue: string
  readonly #entries = new Map<string, Entry>()
  #counted: boolean | undefined

  constructor({ queue, counted }: DeliveryCountsOptions) {
    this.#queue = queue
    this.#counted = counted
  }

  /** The number of deliveries, this one included. `header` is the one in which quorum queues of this server count. */
  of(native: RabbitmqMessage, header: CountHeader): number {
    const carried = carriedDeliveries(native, this.#queue)
    const written = writtenCount(native, header)
    if (!native.fields.redelivered) {
      // The queue has counted nothing yet, so the sender has written the header.
      if (written > 0 && this.#counted !== true) this.#remember(native, { deliveries: 0, written })
      if (carried > 0) return Math.max(carried, this.#entry(native)?.deliveries ?? 0) + 1
      return 1 + roundsThrough(this.#queue, headerOf(native.properties.headers, 'x-death'))
    }
    // A quorum queue writes a count for every redelivery.
    if (this.#counted === undefined && written < 0) this.#counted = false
    const entry = this.#entry(native)
    const isTrusted = this.#counted !== false && written > 0 && (this.#counted === true || entry?.written !== written)
    return Math.max(carried + (isTrusted ? written : 1), entry?.deliveries ?? 0) + 1
  }

  /** The delivery was nacked. */
  failed(native: RabbitmqMessage, header: CountHeader, deliveries: number, error: unknown): void {
    // The message was returned without having been handled.
    if (untried.some((code) => isAckordError(error, code))) return
    this.#remember(native, { deliveries, written: writtenCount(native, header) })
  }

  /** The message will not be delivered again. */
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

/** -1 if there is no count. */
function writtenCount({ properties }: RabbitmqMessage, header: CountHeader): number {
  const count = headerOf(properties.headers, header)
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 ? count : -1
}

function roundsThrough(queue: string, deaths: unknown): number {
  if (!Array.isArray(deaths)) return 0
  let rounds = 0
  for (const death of deaths) {
    // Other reasons, such as an expired time to live, do not mean that the message was delivered.
    if (death?.queue === queue && death.reason === 'rejected' && Number.isSafeInteger(death.count) && death.count > 0) rounds += death.count
  }
  return rounds
}

// Enough to distinguish messages without an id.
const hashedBytes = 65_536

/** Made of the id, if there is one. Hashed, because a sender chooses the length of the id. */
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
