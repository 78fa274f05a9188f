import assert from 'node:assert/strict'
import { afterCommit, type Context, isAckordError, Message, type RawMessage } from '@ackord/core'
import {
  type IdempotencyClaim,
  type IdempotencyClaimOptions,
  type IdempotencyKey,
  type IdempotencyStore,
  type IdempotentWriteOptions,
  MemoryIdempotencyStore,
  MemoryOutboxStore,
  type MemoryTransaction,
  type NewEvents,
  type StoredAnswer,
} from '@ackord/outbox'
import { deferred } from '../../helpers/tracked-message.ts'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'

/** The optional features of an implementation. Each adds scenarios; none removes any. */
export interface IdempotencyFeatures {
  /** Other requests can be claimed while the transaction of a write is open. Not so if the store has one writer at a time. */
  readonly concurrentWrites: boolean
}

/** The arguments of the work of a write. */
export interface IdempotentWork {
  readonly transaction: unknown
  readonly context: Context
}

/** A process that uses the store. */
export interface IdempotencyProcess {
  readonly store: IdempotencyStore<unknown>
  /** A business write in the transaction of this work. It replaces the value of the key. */
  put(work: IdempotentWork, key: string, value: string): Promise<void>
  /** Stores events in the outbox, in the transaction of this work. */
  append(work: IdempotentWork, events: NewEvents): Promise<void>
}

/** A separate store for one scenario, initially empty. Disposing it removes everything it created. */
export interface IdempotencyWorld extends IdempotencyProcess, AsyncDisposable {
  /** Another process on the same data: with its own connections, if there are connections. */
  another(): Promise<IdempotencyProcess>
  /** The committed value of the key. Called while no write is open. */
  read(key: string): Promise<string | undefined>
  /** The committed events in the outbox, oldest first. Called while no write is open. */
  events(): Promise<readonly RawMessage[]>
  /**
   * Puts the store into the state of `duration` milliseconds later. A store with its own clock does not wait: it moves the ends of all leases and
   * retentions back by the same amount. Called while no write is open, unless there are `concurrentWrites`.
   */
  advance(duration: number): Promise<void>
}

export type OpenIdempotencyWorld = () => Promise<IdempotencyWorld>
export type IdempotencyScenario = Scenario<OpenIdempotencyWorld>

export const memoryIdempotencyFeatures: IdempotencyFeatures = { concurrentWrites: true }

/** The in-memory store with a virtual clock: an example for other worlds. */
export async function openMemoryIdempotencyWorld(): Promise<IdempotencyWorld> {
  const runtime = new VirtualRuntime()
  const outbox = new MemoryOutboxStore({ runtime })
  const values = new Map<string, string>()
  const process: IdempotencyProcess = {
    store: new MemoryIdempotencyStore(outbox, { runtime }),
    // The store has no business data of its own.
    async put({ context }, key, value) {
      afterCommit(context, () => void values.set(key, value))
    },
    append: ({ transaction }, events) => outbox.append(transaction as MemoryTransaction, events),
  }
  return {
    ...process,
    another: async () => process,
    read: async (key) => values.get(key),
    events: async () => (await outbox.list({}, { limit: 1000 })).records.map(({ message }) => message),
    advance: (duration) => runtime.advance(duration),
    [Symbol.asyncDispose]: async () => {},
  }
}

/** The lease in scenarios: long enough for any machine. Scenarios never wait for it. */
export const lease = 60_000
export const retention = 3_600_000

export const key: IdempotencyKey = { scope: 'POST /orders', key: 'k1' }

export function claim(
  { store }: IdempotencyProcess,
  which: IdempotencyKey = key,
  options: Partial<IdempotencyClaimOptions> = {},
): Promise<IdempotencyClaim> {
  return store.claim(which, { fingerprint: 'f1', lease, ...options })
}

/** Claims a key that must be absent, or whose lease must have ended. Resolves to the token. */
export async function claimed(
  process: IdempotencyProcess,
  which: IdempotencyKey = key,
  options: Partial<IdempotencyClaimOptions> = {},
): Promise<string> {
  const found = await claim(process, which, options)
  if (found.state !== 'claimed') assert.fail(`expected to get the claim of ${JSON.stringify(which)}, but it is ${found.state}`)
  return found.token
}

