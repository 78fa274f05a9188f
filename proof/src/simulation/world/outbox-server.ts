import { eachWakeUp } from '@ackord/core/internal'
import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  MemoryOutboxStore,
  OutboxAdmin,
  OutboxCapabilities,
  OutboxRecord,
  OutboxStore,
  Outcome,
  RecordTaker,
} from '@ackord/outbox'
import type { Operation } from '../plan/plan.ts'
import type { SimulationRules } from '../plan/simulation-rules.ts'
import type { Network } from './network.ts'
import type { SimulatedDatabase } from './simulated-database.ts'
import type { SimulatedProcess } from './simulated-process.ts'

const never = 1e12

/** The server side of one relay's outbox: the in-memory store, whose answers go to the ledger, and the rules that a mutant breaks. */
export class OutboxServer {
  readonly #database: SimulatedDatabase
  readonly #store: MemoryOutboxStore
  readonly #process: string
  readonly #rules: SimulationRules
  /** The records that this store object returned, with the end of their lease. A lost answer must not block a key forever. */
  readonly #given = new Map<string, { readonly claim: Claim; until: number }>()
  /** The latest claim of each record by any relay. Used only by mutants that ignore tokens. */
  readonly #latest: Map<string, Claim>

  constructor(database: SimulatedDatabase, process: string, rules: SimulationRules, latest: Map<string, Claim>) {
    this.#database = database
    this.#store = database.outbox.another()
    this.#process = process
    this.#rules = rules
    this.#latest = latest
  }

