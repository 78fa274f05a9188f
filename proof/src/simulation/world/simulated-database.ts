import type { Runtime } from '@ackord/core'
import { MemoryOutboxStore, type MemoryTransaction, type NewOutboxRecord } from '@ackord/outbox'
import type { Behaviour } from '../plan/plan.ts'
import { RandomStream } from '../plan/trace.ts'
import type { CommittedEvent, Ledger } from './ledger.ts'
import type { Scheduler } from './scheduler.ts'

/** An inbox record: the key that is stored, and the true service and command behind it. */
export interface InboxRecord {
  readonly key: string
  readonly effect: string
}

export interface SimulatedDatabaseOptions {
  readonly scheduler: Scheduler
  readonly ledger: Ledger
  readonly seed: number
  readonly order: 'none' | 'perKey'
  readonly retain: boolean
}

/** Milliseconds after which the server ends an idle transaction. */
const idleLimit = 15_000

/** The database's server side: the inbox, the handlers' writes, and the outbox, which is the in-memory store. */
export class SimulatedDatabase {
  readonly outbox: MemoryOutboxStore
  readonly ledger: Ledger
  readonly scheduler: Scheduler
  readonly inbox: Map<string, number> = new Map()
  /** The open transaction that records each key. Others wait for the end of that transaction, as they do at a unique index. */
  readonly recording: Map<string, DatabaseSession> = new Map()
  readonly sessions: Set<DatabaseSession> = new Set()
  readonly #listeners = new Set<() => void>()
  #position = 0

  constructor({ scheduler, ledger, seed, order, retain }: SimulatedDatabaseOptions) {
    this.scheduler = scheduler
    this.ledger = ledger
    this.outbox = new MemoryOutboxStore({ order, retain, runtime: serverRuntime(scheduler, seed) })
  }

  begin(process: string): DatabaseSession {
    const session = new DatabaseSession(this, process)
    this.sessions.add(session)
    return session
  }

  /** Drops the connections of a process, or of all processes. */
  disconnect(process?: string): void {
    for (const session of this.sessions) if (process === undefined || session.process === process) session.rollback()
  }

  /** Deletes old inbox records. */
  cleanInbox(window: number): number {
    const before = this.scheduler.now() - window
    const old = [...this.inbox].filter(([, at]) => at <= before)
    for (const [key] of old) this.inbox.delete(key)
    return old.length
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Notifies the listeners that there may be records to claim. */
  announce(): void {
    for (const listener of this.#listeners) listener()
  }

  committedEvents(records: readonly NewOutboxRecord[]): CommittedEvent[] {
    return records.map(({ message }) => {
      this.#position += 1
      const { id = '', partitionKey: key = '' } = message
      const { effect, behaviour } = eventOf(message.data)
      return { id, position: this.#position, key, effect, behaviour }
    })
  }
}

/** The server side of a transaction. As on PostgreSQL, after a failed statement it can only be rolled back. */
export class DatabaseSession {
  readonly process: string
  readonly #database: SimulatedDatabase
  readonly #transaction: MemoryTransaction
  readonly #effects: string[] = []
  readonly #records: InboxRecord[] = []
  readonly #events: NewOutboxRecord[] = []
  #ended = false
  #aborted = false
  #lastUse: number
  #endNow = () => {}
  readonly #end: Promise<void>

  constructor(database: SimulatedDatabase, process: string) {
    this.#database = database
    this.process = process
    this.#transaction = database.outbox.begin()
    this.#lastUse = database.scheduler.now()
    this.#end = new Promise((resolve) => {
      this.#endNow = resolve
    })
    this.#watch()
  }

  /** Whether the message is new. */
  async recordOnce(record: InboxRecord): Promise<boolean> {
    this.#use()
    const { inbox, recording } = this.#database
    for (let other = recording.get(record.key); other !== undefined && other !== this; other = recording.get(record.key)) await other.#end
    this.#use()
    if (inbox.has(record.key)) return false
    recording.set(record.key, this)
    this.#records.push(record)
    return true
  }

  /** Only looks the key up; for mutants that record it later. */
  isRecorded(key: string): boolean {
    this.#use()
    return this.#database.inbox.has(key)
  }

  addRecord(record: InboxRecord): void {
    this.#use()
    this.#records.push(record)
  }

  write(effect: string): void {
    this.#use()
    this.#effects.push(effect)
  }

  failStatement(): void {
    this.#use()
    this.#aborted = true
    throw new Error('The value is too large.')
  }

  async append(records: readonly NewOutboxRecord[]): Promise<void> {
    this.#use()
    await this.#database.outbox.append(this.#transaction, records)
    this.#events.push(...records)
  }

  /** Returns the ids of the stored events; `undefined` if the transaction was rolled back. */
  commit(): readonly string[] | undefined {
    if (this.#ended) throw terminated()
    if (this.#aborted) {
      this.rollback()
      return undefined
    }
    const { ledger, inbox, scheduler } = this.#database
    this.#transaction.commit()
    for (const { key } of this.#records) inbox.set(key, scheduler.now())
    ledger.commit({
      effects: this.#effects,
      records: this.#records.map(({ effect }) => effect),
      events: this.#database.committedEvents(this.#events),
    })
    this.#finish()
    return this.#events.map(({ message }) => message.id ?? '')
  }

  rollback(): void {
    if (this.#ended) return
    this.#transaction.rollback()
    this.#finish()
  }

  #use(): void {
    if (this.#ended) throw terminated()
    if (this.#aborted) throw new Error('The transaction is aborted.')
    this.#lastUse = this.#database.scheduler.now()
  }

  #watch(): void {
    const { scheduler } = this.#database
    scheduler.after(this.#lastUse + idleLimit - scheduler.now(), () => {
      if (this.#ended) return
      if (scheduler.now() >= this.#lastUse + idleLimit) this.rollback()
      else this.#watch()
    })
  }

  #finish(): void {
    this.#ended = true
    const { recording, sessions } = this.#database
    sessions.delete(this)
    for (const { key } of this.#records) if (recording.get(key) === this) recording.delete(key)
    this.#endNow()
  }
}

/** The data of the simulated handlers' events. */
export interface EventData {
  readonly effect: string
  readonly index: number
  readonly behaviour: Behaviour
}

export function eventOf(data: Uint8Array): EventData {
  return JSON.parse(Buffer.from(data).toString()) as EventData
}

function terminated(): Error {
  return new Error('The server has ended the transaction.')
}

function serverRuntime(scheduler: Scheduler, seed: number): Runtime {
  const random = new RandomStream(seed, 'database')
  let ids = 0
  return {
    now: scheduler.now,
    monotonic: scheduler.now,
    random: random.next,
    uuid: () => {
      ids += 1
      return `t${ids}`
    },
    setTimeout: (callback, delay) => scheduler.after(delay, callback),
  }
}