/** The stored answer. */
export async function answered(process: IdempotencyProcess, which: IdempotencyKey = key): Promise<StoredAnswer> {
  const found = await claim(process, which)
  if (found.state !== 'answered') assert.fail(`expected the answer of ${JSON.stringify(which)}, but it is ${found.state}`)
  return found.answer
}

export async function assertState(
  process: IdempotencyProcess,
  expected: IdempotencyClaim['state'],
  which: IdempotencyKey = key,
  options: Partial<IdempotencyClaimOptions> = {},
): Promise<void> {
  assert.equal((await claim(process, which, options)).state, expected)
}

export function answer(text: string): StoredAnswer {
  return { status: 201, headers: [['content-type', 'text/plain']], body: new TextEncoder().encode(text) }
}

/** Compares the bytes, whatever kind of Uint8Array they are in. */
export function assertAnswer(found: StoredAnswer, expected: StoredAnswer): void {
  assert.deepEqual({ ...found, body: Buffer.from(found.body) }, { ...expected, body: Buffer.from(expected.body) })
}

function event(id: string): NewEvents {
  const message = new Message(new TextEncoder().encode(`"${id}"`), { id, type: 'order.placed', source: '/orders', specversion: '1.0' })
  return { destination: 'order-events', message }
}

export interface PlaceOptions extends Partial<IdempotentWriteOptions> {
  readonly which?: IdempotencyKey | undefined
  /** Called after the business write and the event, before the work returns. */
  readonly before?: ((work: IdempotentWork) => Promise<void> | void) | undefined
}

/** Writes with a work that leaves a business row and an event of this name, and answers with the name. */
export function place(process: IdempotencyProcess, token: string, name: string, options: PlaceOptions = {}): Promise<StoredAnswer> {
  const { which = key, before, ...others } = options
  return process.store.write(
    which,
    token,
    async (transaction, context) => {
      const work = { transaction, context }
      await process.put(work, name, 'placed')
      await process.append(work, event(name))
      await before?.(work)
      return answer(name)
    },
    { retention, ...others },
  )
}

/** Does other things, as other requests, while the work of a `place()` has done everything and its transaction is open. Resolves to the write, still running. */
export async function whileOpen(
  process: IdempotencyProcess,
  token: string,
  name: string,
  meanwhile: () => Promise<void>,
): Promise<{ readonly writing: Promise<StoredAnswer> }> {
  const opened = deferred()
  const end = deferred()
  const writing = place(process, token, name, {
    async before() {
      opened.resolve()
      await end.promise
    },
  })
  // Handled: the caller awaits it, unless the other things fail.
  writing.catch(() => {})
  await Promise.race([opened.promise, writing])
  try {
    await meanwhile()
  } finally {
    end.resolve()
  }
  return { writing }
}

/** Asserts that these works of `place()`, and no others, have left their business rows and events. */
export async function assertPlaced(world: IdempotencyWorld, all: readonly string[], expected: readonly string[]): Promise<void> {
  const rows: string[] = []
  for (const name of all) if ((await world.read(name)) !== undefined) rows.push(name)
  assert.deepEqual(rows, expected, 'the business rows')
  const events = (await world.events()).map(({ id }) => id)
  assert.deepEqual(events.toSorted(), expected.toSorted(), 'the events')
}

export async function assertClaimLost(writing: Promise<unknown>): Promise<void> {
  await assert.rejects(writing, (error) => isAckordError(error, 'ACKORD_CLAIM_LOST') || assert.fail(`rejected with ${String(error)}`))
}

/** Checks the fixture itself first: a world that does not do what it claims proves nothing. */
export const fixtureScenario: IdempotencyScenario = {
  name: 'the fixture does what it claims',
  basic: true,
  async run(open) {
    await using world = await open()
    await using other = await open()
    await assertPlaced(world, ['first'], [])
    const process = await world.another()
    const token = await claimed(process)
    await place(process, token, 'first', { before: (work) => process.put(work, 'first', 'replaced') })
    assert.equal(await world.read('first'), 'replaced', 'a write must replace the value of its key')
    await assertPlaced(world, ['first'], ['first'])
    await assertPlaced(other, ['first'], [])
    await assertState(other, 'claimed')
    await world.advance(retention + 1)
    await assertState(world, 'claimed')
  },
}
