import {
  Message,
  type MetricLabels,
  type Metrics,
  type Publisher,
  type PublishResult,
  type RawMessage,
  type Runtime,
  type Timer,
} from '@ackord/core'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import type { RelayOptions } from '../../src/options/relay-options.ts'
import { Relay } from '../../src/relay/relay.ts'
import type { OutboxRecord, OutboxState } from '../../src/store/outbox-admin.ts'
import type { OutboxStore } from '../../src/store/outbox-store.ts'

export type StoreCall = 'claim' | 'renew' | 'release' | 'settle'

/** A store whose calls are counted, and that fails or waits as the test configures. */
export class WatchedStore implements OutboxStore {
  readonly #store: OutboxStore
  readonly capabilities: OutboxStore['capabilities']
  readonly calls: StoreCall[] = []
  /** Runs before a call; the call fails with the error it throws. */
  before: (call: StoreCall) => void | Promise<void> = () => {}
  after: (call: StoreCall) => void | Promise<void> = () => {}

  constructor(store: OutboxStore) {
    this.#store = store
    this.capabilities = store.capabilities
  }

  claim: OutboxStore['claim'] = (options) => this.#run('claim', () => this.#store.claim(options))
  renew: OutboxStore['renew'] = (claims, lease) => this.#run('renew', () => this.#store.renew(claims, lease))
  release: OutboxStore['release'] = (claims) => this.#run('release', () => this.#store.release(claims))
  settle: OutboxStore['settle'] = (outcomes) => this.#run('settle', () => this.#store.settle(outcomes))
  wakeUps = (options: { readonly signal: AbortSignal }): AsyncIterable<void> => this.#store.wakeUps?.(options) ?? none()

  count(call: StoreCall): number {
    return this.calls.filter((made) => made === call).length
  }

  async #run<T>(call: StoreCall, work: () => Promise<T>): Promise<T> {
    this.calls.push(call)
    await this.before(call)
    const answer = await work()
    await this.after(call)
    return answer
  }
}

async function* none(): AsyncGenerator<void> {}

/** A clock that a process loses when it is killed: its timers never fire again. */
export class MortalRuntime implements Runtime {
  readonly #runtime: Runtime
  readonly #timers = new Set<Timer>()
  #killed = false

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  now = (): number => this.#runtime.now()
  monotonic = (): number => this.#runtime.monotonic()
  random = (): number => this.#runtime.random()
  uuid = (): string => this.#runtime.uuid()

  setTimeout = (callback: () => void, delay: number): Timer => {
    if (this.#killed) return { cancel() {} }
    const timer = this.#runtime.setTimeout(() => {
      this.#timers.delete(timer)
      callback()
    }, delay)
    this.#timers.add(timer)
    return timer
  }

  kill(): void {
    this.#killed = true
    for (const timer of this.#timers) timer.cancel()
  }
}

/** The clock of a process that can be suspended: its time passes, its timers do not fire, and all that are due fire when it resumes. */
export class SuspendableRuntime implements Runtime {
  readonly #runtime: Runtime
  #due: (() => void)[] | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  now = (): number => this.#runtime.now()
  monotonic = (): number => this.#runtime.monotonic()
  random = (): number => this.#runtime.random()
  uuid = (): string => this.#runtime.uuid()

