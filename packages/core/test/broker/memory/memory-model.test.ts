import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { MemorySourceOptions } from '../../../src/broker/memory/memory-broker.ts'
import type { Source } from '../../../src/broker/source.ts'
import type { RawMessage } from '../../../src/message/message.ts'
import { settlePromises } from '../../support/virtual-runtime.ts'
import { MemoryWorld, Reader } from './memory-world.ts'

type Step =
  | { readonly do: 'publish'; readonly keys: readonly (string | undefined)[] }
  | { readonly do: 'pull' | 'abort' | 'dispose'; readonly source: number }
  | { readonly do: 'ack' | 'reject'; readonly held: number }
  | { readonly do: 'nack'; readonly held: number; readonly retryAfter: number | undefined }
  | { readonly do: 'advance'; readonly duration: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('publish'),
      keys: fc.array(fc.constantFrom('a', 'b', undefined), { maxLength: 4 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('pull'), source: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('abort', 'dispose'), source: fc.nat(5) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('ack'), held: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reject'), held: fc.nat(20) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('nack'),
      held: fc.nat(20),
      retryAfter: fc.constantFrom(undefined, 0, 5, 30),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance'), duration: fc.constantFrom(1, 7, 40) }) },
)

/** The expected state of one message in one group: a state, a count and, if it is delayed, until when. */
interface Expected {
  readonly id: string
  readonly key: string | undefined
  state: 'ready' | 'inFlight' | 'delayed' | 'done'
  deliveries: number
  due: number
}

interface Held {
  readonly message: RawMessage
  readonly expected: Expected
  readonly by: ModelSource
  /** The delivery count at that time: a later delivery makes this one stale. */
  readonly delivery: number
  readonly deadline: number
}

interface ModelSource {
  readonly group: ModelGroup
  readonly options: MemorySourceOptions
  source: Source & AsyncDisposable
  controller: AbortController
  reader: Reader
  pulls: number
}

interface ModelGroup {
  readonly name: string
  readonly ordered: boolean
  readonly messages: Expected[]
}

/** Runs the broker and the reference side by side. The reference does not predict which message is delivered; it checks the delivered one. */
class Model {
  readonly world = new MemoryWorld()
  readonly groups: ModelGroup[] = [
    { name: 'plain', ordered: false, messages: [] },
    { name: 'ordered', ordered: true, messages: [] },
  ]
  readonly sources: ModelSource[] = []
  held: Held[] = []
  readonly #failures: unknown[] = []
  #ids = 0

  constructor() {
    for (const group of this.groups) {
      for (const [prefetch, ackTimeout] of [
        [2, 20],
        [3, Infinity],
        [Infinity, 50],
      ] as const) {
        const options = { group: group.name, orderPerKey: group.ordered, prefetch, ackTimeout, deadLetter: 'discard' }
        const source = this.world.broker.source('orders', options)
        const controller = new AbortController()
        const reader = new Reader(source, controller.signal)
        this.sources.push({ group, options, source, controller, reader, pulls: 0 })
      }
    }
  }

  async run(step: Step): Promise<void> {
    switch (step.do) {
      case 'publish':
        return await this.#publish(step.keys)
      case 'pull':
        return this.#pull(at(this.sources, step.source))
      case 'abort':
        return this.#abort(at(this.sources, step.source))
      case 'dispose':
        return await this.#dispose(at(this.sources, step.source))
      case 'advance':
        return await this.#advance(step.duration)
      default:
        return await this.#settle(step)
    }
  }

  /** The invariants that hold after every step. */
  check(): void {
    if (this.#failures.length > 0) throw this.#failures[0]
    for (const group of this.groups) {
      const ready = group.messages.filter((message) => message.state === 'ready')
      const blocked = ready.filter((message) => isBlocked(group, message)).length
      const open = group.messages.filter((message) => message.state !== 'done')
      expect(this.world.broker.stats('orders', group.name)).toMatchObject({
        kept: this.groups[0]?.messages.filter((_, index) => this.#isKept(index)).length,
        ready: ready.length - blocked,
        blocked,
        delayed: group.messages.filter((message) => message.state === 'delayed').length,
        inFlight: group.messages.filter((message) => message.state === 'inFlight').length,
        keys: group.ordered ? new Set(open.flatMap(({ key }) => key ?? [])).size : 0,
        waiting: this.#sourcesOf(group).reduce((sum, source) => sum + source.pulls, 0),
      })
      const couldTake = this.#sourcesOf(group).some((source) => source.pulls > 0 && this.#hasRoom(source))
      if (couldTake) expect(ready.length - blocked, 'a pull waits although a message is ready').toBe(0)
    }
  }

  /** From any state, drains the broker: every message is delivered, acked and removed. */
  async finish(): Promise<void> {
    for (let round = 0; this.groups.some((group) => group.messages.some(({ state }) => state !== 'done')); round += 1) {
      expect(round).toBeLessThan(500)
      for (const source of this.sources) if (source.pulls === 0) this.#pull(source)
      await settlePromises()
      for (const held of [...this.held]) await this.#settle({ do: 'ack', held: this.held.indexOf(held) })
      await this.#advance(10)
      this.check()
    }
    for (const group of this.groups) expect(group.messages.every(({ deliveries }) => deliveries > 0)).toBe(true)
    await Promise.all(this.groups.map((group) => this.world.broker.idle('orders', group.name)))
    for (const source of this.sources) await source.source[Symbol.asyncDispose]()
    expect(this.world.runtime.timers).toBe(0)
    const nothing = { kept: 0, ready: 0, blocked: 0, delayed: 0, inFlight: 0, keys: 0, waiting: 0, sources: 0 }
    expect(this.world.broker.stats('orders')).toMatchObject(nothing)
  }

  async #publish(keys: readonly (string | undefined)[]): Promise<void> {
    const published = keys.map((key) => {
      this.#ids += 1
      return { id: key === undefined ? String(this.#ids) : `${key}:${this.#ids}`, key }
    })
    for (const group of this.groups) {
      for (const { id, key } of published) group.messages.push({ id, key, state: 'ready', deliveries: 0, due: 0 })
    }
    await this.world.publish('orders', ...published.map(({ id }) => id))
  }

  #pull(source: ModelSource): void {
    const { reader } = source
    source.pulls += 1
    const pulled = reader.pull().then((message) => {
      if (source.reader === reader) source.pulls -= 1
      if (message !== undefined) this.#delivered(source, message)
    })
    pulled.catch((failure) => this.#failures.push(failure))
  }

  #delivered(source: ModelSource, message: RawMessage): void {
    const { group } = source
    const expected = group.messages.find(({ id }) => id === message.id)
    if (expected === undefined) throw new Error(`${message.id} was never published.`)
    expect(expected.state, `${message.id} is delivered`).toBe('ready')
    expect(isBlocked(group, expected), `${message.id} is delivered before an earlier one of its key`).toBe(false)
    expected.deliveries += 1
    expect(message.deliveryCount).toBe(expected.deliveries)
    expected.state = 'inFlight'
    const deadline = this.world.runtime.now() + (source.options.ackTimeout ?? Infinity)
    this.held.push({ message, expected, by: source, delivery: expected.deliveries, deadline })
    expect(this.#holds(source).length).toBeLessThanOrEqual(source.options.prefetch ?? 100)
  }

  #abort(source: ModelSource): void {
    source.controller.abort()
    this.#restart(source)
  }

  async #dispose(source: ModelSource): Promise<void> {
    for (const held of this.#holds(source)) held.expected.state = 'ready'
    const disposed = source.source[Symbol.asyncDispose]()
    source.source = this.world.broker.source('orders', source.options)
    this.#restart(source)
    await disposed
  }

  #restart(source: ModelSource): void {
    source.controller = new AbortController()
    source.reader = new Reader(source.source, source.controller.signal)
    source.pulls = 0
  }

  async #settle(step: { readonly do: 'ack' | 'reject' | 'nack'; readonly held: number; readonly retryAfter?: number | undefined }) {
    if (this.held.length === 0) return
    const held = at(this.held, step.held)
    const { message, expected } = held
    const current = this.#isCurrent(held)
    this.held = this.held.filter((other) => other !== held)
    if (current) {
      const delay = step.do === 'nack' ? (step.retryAfter ?? 0) : 0
      expected.state = step.do !== 'nack' ? 'done' : delay > 0 ? 'delayed' : 'ready'
      expected.due = this.world.runtime.now() + delay
    }
    const error = new Error(step.do)
    const { retryAfter } = step
    const verdict = step.do === 'ack' ? message.ack() : step.do === 'nack' ? message.nack(error, { retryAfter }) : message.reject(error)
    const code = await verdict.then(
      () => 'taken',
      (failure) => failure.code,
    )
    if (current) expect(code).toBe('taken')
    else expect(['ACKORD_SHUTDOWN', 'ACKORD_LEASE_LOST']).toContain(code)
  }

  // Advances in single steps, so that the reference sees each instant before a delivery that it makes possible.
  async #advance(duration: number): Promise<void> {
    const { runtime } = this.world
    for (const end = runtime.now() + duration; runtime.now() < end; ) {
      const next = runtime.now() + 1
      for (const held of this.held) if (held.deadline <= next && this.#isCurrent(held)) held.expected.state = 'ready'
      for (const group of this.groups) {
        for (const message of group.messages) {
          if (message.state === 'delayed' && message.due <= next) message.state = 'ready'
        }
      }
      await runtime.advance(1)
    }
  }

  #isCurrent(held: Held): boolean {
    return held.expected.state === 'inFlight' && held.expected.deliveries === held.delivery
  }

  #holds(source: ModelSource): Held[] {
    return this.held.filter((held) => held.by === source && this.#isCurrent(held))
  }

  #hasRoom(source: ModelSource): boolean {
    return this.#holds(source).length < (source.options.prefetch ?? 100)
  }

  #sourcesOf(group: ModelGroup): ModelSource[] {
    return this.sources.filter((source) => source.group === group)
  }

  #isKept(index: number): boolean {
    return this.groups.some((group) => group.messages[index]?.state !== 'done')
  }
}

it('agrees with a reference model under random operations', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80, size: 'max' }), async (steps) => {
      const model = new Model()
      await using _ = model.world
      for (const step of steps) {
        await model.run(step)
        await settlePromises()
        model.check()
      }
      await model.finish()
    }),
    { numRuns: 150 },
  )
}, 120_000)

function isBlocked(group: ModelGroup, message: Expected): boolean {
  if (!group.ordered || message.key === undefined) return false
  return group.messages.find(({ key, state }) => key === message.key && state !== 'done') !== message
}

function at<T>(values: readonly T[], index: number): T {
  const value = values[index % values.length]
  if (value === undefined) throw new Error('There is none.')
  return value
}
