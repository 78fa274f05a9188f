import type { Backoff, Logger, Publisher, PublishResult, RawMessage, Runtime } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'
import { claimAll, commit, idsOf, record } from '../outbox/outbox-records.ts'
import type { OpenOutboxWorld, OutboxWorld } from '../outbox/outbox-world.ts'
import { type RecordingLogger, recordingLogger } from '../recording-logger.ts'
import type { Scenario } from '../scenario.ts'
import { eventLoopTurn, VirtualRuntime } from '../virtual-runtime.ts'

/** What scenarios ask of a relay; the names are those of `RelayOptions`. */
export interface RelaySetup {
  readonly publisher: Publisher
  readonly runtime: Runtime
  readonly logger: Logger
  readonly batchSize: number
  readonly lease: number
  readonly maxAttempts: number
  readonly publishTimeout: number
  readonly pollInterval: number
  readonly backoff: Backoff
}

export interface RelayUnderTest {
  start(): unknown
  stop(): Promise<void>
}

export type CreateRelay = (store: OutboxStore, setup: RelaySetup) => RelayUnderTest

/** What a relay scenario is given. */
export interface RelayPorts {
  readonly openStore: OpenOutboxWorld
  readonly createRelay: CreateRelay
}

export type RelayScenario = Scenario<RelayPorts>

export interface PublishCall {
  readonly destination: string
  readonly messages: readonly RawMessage[]
  readonly signal: AbortSignal
  /** By the relays' clock. */
  readonly at: number
}

export type Answer = (call: PublishCall) => Promise<readonly PublishResult[]>
export type ProcessPoint = 'claim' | 'renew' | 'release' | 'settle' | 'settled' | 'publish' | 'published'

/** A relay in a process of its own, which can be killed: from then on nothing it does reaches anybody. */
export interface RelayProcess {
  readonly relay: RelayUnderTest
  kill(): void
}

export const relayLease = 30_000

/** An outbox, a broker and relays, on clocks that go together. */
export class RelayWorld {
  readonly runtime: VirtualRuntime = new VirtualRuntime()
  readonly logger: RecordingLogger = recordingLogger()
  readonly calls: PublishCall[] = []
  /** The message ids that the broker took, in their order, duplicates included. */
  readonly arrived: string[] = []
  /** How many claimed records had been claimed before: without failures, each stands for a lease that was lost. */
  takenOver = 0
  /** What the broker says. Takes all, at first. */
  answer: Answer = takeAll
  readonly outbox: OutboxWorld
  readonly #createRelay: CreateRelay
  readonly #running = new Set<RelayUnderTest>()

  constructor(outbox: OutboxWorld, createRelay: CreateRelay) {
    this.outbox = outbox
    this.#createRelay = createRelay
  }

  static async open({ openStore, createRelay }: RelayPorts): Promise<RelayWorld> {
    return new RelayWorld(await openStore({ retain: false }), createRelay)
  }

  /** Commits events with these ids. */
  async add(destination: string, ...ids: readonly string[]): Promise<void> {
    await commit(this.outbox, ...ids.map((id) => record(id, { destination })))
  }

  /** `onPoint` is told where the process is; it may kill it there, or hold it up. */
  async start(onPoint: (point: ProcessPoint, process: RelayProcess) => void | Promise<void> = () => {}): Promise<RelayProcess> {
    const process = await this.create(onPoint)
    process.relay.start()
    return process
  }

  async create(onPoint: (point: ProcessPoint, process: RelayProcess) => void | Promise<void> = () => {}): Promise<RelayProcess> {
    const store = await this.outbox.another()
    let dead = false
    const reach = async (point: ProcessPoint) => {
      await onPoint(point, process)
      if (dead) await new Promise(() => {})
    }
    const call = async <T>(point: ProcessPoint, work: () => Promise<T>): Promise<T> => {
      await reach(point)
      return await work()
    }
    const mortal: OutboxStore = {
      capabilities: store.capabilities,
      claim: async (options) => {
        const claimed = await call('claim', () => store.claim(options))
        this.takenOver += claimed.filter(({ attempts }) => attempts > 1).length
        return claimed
      },
      renew: (claims, lease) => call('renew', () => store.renew(claims, lease)),
      release: (claims) => call('release', () => store.release(claims)),
      async settle(outcomes) {
        const answers = await call('settle', () => store.settle(outcomes))
        await reach('settled')
        return answers
      },
    }
    const publisher: Publisher = {
      publish: async (destination, messages, { signal }) => {
        await reach('publish')
        const results = await this.#publish({ destination, messages, signal, at: this.runtime.now() })
        await reach('published')
        return results
      },
    }
    const relay = this.#createRelay(mortal, {
      publisher,
      runtime: this.runtime,
      logger: this.logger,
      batchSize: 20,
      lease: relayLease,
      maxAttempts: 3,
      publishTimeout: 10 * relayLease,
      pollInterval: 500,
      backoff: () => 5000,
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

  /** Lets time pass, for relays and store alike, in steps that are short beside a lease. */
  async elapse(duration: number): Promise<void> {
    const step = 500
    for (let passed = 0; passed < duration; passed += step) {
      const part = Math.min(step, duration - passed)
      await this.runtime.advance(part)
      await this.outbox.advance(part)
      await eventLoopTurn()
    }
  }

  /** Lets time pass until it is so; fails after `limit` milliseconds of the relays' time. */
  async until(condition: () => boolean | Promise<boolean>, what: string, limit = 600_000): Promise<void> {
    const end = this.runtime.now() + limit
    while (!(await condition())) {
      if (this.runtime.now() > end) throw new Error(`in ${limit} ms it did not come to this: ${what}`)
      await this.elapse(500)
    }
  }

  /** Waits for the promise while time passes. */
  async passing<T>(work: Promise<T>, what: string): Promise<T> {
    let done = false
    const watched = work.finally(() => {
      done = true
    })
    watched.catch(() => {})
    await this.until(() => done, what)
    return await watched
  }

  async stop(process: RelayProcess): Promise<void> {
    this.#running.delete(process.relay)
    await this.passing(process.relay.stop(), 'the relay has stopped')
  }

  /** How many records are in each state, over all destinations. */
  async counts(): Promise<Record<'ready' | 'waiting' | 'leased' | 'parked', number>> {
    const sums = { ready: 0, waiting: 0, leased: 0, parked: 0 }
    for (const one of (await this.outbox.store.stats()).destinations) {
      for (const state of ['ready', 'waiting', 'leased', 'parked'] as const) sums[state] += one[state]
    }
    return sums
  }

  async isEmpty(): Promise<boolean> {
    return Object.values(await this.counts()).every((count) => count === 0)
  }

  /** The ids of what can be claimed now; it stays claimed. */
  async claimable(): Promise<(string | undefined)[]> {
    return idsOf(await claimAll(this.outbox.store))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const relay of this.#running) await this.passing(relay.stop(), 'the relay has stopped')
    await this.outbox[Symbol.asyncDispose]()
  }

  async #publish(call: PublishCall): Promise<readonly PublishResult[]> {
    this.calls.push(call)
    const results = await this.answer(call)
    for (const [index, { id = '' }] of call.messages.entries()) if (results[index]?.ok === true) this.arrived.push(id)
    return results
  }
}

export async function takeAll({ messages }: { readonly messages: readonly RawMessage[] }): Promise<readonly PublishResult[]> {
  return messages.map(() => ({ ok: true }))
}

/** Each id once. */
export function distinct(ids: readonly string[]): string[] {
  return [...new Set(ids)].sort()
}

export function numbered(count: number, prefix = 'e'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${String(index + 1).padStart(3, '0')}`)
}