  async claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { leases, expires, publishesFirst } = this.#rules
    if (!leases) await this.#store.release([...this.#latest.values()])
    await this.#takeBackLapsed()
    const lease = expires ? options.lease : never
    const records = await this.#store.claim({ ...options, lease })
    this.#note(records, options.lease)
    if (!publishesFirst) await this.settle(records.map(({ id, token }) => ({ id, token, result: 'published' })))
    return records
  }

  /** Leases the events that were just committed to the process that committed them. */
  async preLease(ids: ReadonlySet<string>, lease: number): Promise<readonly ClaimedRecord[]> {
    const claimed = await this.#store.claim({ limit: Number.MAX_SAFE_INTEGER, lease })
    const own = claimed.filter(({ message }) => ids.has(message.id ?? ''))
    if (!this.#rules.preLeases) {
      await this.#store.release(claimed)
      return own
    }
    await this.#store.release(claimed.filter((record) => !own.includes(record)))
    this.#note(own, lease)
    return own
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    const answers = await this.#store.renew(claims, this.#rules.expires ? lease : never)
    claims.forEach(({ id, token }, index) => {
      if (answers[index] !== true) return
      this.#database.ledger.renewed(id, token, this.#until(lease))
      this.#given.set(id, { claim: { id, token }, until: this.#database.scheduler.now() + lease })
    })
    return answers
  }

  async release(claims: readonly Claim[]): Promise<void> {
    if (this.#rules.sparesAttempts) await this.#store.release(claims)
    else await this.#store.settle(claims.map(({ id, token }) => ({ id, token, result: 'failed', error: 'given back', retryAfter: 0 })))
    for (const { id, token } of claims) this.#database.ledger.released(id, token)
    this.#database.announce()
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const { fences, leases } = this.#rules
    const fenced = fences && leases ? outcomes : outcomes.map((outcome) => ({ ...outcome, ...this.#latest.get(outcome.id) }))
    const answers = await this.#store.settle(fenced)
    outcomes.forEach(({ id, token }, index) => {
      if (answers[index] === 'applied') this.#database.ledger.settled(id, token, this.#process)
    })
    return answers
  }

  async leave(): Promise<void> {
    await this.#store.leave()
    this.#database.announce()
  }

  async deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    const before = await this.#all()
    await this.#delete(options)
    const left = new Set((await this.#all()).map(({ id }) => id))
    const deleted = before.filter(({ id }) => !left.has(id))
    const latest = this.#database.scheduler.now() - options.olderThan
    for (const { id, publishedAt } of deleted) {
      if (publishedAt !== undefined && publishedAt <= latest) continue
      this.#database.ledger.violate('cleanedInTime', `Record ${id} was deleted ${publishedAt === undefined ? 'unpublished' : 'too early'}.`)
    }
    return deleted.length
  }

  async #delete({ olderThan, limit }: { readonly olderThan: number; readonly limit: number }): Promise<void> {
    const { cleansByPublished, cleansPublishedOnly } = this.#rules
    const now = this.#database.scheduler.now()
    const old = (await this.#all()).filter(({ createdAt }) => createdAt <= now - olderThan)
    if (!cleansPublishedOnly) {
      // The store itself deletes no such records, but an operator could.
      const claimed = await this.#store.claim({ limit, lease: 10_000 })
      const unpublished = claimed.filter(({ id }) => old.some((record) => record.id === id))
      await this.#store.release(claimed.filter((record) => !unpublished.includes(record)))
      await this.#store.settle(unpublished.map(({ id, token }) => ({ id, token, result: 'parked', error: '' })))
      await this.#store.discard(
        unpublished.map(({ id }) => id),
        '',
      )
    }
    const latestOld = Math.max(0, ...old.map(({ publishedAt = 0 }) => publishedAt))
    const age = !cleansByPublished && latestOld > 0 ? Math.min(olderThan, now - latestOld) : olderThan
    await this.#store.deletePublished({ olderThan: age, limit })
  }

  async #all(): Promise<readonly OutboxRecord[]> {
    return (await this.#store.list({}, { limit: Number.MAX_SAFE_INTEGER })).records
  }

  #note(records: readonly ClaimedRecord[], lease: number): void {
    const { ledger, scheduler } = this.#database
    for (const { id, token, message } of records) {
      this.#latest.set(id, { id, token })
      this.#given.set(id, { claim: { id, token }, until: scheduler.now() + lease })
      ledger.claimed(id, token, { process: this.#process, event: message.id ?? '', until: this.#until(lease) })
    }
  }

  /** With order per key, a store object's in-flight records would stay in flight for as long as it claims. Without it, the leases of the rows expire. */
  async #takeBackLapsed(): Promise<void> {
    const now = this.#database.scheduler.now()
    const lapsed = [...this.#given.values()].filter(({ until }) => until <= now)
    for (const { claim } of lapsed) this.#given.delete(claim.id)
    await this.#store.release(lapsed.map(({ claim }) => claim))
  }

  /** With order per key a record has no lease of its own: its partition is leased. */
  #until(lease: number): number {
    return this.#store.capabilities.order === 'perKey' ? Infinity : this.#database.scheduler.now() + lease
  }
}

export interface RemoteOutboxStoreOptions {
  readonly server: OutboxServer
  readonly database: SimulatedDatabase
  readonly network: Network
  readonly process: SimulatedProcess
  readonly order: 'none' | 'perKey'
  /** Whether the process publishes the events of its own commits. */
  readonly hotPath: boolean
  /** Off: durations are converted to instants by the clock of the process. */
  readonly usesOwnClock: boolean
  /** Off: a failed call is repeated until it succeeds. */
  readonly waitsForStore: boolean
}

/** The client side of a relay's outbox: every call goes over the network. */
export class RemoteOutboxStore implements OutboxStore, Pick<OutboxAdmin, 'deletePublished'> {
  readonly capabilities: OutboxCapabilities
  readonly #options: RemoteOutboxStoreOptions
  #taker: RecordTaker | undefined

  constructor(options: RemoteOutboxStoreOptions) {
    this.#options = options
    this.capabilities = { order: options.order, delay: true, preLease: options.hotPath }
  }

  /** Receives the records that this process commits. */
  get taker(): RecordTaker | undefined {
    return this.#taker
  }

  attach(taker: RecordTaker): () => void {
    if (this.#options.hotPath) this.#taker = taker
    return () => {
      this.#taker = undefined
    }
  }

  claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { server } = this.#options
    const lease = this.#duration(options.lease)
    return this.#call('claim', `up to ${options.limit}`, () => server.claim({ ...options, lease: lease() }))
  }

  renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    const { server } = this.#options
    return this.#call('renew', idsOf(claims), () => server.renew(claims, lease))
  }

  release(claims: readonly Claim[]): Promise<void> {
    const { server } = this.#options
    return this.#call('release', idsOf(claims), () => server.release(claims))
  }

  settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const { server } = this.#options
    const results = outcomes.map(({ id, result }) => `${id} ${result}`).join(', ')
    const delays = outcomes.map((outcome) => (outcome.result === 'failed' ? this.#duration(outcome.retryAfter) : undefined))
    return this.#call('settle', results, () =>
      server.settle(outcomes.map((outcome, index) => ({ ...outcome, ...retryAfter(delays[index]) }))),
    )
  }

  leave(): Promise<void> {
    const { server } = this.#options
    return this.#call('leave', '', () => server.leave())
  }

  deletePublished(options: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    const { server } = this.#options
    return this.#call('cleanOutbox', '', () => server.deletePublished(options))
  }

  wakeUps({ signal }: { readonly signal: AbortSignal }): AsyncIterable<void> {
    const { database, network, process } = this.#options
    return eachWakeUp((hint) => database.listen(() => network.tell(process, hint)), signal)
  }

  async #call<T>(operation: Operation, what: string, serve: () => Promise<T>): Promise<T> {
    const { network, process, waitsForStore } = this.#options
    for (;;) {
      try {
        return await network.call(process, operation, what, serve)
      } catch (error) {
        if (waitsForStore) throw error
      }
    }
  }

  /** The duration as the server receives it. */
  #duration(duration: number): () => number {
    const { process, database, usesOwnClock } = this.#options
    if (usesOwnClock) return () => duration
    const until = process.runtime.now() + duration
    return () => Math.max(0, until - database.scheduler.now())
  }
}

function retryAfter(delay: (() => number) | undefined): { readonly retryAfter?: number } {
  return delay === undefined ? {} : { retryAfter: delay() }
}

function idsOf(claims: readonly Claim[]): string {
  return claims.map(({ id }) => id).join(', ')
}
