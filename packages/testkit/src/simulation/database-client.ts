import { type ContextKey, contextKey } from '@ackord/core'
import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import type { Network } from './network.ts'
import type { OutboxServer } from './outbox-server.ts'
import type { DatabaseSession, InboxRecord, SimulatedDatabase } from './simulated-database.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/** What became of a commit, and the events that it leased. */
export interface CommitAnswer {
  readonly tag: 'COMMIT' | 'ROLLBACK'
  readonly records: readonly ClaimedRecord[]
}

/** The transaction that a context is in. */
export const sessionKey: ContextKey<RemoteSession> = contextKey('ackord.simulation.session', { callScoped: true })

/** The database as a process has it: every statement goes over the network. */
export class DatabaseClient {
  readonly #database: SimulatedDatabase
  readonly #network: Network
  readonly #process: SimulatedProcess
  readonly #outbox: OutboxServer

  constructor(database: SimulatedDatabase, outbox: OutboxServer, network: Network, process: SimulatedProcess) {
    this.#database = database
    this.#outbox = outbox
    this.#network = network
    this.#process = process
  }

  async begin(): Promise<RemoteSession> {
    const session = await this.#network.call(this.#process, 'begin', '', () => this.#database.begin(this.#process.name))
    const commit = (lease: number | undefined) => this.#commit(session, lease)
    return new RemoteSession(session, this.#network, this.#process, commit)
  }

  cleanInbox(window: number): Promise<number> {
    return this.#network.call(this.#process, 'cleanInbox', '', () => this.#database.cleanInbox(window))
  }

  /** What the server does at a commit: if it is asked to, it leases the events to the process in the same breath. */
  async #commit(session: DatabaseSession, lease: number | undefined): Promise<CommitAnswer> {
    const ids = session.commit()
    if (ids === undefined) return { tag: 'ROLLBACK', records: [] }
    const records = lease === undefined ? [] : await this.#outbox.preLease(new Set(ids), lease)
    this.#database.announce()
    return { tag: 'COMMIT', records }
  }

  /** One statement that commits by itself. What mutants do instead of using the transaction. */
  async alone<T>(
    operation: 'record' | 'write' | 'append',
    what: string,
    statement: (session: DatabaseSession) => T | Promise<T>,
  ): Promise<T> {
    return await this.#network.call(this.#process, operation, `${what}, by itself`, async () => {
      const session = this.#database.begin(this.#process.name)
      const result = await statement(session)
      session.commit()
      this.#database.announce()
      return result
    })
  }

  /** Removes a record of the inbox. No correct part does. */
  async forget(key: string): Promise<void> {
    await this.#network.call(this.#process, 'record', `forget ${key}`, () => this.#database.inbox.delete(key))
  }
}

/** A transaction as the process has it. */
export class RemoteSession {
  readonly #session: DatabaseSession
  readonly #network: Network
  readonly #process: SimulatedProcess
  readonly #commit: (lease: number | undefined) => Promise<CommitAnswer>

  constructor(
    session: DatabaseSession,
    network: Network,
    process: SimulatedProcess,
    commit: (lease: number | undefined) => Promise<CommitAnswer>,
  ) {
    this.#session = session
    this.#commit = commit
    this.#network = network
    this.#process = process
  }

  recordOnce(record: InboxRecord): Promise<boolean> {
    return this.#network.call(this.#process, 'record', record.effect, () => this.#session.recordOnce(record))
  }

  isRecorded(key: string): Promise<boolean> {
    return this.#network.call(this.#process, 'record', `look for ${key}`, () => this.#session.isRecorded(key))
  }

  addRecord(record: InboxRecord): Promise<void> {
    return this.#network.call(this.#process, 'record', record.effect, () => this.#session.addRecord(record))
  }

  write(effect: string): Promise<void> {
    return this.#network.call(this.#process, 'write', effect, () => this.#session.write(effect))
  }

  failStatement(): Promise<void> {
    return this.#network.call(this.#process, 'write', 'something too large', () => this.#session.failStatement())
  }

  append(records: readonly NewOutboxRecord[]): Promise<void> {
    const subjects = records.map(({ message }) => message.subject).join(', ')
    return this.#network.call(this.#process, 'append', subjects, () => this.#session.append(records))
  }

  /** With `lease`, for so many milliseconds the events are nobody else's. */
  commit(lease?: number): Promise<CommitAnswer> {
    return this.#network.call(this.#process, 'commit', '', () => this.#commit(lease))
  }

  rollback(): Promise<void> {
    return this.#network.call(this.#process, 'rollback', '', () => this.#session.rollback())
  }
}