  setTimeout = (callback: () => void, delay: number): Timer => {
    let cancelled = false
    const fire = () => {
      if (cancelled) return
      if (this.#due === undefined) callback()
      else this.#due.push(fire)
    }
    const timer = this.#runtime.setTimeout(fire, delay)
    return {
      cancel() {
        cancelled = true
        timer.cancel()
      },
    }
  }

  suspend(): void {
    this.#due = []
  }

  resume(): void {
    const due = this.#due ?? []
    this.#due = undefined
    for (const fire of due) fire()
  }
}

export interface RecordingMetrics extends Metrics {
  /** The counts, over all labels. */
  sum(name: string): number
  /** The labels of the counts, in their order. */
  labels(name: string): MetricLabels[]
  readonly observed: Map<string, number[]>
  /** The last level of each name and labels. */
  level(name: string, labels?: MetricLabels): number | undefined
}

export function recordingMetrics(): RecordingMetrics {
  const counts: { readonly name: string; readonly amount: number; readonly labels: MetricLabels }[] = []
  const observed = new Map<string, number[]>()
  const levels = new Map<string, number>()
  const key = (name: string, labels: MetricLabels) => `${name} ${JSON.stringify(Object.entries(labels).sort())}`
  const named = (name: string) => counts.filter((count) => count.name === name)
  return {
    observed,
    sum: (name) => named(name).reduce((sum, { amount }) => sum + amount, 0),
    labels: (name) => named(name).map(({ labels }) => labels),
    level: (name, labels = {}) => levels.get(key(name, labels)),
    count: (name, amount, labels) => void counts.push({ name, amount, labels }),
    observe(name, value) {
      const values = observed.get(name) ?? []
      values.push(value)
      observed.set(name, values)
    },
    gauge: (name, value, labels) => void levels.set(key(name, labels), value),
  }
}

export function event(id: string): RawMessage {
  return new Message(new TextEncoder().encode(id), { id, type: 'order.placed', source: '/orders', specversion: '1.0' })
}

export function ids(count: number, prefix = 'e'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`)
}

export interface World {
  readonly runtime: VirtualRuntime
  readonly logger: ReturnType<typeof recordingLogger>
  readonly metrics: RecordingMetrics
  readonly memory: MemoryOutboxStore
  readonly store: WatchedStore
  readonly publisher: ReturnType<typeof recordingPublisher>
  readonly relay: Relay
  /** Commits events with these ids. */
  add(destination: string, ...ids: readonly string[]): Promise<void>
  addMessages(destination: string, messages: readonly RawMessage[]): Promise<void>
  /** The number of records in each state; states without records are omitted. */
  states(): Promise<Partial<Record<OutboxState, number>>>
  /** The ids that reached the publisher, in their order. */
  sent(destination?: string): string[]
  /** Another relay on the same store. */
  another(options?: Partial<RelayOptions>): Relay
}

export type Answer = NonNullable<Parameters<typeof recordingPublisher>[0]>

/** Returns the answer for each message by its id; messages that are not named are confirmed. */
export function answering(failures: Record<string, Omit<Exclude<PublishResult, { ok: true }>, 'ok'>>): Answer {
  return async ({ messages }) =>
    messages.map((message) => {
      const failure = failures[message.id ?? '']
      return failure === undefined ? { ok: true } : { ok: false, ...failure }
    })
}

/** All records in the store. */
export async function records({ memory }: World): Promise<readonly OutboxRecord[]> {
  return (await memory.list({}, { limit: 1000 })).records
}

/** A relay on a memory store, with one clock that the test advances. */
export function openWorld(
  options: Partial<RelayOptions> & { readonly answer?: Answer; readonly retain?: boolean; readonly seed?: number } = {},
): World {
  const { answer, retain, seed, ...given } = options
  // A short lease requires an even shorter publish time-out.
  const relayOptions = given.lease === undefined ? given : { publishTimeout: Math.min(10_000, given.lease * 0.9), ...given }
  const runtime = new VirtualRuntime({ seed })
  const logger = recordingLogger()
  const metrics = recordingMetrics()
  const memory = new MemoryOutboxStore({ runtime, retain })
  const store = new WatchedStore(memory)
  const publisher = recordingPublisher(answer)
  const addMessages = async (destination: string, messages: readonly RawMessage[]) => {
    const transaction = memory.begin()
    await memory.append(
      transaction,
      messages.map((message) => ({ destination, message })),
    )
    transaction.commit()
  }
  const another = (more: Partial<RelayOptions> = {}) =>
    new Relay(store, { publisher: publisher as Publisher, runtime, logger, metrics, ...relayOptions, ...more })
  return {
    runtime,
    logger,
    metrics,
    memory,
    store,
    publisher,
    relay: another(),
    another,
    add: (destination, ...added) => addMessages(destination, added.map(event)),
    addMessages,
    async states() {
      const { destinations } = await memory.stats()
      const sums: Partial<Record<OutboxState, number>> = {}
      for (const { destination: _, oldestAge: __, capped: ___, ...counts } of destinations) {
        for (const [state, count] of Object.entries(counts)) {
          // `Object.entries` loses the key types.
          if (count > 0) sums[state as OutboxState] = (sums[state as OutboxState] ?? 0) + count
        }
      }
      return sums
    },
    sent: (destination) =>
      publisher.calls
        .filter((call) => destination === undefined || call.destination === destination)
        .flatMap((call) => call.messages.map((message) => message.id ?? '')),
  }
}
