import { AckordError, type Attributes, checkAttributes, Message, type RawMessage, type Runtime, systemRuntime } from '@ackord/core'
import { nameOf } from '@ackord/core/internal'
import type {
  DestinationStats,
  OutboxAdmin,
  OutboxEdit,
  OutboxFilter,
  OutboxPage,
  OutboxRecord,
  OutboxState,
  OutboxStats,
} from './outbox-admin.ts'
import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewOutboxRecord,
  OutboxCapabilities,
  OutboxStore,
  OutboxWriter,
  Outcome,
} from './outbox-store.ts'

export interface MemoryOutboxStoreOptions {
  /** Whether published records are kept until `deletePublished()`. Default: false, they are gone. */
  readonly retain?: boolean | undefined
  readonly runtime?: Runtime | undefined
}

/** What a memory store's transaction is: it keeps the records until it commits. */
export class MemoryTransaction {
  readonly #onCommit: (records: readonly NewOutboxRecord[]) => void
  #records: NewOutboxRecord[] = []
  #ended = false

  constructor(onCommit: (records: readonly NewOutboxRecord[]) => void) {
    this.#onCommit = onCommit
  }

  add(records: readonly NewOutboxRecord[]): void {
    this.#checkOpen()
    for (const record of records) this.#records.push(record)
  }

  /** Where a savepoint begins; `rollbackTo` forgets what came after it. */
  savepoint(): number {
    this.#checkOpen()
    return this.#records.length
  }

  rollbackTo(savepoint: number): void {
    this.#checkOpen()
    this.#records.length = savepoint
  }

  commit(): void {
    this.#checkOpen()
    this.#ended = true
    this.#onCommit(this.#records)
  }

  rollback(): void {
    this.#checkOpen()
    this.#ended = true
    this.#records = []
  }

  #checkOpen(): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
  }
}

interface Row {
  readonly id: string
  destination: string
  data: Uint8Array
  attributes: Attributes
  state: 'ready' | 'waiting' | 'parked' | 'published'
  attempts: number
  readonly createdAt: number
  availableAt: number
  token: string | undefined
  leasedUntil: number
  lastError: string | undefined
  publishedAt: number | undefined
  parkedAt: number | undefined
}

/** An outbox in memory, for tests and demos; what the contracts mean, written down as code. It ends with the process. */
export class MemoryOutboxStore implements OutboxStore, OutboxAdmin, OutboxWriter<MemoryTransaction> {
  readonly capabilities: OutboxCapabilities = { order: 'none', delay: true, preLease: false }
  readonly #runtime: Runtime
  readonly #retain: boolean
  readonly #rows = new Map<string, Row>()
  readonly #transactions = new WeakSet<MemoryTransaction>()
  readonly #listeners = new Set<() => void>()
  #sequence = 0

  constructor(options: MemoryOutboxStoreOptions = {}) {
    const { retain = false, runtime = systemRuntime } = options
    this.#retain = retain
    this.#runtime = runtime
  }

  begin(): MemoryTransaction {
    const transaction = new MemoryTransaction((records) => this.#insert(records))
    this.#transactions.add(transaction)
    return transaction
  }

  async append(transaction: MemoryTransaction, records: readonly NewOutboxRecord[]): Promise<void> {
    if (!this.#transactions.has(transaction)) {
      throw new AckordError('ACKORD_TRANSACTION_REQUIRED', "append() takes a transaction made by this store's begin().")
    }
    for (const { message } of records) checkAttributes(message.attributes, nameOf(message))
    transaction.add(records)
  }

  async claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { limit, lease, destinations, except, retried } = options
    const now = this.#runtime.now()
    const claimed: ClaimedRecord[] = []
    for (const row of this.#rows.values()) {
      if (claimed.length >= limit) break
      if (!isClaimable(row, now)) continue
      if (destinations !== undefined && !destinations.includes(row.destination)) continue
      if (except?.includes(row.destination) === true) continue
      if (retried === 'only' && row.attempts === 0) continue
      if (retried === 'never' && row.attempts > 0) continue
      row.attempts += 1
      row.token = this.#runtime.uuid()
      row.leasedUntil = now + lease
      claimed.push({
        id: row.id,
        token: row.token,
        destination: row.destination,
        message: messageOf(row),
        attempts: row.attempts,
        createdAt: row.createdAt,
      })
    }
    return claimed
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    return claims.map((claim) => {
      const row = this.#held(claim)
      if (row !== undefined) row.leasedUntil = this.#runtime.now() + lease
      return row !== undefined
    })
  }

  async release(claims: readonly Claim[]): Promise<void> {
    for (const claim of claims) {
      const row = this.#held(claim)
      if (row === undefined) continue
      row.attempts -= 1
      row.token = undefined
    }
    this.#wake()
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return outcomes.map((outcome) => {
      const row = this.#held(outcome)
      if (row === undefined) return 'lost'
      this.#apply(row, outcome)
      return 'applied'
    })
  }

  async *wakeUps(options: { readonly signal: AbortSignal }): AsyncGenerator<void, void, void> {
    const { signal } = options
    let news = false
    let resume = () => {}
    const onChange = () => {
      news = true
      resume()
    }
    this.#listeners.add(onChange)
    signal.addEventListener('abort', onChange, { once: true })
    try {
      while (!signal.aborted) {
        if (!news) {
          await new Promise<void>((resolve) => {
            resume = resolve
          })
        }
        news = false
        if (!signal.aborted) yield
      }
    } finally {
      this.#listeners.delete(onChange)
      signal.removeEventListener('abort', onChange)
    }
  }

