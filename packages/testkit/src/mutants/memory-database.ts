import { AckordError, type RawMessage } from '@ackord/core'
import { eventLoopTurn } from '../helpers/virtual-runtime.ts'
import type { MemoryRules } from './memory-rules.ts'

/** One thing that a transaction does to the database when it commits. */
type Change = (database: MemoryDatabase) => void

/** A small database: keys and values, an inbox, an outbox. Enough to show what transactions mean, and to break it. */
export class MemoryDatabase {
  readonly rules: MemoryRules
  readonly rows: Map<string, string> = new Map()
  readonly inbox: Set<string> = new Set()
  readonly events: RawMessage[] = []
  /** Who is recording a message right now. Others wait for the end of that transaction, as they do at a unique index. */
  readonly recording: Map<string, MemorySession> = new Map()
  /** Only used where the rule that separates transactions is broken. */
  readonly shared: Change[] = []

  constructor(rules: MemoryRules) {
    this.rules = rules
  }
}

/** A transaction. Like PostgreSQL, it can only be rolled back after a write in it has failed. */
export class MemorySession {
  readonly #database: MemoryDatabase
  #changes: Change[]
  #running = 0
  #onDrained: (() => void)[] = []
  #isOver = false
  #endNow = () => {}
  readonly #ended: Promise<void>
  #failure: unknown
  #commitFailure: unknown

  constructor(database: MemoryDatabase) {
    this.#database = database
    this.#changes = database.rules.separatesTransactions ? [] : database.shared
    this.#ended = new Promise((resolve) => {
      this.#endNow = resolve
    })
  }

  write(key: string, value: string): Promise<void> {
    return this.#run(async () => this.#add((database) => void database.rows.set(key, value)))
  }

  failWrite(): Promise<void> {
    return this.#run(async () => {
      this.#failure = new Error('the value is too large')
      throw this.#failure
    })
  }

  failCommit(): void {
    this.#commitFailure = new Error('a constraint is violated')
  }

  /** What a handler does that sends COMMIT. */
  commitByHand(): Promise<void> {
    return this.#run(async () => {
      if (this.#database.rules.refusesControl) throw new AckordError('ACKORD_TRANSACTION_REQUIRED', 'The middleware commits.')
      this.commitFrom(0)
    })
  }

  append(events: readonly RawMessage[]): Promise<void> {
    return this.#run(async () => {
      const change: Change = (database) => void database.events.push(...events)
      if (this.#database.rules.storesInTransaction) this.#add(change)
      else change(this.#database)
    })
  }

  /** Whether the key is new. Waits while another transaction is recording it. */
  recordOnce(key: string): Promise<boolean> {
    return this.#run(async () => {
      const { inbox, recording, rules } = this.#database
      for (let other = recording.get(key); other !== undefined && other !== this; other = recording.get(key)) await other.#ended
      if (inbox.has(key)) return false
      if (!rules.recordsInTransaction) {
        inbox.add(key)
        return true
      }
      if (rules.recordsAtOnce) recording.set(key, this)
      this.#add((database) => void database.inbox.add(key))
      return true
    })
  }

  /** Resolves when nothing runs. */
  async drained(): Promise<void> {
    while (this.#running > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained.push(resolve)
      })
    }
  }

  savepoint(): number {
    return this.#changes.length
  }

  rollbackTo(savepoint: number): void {
    this.#changes.length = savepoint
    this.#failure = undefined
  }

  /** What came after the savepoint is committed at once. No database does this. */
  commitFrom(savepoint: number): void {
    for (const change of this.#changes.splice(savepoint)) change(this.#database)
  }

  commit(): void {
    const { rules } = this.#database
    const refused = !rules.commits || this.#commitFailure !== undefined || this.#failure !== undefined
    if (this.#commitFailure !== undefined && rules.reportsCommitFailure) throw this.#commitFailure
    if (this.#failure !== undefined && rules.reportsAbortedCommit) throw new Error('COMMIT answered ROLLBACK', { cause: this.#failure })
    const changes = this.#changes.splice(0)
    if (!refused) for (const change of changes) change(this.#database)
    this.#end()
  }

  rollback(): void {
    if (this.#isOver) return
    if (this.#database.rules.separatesTransactions) this.#changes = []
    this.#end()
  }

  #end(): void {
    this.#isOver = true
    const { recording } = this.#database
    for (const [key, session] of recording) if (session === this) recording.delete(key)
    this.#endNow()
  }

  #add(change: Change): void {
    // Over already: only where the rules that keep this from happening are broken.
    if (this.#isOver) change(this.#database)
    else this.#changes.push(change)
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isOver && this.#database.rules.revokesHandle) {
      throw new AckordError('ACKORD_SCOPE_ENDED', 'A write was started after the transaction had ended.')
    }
    this.#running += 1
    try {
      // As long as a round trip: work that nobody awaits outlasts its handler.
      await eventLoopTurn()
      if (this.#failure !== undefined) throw new Error('the transaction is aborted', { cause: this.#failure })
      return await work()
    } finally {
      this.#running -= 1
      if (this.#running === 0) for (const resolve of this.#onDrained.splice(0)) resolve()
    }
  }
}
