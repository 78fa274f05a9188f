import type { Backoff, DeadLetter, Logger, Metrics, Publisher, PublishResult, RawMessage, Runtime } from '@ackord/core'
import type {
  Claim,
  DrainOptions,
  DrainResult,
  NewOutboxRecord,
  OutboxNotes,
  OutboxRecord,
  OutboxStore,
  PublisherMap,
  RelayOptions,
} from '@ackord/outbox'
import { type RecordingLogger, recordingLogger } from '../../helpers/tracked-message.ts'
import { eventLoopTurn, VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'
import { claimAll, commit, idsOf, type OpenOutboxWorld, type OutboxWorld, record } from '../outbox/outbox-world.ts'

/** The options that scenarios pass to a relay, named as in `RelayOptions`. */
export interface RelaySetup {
  readonly publisher: Publisher | PublisherMap
  readonly runtime: Runtime
  readonly logger: Logger
  readonly batchSize: number
  readonly lease: number
  readonly maxAttempts: number
  readonly publishTimeout: number
  readonly pollInterval: number
  readonly backoff: Backoff
  readonly shutdownTimeout: number
  /** Default: none. */
  readonly deadLetter?: DeadLetter | undefined
  /** Default: none. */
  readonly metrics?: Metrics | undefined
  /** Default: 1. */
  readonly concurrency?: number | undefined
  /** Only if the store has order per key. */
  readonly onExhausted?: RelayOptions['onExhausted']
}

export interface RelayUnderTest {
  start(): unknown
  stop(): Promise<void>
  drain(options?: DrainOptions): Promise<DrainResult>
}

export type CreateRelay = (store: OutboxStore, setup: RelaySetup) => RelayUnderTest

/** The parameters of a relay scenario. */
export interface RelayPorts {
  readonly openStore: OpenOutboxWorld
  readonly createRelay: CreateRelay
}

export type RelayScenario = Scenario<RelayPorts>

export interface PublishCall {
  /** The name of the broker. */
  readonly broker: string
  readonly destination: string
  readonly messages: readonly RawMessage[]
  readonly signal: AbortSignal
  /** The time by the clock of the relays. */
  readonly at: number
}

export type Answer = (call: PublishCall) => Promise<readonly PublishResult[]>
type ProcessPoint = 'claim' | 'renew' | 'release' | 'settle' | 'settled' | 'publish' | 'published' | 'deadLetter' | 'leave' | 'note'
export type OnPoint = (point: ProcessPoint, process: RelayProcess) => void | Promise<void>

/** The options in which a relay differs from the others; a function if it needs publishers that end with its process, one for each broker. */
export type SetupChanges = Partial<RelaySetup> | ((publisherOf: (broker: string) => Publisher) => Partial<RelaySetup>)

/** A relay in a simulated process, which can be killed: from then on its calls have no effect. */
export interface RelayProcess {
  readonly relay: RelayUnderTest
  kill(): void
}

export const relayLease = 30_000
/** Shorter than the lease, as relays require. */
export const relayPublishTimeout = 20_000
export const relayShutdownTimeout = 10_000

const mainBroker = 'main'
/** The broker of the dead letter. Its messages do not count as arrived. */
export const deadBroker = 'dead'

export interface RelayWorldOptions {
  /** Whether relays have the notes of the store. Default: false, because a simulated minute has sixty calls for them. */
  readonly notes?: boolean | undefined
}

/** An outbox, a broker and relays, with synchronised clocks. */
export class RelayWorld {
  readonly runtime: VirtualRuntime = new VirtualRuntime()
  readonly logger: RecordingLogger = recordingLogger()
  readonly calls: PublishCall[] = []
  /** The message ids that the broker accepted, in order, including duplicates. */
  readonly arrived: string[] = []
  /** Accepted message ids whose answer did not reach the relay before it gave the publish up. */
  readonly givenUp: string[] = []
  /** The message ids that the broker refused, for each refusal that reached the relay. A refusal that comes after the relay gave the publish up is not counted: no attempt is recorded for it. */
  readonly refused: string[] = []
  /** The messages that the dead letter accepted, in order. */
  readonly letters: RawMessage[] = []
  /** The number of claimed records that had been claimed before. Without failures, each one is a lost lease. */
  takenOver = 0
  /** The answer of the broker. Initially it accepts everything. */
  answer: Answer = takeAll
  readonly outbox: OutboxWorld
  readonly #createRelay: CreateRelay
  readonly #running = new Set<RelayUnderTest>()
  readonly #calling = new Set<Promise<unknown>>()
  /** The lag of the clock of the store behind that of the relays, in milliseconds. */
  #behind = 0
  #advanced: Promise<void> = Promise.resolve()
  /** The claims that are neither settled nor released, by name. */
  readonly #claimsInFlight = new Set<string>()

  readonly #notes: boolean

  constructor(outbox: OutboxWorld, createRelay: CreateRelay, { notes = false }: RelayWorldOptions = {}) {
    this.outbox = outbox
    this.#createRelay = createRelay
    this.#notes = notes
  }

  static async open({ openStore, createRelay }: RelayPorts, options?: RelayWorldOptions): Promise<RelayWorld> {
    return new RelayWorld(await openStore({ retain: false }), createRelay, options)
  }

  /** Commits events with these ids. */
  async add(destination: string, ...ids: readonly string[]): Promise<void> {
    await this.addRecords(...ids.map((id) => record(id, { destination })))
  }

  async addRecords(...records: readonly NewOutboxRecord[]): Promise<void> {
    await commit(this.outbox, ...records)
  }

  /** `onPoint` is called at each point of the process; it may kill or suspend the process there. */
  async start(onPoint: OnPoint = () => {}, changes: SetupChanges = {}): Promise<RelayProcess> {
    const process = await this.create(onPoint, changes)
    process.relay.start()
    return process
  }

  async create(onPoint: OnPoint = () => {}, changes: SetupChanges = {}): Promise<RelayProcess> {
    const store = await this.outbox.another()
    let dead = false
    const reach = async (point: ProcessPoint) => {
      await onPoint(point, process)
      if (dead) await new Promise(() => {})
    }
    const call = async <T>(point: ProcessPoint, work: () => Promise<T>): Promise<T> => {
      await reach(point)
      await this.#catchUp()
      return await this.#working(work())
    }
    const mortal: OutboxStore = {
      capabilities: store.capabilities,
      claim: async (options) => {
        const claimed = await call('claim', () => store.claim(options))
        this.takenOver += claimed.filter(({ attempts }) => attempts > 1).length
        for (const claim of claimed) this.#claimsInFlight.add(nameOf(claim))
        return claimed
      },
      renew: (claims, lease) => call('renew', () => store.renew(claims, lease)),
      release: async (claims) => {
        await call('release', () => store.release(claims))
        for (const claim of claims) this.#claimsInFlight.delete(nameOf(claim))
      },
      settle: async (outcomes) => {
        const answers = await call('settle', () => store.settle(outcomes))
        for (const outcome of outcomes) this.#claimsInFlight.delete(nameOf(outcome))
        await reach('settled')
        return answers
      },
      leave: () => call('leave', async () => store.leave?.()),
      ownedPartitions: () => store.ownedPartitions?.(),
      ...(this.#notes && store.notes !== undefined ? { notes: mortalNotes(store.notes, (work) => call('note', work)) } : {}),
    }
    const publisherOf = (broker: string): Publisher => ({
      publish: async (destination, messages, { signal }) => {
        await reach(broker === deadBroker ? 'deadLetter' : 'publish')
        const results = await this.#publish({ broker, destination, messages, signal, at: this.runtime.now() })
        if (broker === deadBroker) return results
        const taken = messages.filter((_, index) => results[index]?.ok === true).map(({ id = '' }) => id)
        const giveUp = () => {
          // A dead relay releases nothing, so the relay that takes over counts an attempt.
          if (!dead) this.givenUp.push(...taken)
        }
        // The relay may give up while the process is suspended here, and the process may never continue.
        if (signal.aborted) giveUp()
        else signal.addEventListener('abort', giveUp, { once: true })
        await reach('published')
        signal.removeEventListener('abort', giveUp)
        if (!signal.aborted) this.refused.push(...messages.filter((_, index) => results[index]?.ok === false).map(({ id = '' }) => id))
        return results
      },
    })
    const relay = this.#createRelay(mortal, {
      publisher: publisherOf(mainBroker),
      runtime: this.runtime,
      logger: this.logger,
      batchSize: 20,
      lease: relayLease,
      maxAttempts: 3,
      publishTimeout: relayPublishTimeout,
      pollInterval: 500,
      backoff: () => 5000,
      shutdownTimeout: relayShutdownTimeout,
      ...(typeof changes === 'function' ? changes(publisherOf) : changes),
    })
    const process: RelayProcess = {
      relay,
      kill: () => {
        dead = true
        this.#running.delete(relay)
      },
    }
    this.#running.add(relay)
    return process
  }

  /** Advances the time of relays and store, in steps that are short compared to a lease. */
  async elapse(duration: number): Promise<void> {
    const step = 500
    for (let passed = 0; passed < duration; passed += step) {
      const part = Math.min(step, duration - passed)
      await this.runtime.advance(part)
      this.#behind += part
      await eventLoopTurn()
      // A real database needs time for its calls. The virtual clock waits for it, so that the database does not seem to hang.
      await Promise.allSettled(this.#calling)
    }
    await this.#catchUp()
  }

  /** Advances the time until the condition holds. Fails after `limit` milliseconds of the relays' time. */
  async until(condition: () => boolean | Promise<boolean>, what: string, limit = 600_000): Promise<void> {
    const end = this.runtime.now() + limit
    while (!(await condition())) {
      if (this.runtime.now() > end) throw new Error(`timed out after ${limit} ms waiting until ${what}`)
      await this.elapse(500)
    }
  }

  /** Waits for the promise while the time advances. */
  async passing<T>(work: Promise<T>, what: string, limit?: number): Promise<T> {
    let done = false
    const watched = work.finally(() => {
      done = true
    })
    watched.catch(() => {})
    await this.until(() => done, what, limit)
    return await watched
  }

  /** Stops the relay. Fails after `limit` milliseconds of the relays' time. */
  async stop(process: RelayProcess, limit?: number): Promise<void> {
    this.#running.delete(process.relay)
    await this.passing(process.relay.stop(), 'the relay has stopped', limit)
  }

  /** The number of records in each state, over all destinations. */
  async counts(): Promise<Record<'ready' | 'waiting' | 'leased' | 'parked', number>> {
    const sums = { ready: 0, waiting: 0, leased: 0, parked: 0 }
    for (const one of (await this.outbox.store.stats()).destinations) {
      for (const state of ['ready', 'waiting', 'leased', 'parked'] as const) sums[state] += one[state]
    }
    return sums
  }

  /** The only record that is parked. */
  async parked(): Promise<OutboxRecord> {
    const { records } = await this.outbox.store.list({ state: 'parked' }, { limit: 10 })
    const [only] = records
    if (only === undefined || records.length > 1) throw new Error(`expected one parked record, found ${records.length}`)
    return only
  }

  /** The number of records in flight: the leased ones, or, if the store does not lease single records, those that were claimed and are neither settled nor released. */
  async inFlight(): Promise<number> {
    return this.outbox.store.capabilities.order === 'none' ? (await this.counts()).leased : this.#claimsInFlight.size
  }

  async isEmpty(): Promise<boolean> {
    return Object.values(await this.counts()).every((count) => count === 0)
  }

  /** Claims everything that can be claimed now, and resolves to the ids. */
  async claimable(): Promise<(string | undefined)[]> {
    return idsOf(await claimAll(this.outbox.store))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const relay of this.#running) await this.passing(relay.stop(), 'the relay has stopped')
    await this.outbox[Symbol.asyncDispose]()
  }

  /** Advances the clock of the store. A database needs a statement for that, so it is done only before the store is called. */
  #catchUp(): Promise<void> {
    const part = this.#behind
    this.#behind = 0
    if (part > 0) this.#advanced = this.#working(this.#advanced.then(() => this.outbox.advance(part)))
    return this.#advanced
  }

  async #working<T>(call: Promise<T>): Promise<T> {
    this.#calling.add(call)
    try {
      return await call
    } finally {
      this.#calling.delete(call)
    }
  }

  async #publish(call: PublishCall): Promise<readonly PublishResult[]> {
    this.calls.push(call)
    const results = await this.answer(call)
    const taken = call.messages.filter((_, index) => results[index]?.ok === true)
    if (call.broker === deadBroker) this.letters.push(...taken)
    else this.arrived.push(...taken.map(({ id = '' }) => id))
    return results
  }
}

function mortalNotes(notes: OutboxNotes, call: <T>(work: () => Promise<T>) => Promise<T>): OutboxNotes {
  return {
    put: (...given) => call(() => notes.put(...given)),
    read: (...given) => call(() => notes.read(...given)),
    delete: (...given) => call(() => notes.delete(...given)),
  }
}

export async function takeAll({ messages }: { readonly messages: readonly RawMessage[] }): Promise<readonly PublishResult[]> {
  return messages.map(() => ({ ok: true }))
}

/** The ids without duplicates, sorted. */
export function distinct(ids: readonly string[]): string[] {
  return [...new Set(ids)].sort()
}

export function numbered(count: number, prefix = 'e'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${String(index + 1).padStart(3, '0')}`)
}

/** All records of a claim may have the same token. */
function nameOf({ id, token }: Claim): string {
  return `${id} ${token}`
}