  async list(filter: OutboxFilter, page: { readonly limit: number; readonly after?: string | undefined }): Promise<OutboxPage> {
    const after = page.after === undefined ? 0 : Number(page.after)
    const records = [...this.#rows.values()]
      .filter((row) => Number(row.id) > after && this.#matches(row, filter))
      .slice(0, page.limit + 1)
      .map((row) => this.#view(row))
    const more = records.length > page.limit
    const shown = more ? records.slice(0, page.limit) : records
    return { records: shown, next: more ? shown.at(-1)?.id : undefined }
  }

  async get(id: string): Promise<OutboxRecord | undefined> {
    const row = this.#rows.get(id)
    return row === undefined ? undefined : this.#view(row)
  }

  async rearm(which: { readonly ids: readonly string[] } | { readonly filter: OutboxFilter }, edit: OutboxEdit = {}): Promise<number> {
    const rows =
      'ids' in which
        ? this.#parked(which.ids)
        : [...this.#rows.values()].filter((row) => row.state === 'parked' && this.#matches(row, which.filter))
    for (const row of rows) {
      row.state = 'ready'
      row.attempts = 0
      row.availableAt = this.#runtime.now()
      row.parkedAt = undefined
      row.destination = edit.destination ?? row.destination
      row.data = edit.data ?? row.data
      row.attributes = { ...row.attributes, ...edit.attributes }
    }
    if (rows.length > 0) this.#wake()
    return rows.length
  }

  async discard(ids: readonly string[], _reason: string): Promise<number> {
    const rows = this.#parked(ids)
    for (const row of rows) this.#rows.delete(row.id)
    return rows.length
  }

  async stats(): Promise<OutboxStats> {
    const destinations = new Map<string, { -readonly [K in keyof DestinationStats]: DestinationStats[K] }>()
    const now = this.#runtime.now()
    let oldest: number | undefined
    for (const row of this.#rows.values()) {
      let counts = destinations.get(row.destination)
      if (counts === undefined) {
        counts = { destination: row.destination, ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }
        destinations.set(row.destination, counts)
      }
      const state = this.#stateOf(row)
      counts[state] += 1
      if (state !== 'parked' && state !== 'published') oldest = Math.min(oldest ?? Infinity, row.createdAt)
    }
    return { destinations: [...destinations.values()], oldestAge: oldest === undefined ? undefined : now - oldest }
  }

  async deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    const before = this.#runtime.now() - options.olderThan
    const old = [...this.#rows.values()].filter((row) => row.publishedAt !== undefined && row.publishedAt <= before).slice(0, options.limit)
    for (const row of old) this.#rows.delete(row.id)
    return old.length
  }

  #insert(records: readonly NewOutboxRecord[]): void {
    const now = this.#runtime.now()
    for (const { destination, message, delay = 0 } of records) {
      this.#sequence += 1
      const row: Row = {
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
        publishedAt: undefined,
        parkedAt: undefined,
      }
      this.#rows.set(row.id, row)
    }
    if (records.length > 0) this.#wake()
  }

  #apply(row: Row, outcome: Outcome): void {
    const now = this.#runtime.now()
    row.token = undefined
    if (outcome.result === 'published') {
      row.state = 'published'
      row.publishedAt = now
      if (!this.#retain) this.#rows.delete(row.id)
    } else if (outcome.result === 'failed') {
      row.state = 'waiting'
      row.availableAt = now + outcome.retryAfter
      row.lastError = outcome.error
    } else {
      row.state = 'parked'
      row.parkedAt = now
      row.lastError = outcome.error
    }
  }

  /** The row, if the claim still holds: an expired lease that nobody took over is lost too, because somebody may at any moment. */
  #held({ id, token }: Claim): Row | undefined {
    const row = this.#rows.get(id)
    return row?.token === token && row.leasedUntil > this.#runtime.now() ? row : undefined
  }

  #parked(ids: readonly string[]): Row[] {
    return ids.flatMap((id) => this.#rows.get(id) ?? []).filter((row) => row.state === 'parked')
  }

  #matches(row: Row, { state, destination, type }: OutboxFilter): boolean {
    return (
      (state === undefined || this.#stateOf(row) === state) &&
      (destination === undefined || row.destination === destination) &&
      (type === undefined || row.attributes.type === type)
    )
  }

  #stateOf(row: Row): OutboxState {
    const now = this.#runtime.now()
    if (row.state === 'parked' || row.state === 'published') return row.state
    if (row.token !== undefined && row.leasedUntil > now) return 'leased'
    return row.availableAt > now ? 'waiting' : 'ready'
  }

  #view(row: Row): OutboxRecord {
    const leased = this.#stateOf(row) === 'leased'
    return {
      id: row.id,
      state: this.#stateOf(row),
      destination: row.destination,
      message: messageOf(row),
      attempts: row.attempts,
      createdAt: row.createdAt,
      availableAt: row.availableAt,
      lastError: row.lastError,
      leasedUntil: leased ? row.leasedUntil : undefined,
      publishedAt: row.publishedAt,
      parkedAt: row.parkedAt,
    }
  }

  #wake(): void {
    for (const listener of this.#listeners) listener()
  }
}

function isClaimable(row: Row, now: number): boolean {
  if (row.state === 'parked' || row.state === 'published') return false
  return row.availableAt <= now && (row.token === undefined || row.leasedUntil <= now)
}

function messageOf(row: Row): RawMessage {
  return new Message(row.data, row.attributes)
}
