import { type Attributes, Message, type RawMessage } from '@ackord/core'
import { editMessage, matchesFilter } from '../store/administration.ts'
import { addToHistory } from '../store/failure-text.ts'
import type { NewOutboxRecord } from '../store/new-events.ts'
import type { OutboxEdit, OutboxFilter, OutboxRecord, OutboxState, RearmOptions } from '../store/outbox-admin.ts'
import type { ClaimedRecord, Outcome } from '../store/outbox-store.ts'
import { attributesToJson } from '../store/record-checks.ts'

export interface MemoryRow {
  readonly id: string
  destination: string
  data: Uint8Array
  attributes: Attributes
  state: 'ready' | 'waiting' | 'parked' | 'published'
  attempts: number
  readonly createdAt: number
  availableAt: number
  /** The token of the claim that holds the row. */
  token: string | undefined
  /** With order per key rows have no leases, and it stays 0. */
  leasedUntil: number
  lastError: string | undefined
  cause: string | undefined
  /** As `failure-text.ts` writes it. */
  history: string | undefined
  publishedAt: number | undefined
  parkedAt: number | undefined
  /** A running transaction has cancelled the row; it must not be claimed meanwhile. */
  locked: boolean
}

/** The records of a memory store, in the order of their commits, and the listeners for new ones. Shared by all its store objects. */
export class MemoryRows {
  readonly #rows = new Map<string, MemoryRow>()
  readonly #listeners = new Set<() => void>()
  #sequence = 0

  all(): MapIterator<MemoryRow> {
    return this.#rows.values()
  }

  get(id: string): MemoryRow | undefined {
    return this.#rows.get(id)
  }

  find(ids: readonly string[]): MemoryRow[] {
    return ids.flatMap((id) => this.#rows.get(id) ?? [])
  }

  delete(row: MemoryRow): void {
    this.#rows.delete(row.id)
  }

  insert(records: readonly NewOutboxRecord[], now: number): void {
    for (const { destination, message, delay = 0 } of records) {
      this.#sequence += 1
      const row: MemoryRow = {
        id: String(this.#sequence),
        destination,
        data: message.data,
        attributes: { ...message.attributes },
        state: delay > 0 ? 'waiting' : 'ready',
        attempts: 0,
        createdAt: now,
        availableAt: now + delay,
        token: undefined,
        leasedUntil: 0,
        lastError: undefined,
        cause: undefined,
        history: undefined,
        publishedAt: undefined,
        parkedAt: undefined,
        locked: false,
      }
      this.#rows.set(row.id, row)
    }
    if (records.length > 0) this.wake()
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  wake(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** Whether the row may be claimed, according to its state and to transactions that cancel it. */
export function isPending({ state, locked }: MemoryRow): boolean {
  return !locked && (state === 'ready' || state === 'waiting')
}

export function stateOf(row: MemoryRow, now: number): OutboxState {
  if (row.state === 'parked' || row.state === 'published') return row.state
  if (row.token !== undefined && row.leasedUntil > now) return 'leased'
  return row.availableAt > now ? 'waiting' : 'ready'
}

export function orderingKeyOf({ attributes }: MemoryRow): string | undefined {
  const { partitionkey } = attributes
  return partitionkey === undefined ? undefined : String(partitionkey)
}

export function matches(row: MemoryRow, filter: OutboxFilter, now: number): boolean {
  return matchesFilter({ ...row, state: stateOf(row, now) }, filter, now)
}

export function wants(
  options: { readonly destinations?: readonly string[] | undefined; readonly except?: readonly string[] | undefined },
  row: MemoryRow,
): boolean {
  return options.destinations?.includes(row.destination) !== false && options.except?.includes(row.destination) !== true
}

/** As many rows from the start as `maxBytes` allows, and at least one. */
export function withinBytes<T>(found: readonly T[], maxBytes: number | undefined, rowOf: (one: T) => MemoryRow): readonly T[] {
  if (maxBytes === undefined) return found
  let bytes = 0
  const end = found.findIndex((one, index) => {
    const { data, attributes } = rowOf(one)
    bytes += data.byteLength + Buffer.byteLength(attributesToJson(attributes))
    return index > 0 && bytes > maxBytes
  })
  return end === -1 ? found : found.slice(0, end)
}

export function applyOutcome(row: MemoryRow, outcome: Outcome, now: number): void {
  row.token = undefined
  if (outcome.result === 'published') {
    row.state = 'published'
    row.publishedAt = now
  } else if (outcome.result === 'failed') {
    row.state = 'waiting'
    row.availableAt = now + outcome.retryAfter
    fail(row, outcome.error, outcome.cause, now)
  } else {
    row.state = 'parked'
    row.parkedAt = now
    fail(row, outcome.error, outcome.cause, now)
  }
}

function fail(row: MemoryRow, error: string, cause: string | undefined, now: number): void {
  row.lastError = error
  row.cause = cause
  row.history = addToHistory(row.history, now, error)
}

/** Whether the row waits for its time, so that it can still be cancelled. */
export function isCancellable(row: MemoryRow, now: number): boolean {
  return !row.locked && stateOf(row, now) === 'waiting'
}

export function parkRow(row: MemoryRow, reason: string, now: number): void {
  row.state = 'parked'
  row.token = undefined
  row.parkedAt = now
  fail(row, reason, reason.slice(0, 200), now)
}

export function rearmRow(row: MemoryRow, edit: OutboxEdit, { delay = 0, keepAttempts = false }: RearmOptions, now: number): void {
  const { data, attributes } = editMessage(messageOf(row), edit)
  row.state = delay > 0 ? 'waiting' : 'ready'
  if (!keepAttempts) row.attempts = 0
  row.availableAt = now + delay
  row.parkedAt = undefined
  row.publishedAt = undefined
  row.destination = edit.destination ?? row.destination
  row.data = data
  row.attributes = attributes
}

export function claimedRecord(row: MemoryRow, token: string, attempts: number, now: number): ClaimedRecord {
  const { id, destination, createdAt } = row
  return { id, token, destination, message: messageOf(row), attempts, createdAt, age: Math.max(0, now - createdAt) }
}

export function outboxRecord(row: MemoryRow, now: number): OutboxRecord {
  const { id, destination, attempts, createdAt, availableAt, lastError, cause, publishedAt, parkedAt } = row
  const state = stateOf(row, now)
  const leasedUntil = state === 'leased' ? row.leasedUntil : undefined
  const message = messageOf(row)
  return { id, state, destination, message, attempts, createdAt, availableAt, lastError, cause, leasedUntil, publishedAt, parkedAt }
}

function messageOf(row: MemoryRow): RawMessage {
  return new Message(row.data, row.attributes)
}
