import assert from 'node:assert/strict'
import { type Context, Message, type Middleware, type RawMessage, Router, type RouterOptions } from '@ackord/core'
import type { InboxAdmin } from '@ackord/outbox'
import { recordingLogger, sourceOf, type TrackedMessage, trackedMessage } from '../../helpers/tracked-message.ts'
import type { Scenario } from '../../run/scenario.ts'

/** The optional features of an implementation. Each adds scenarios; none removes any. */
export interface TransactionFeatures {
  /** A nested transaction is a savepoint. */
  readonly savepoints: boolean
  /** The world has `failCommit()`. */
  readonly failCommit: boolean
  /** The world has `commitByHand()`. Default: false. */
  readonly commitByHand?: boolean | undefined
}

/**
 * A separate store for one scenario, initially empty, with the middleware under test. Disposing it removes everything it created.
 * A store with a single connection works: scenarios read only while no handler is inside a transaction.
 */
export interface TransactionWorld extends AsyncDisposable {
  /** The transaction alone. */
  transaction(): Middleware
  /** Transaction, inbox and outbox in the order that the store requires. The outbox stores all outputs as JSON. */
  transactional(consumer: string): Middleware
  /** A business write in the transaction of this context, as in a repository. */
  write(context: Context, key: string, value: string): Promise<void>
  /** A business write that the store refuses. Always rejects. */
  failWrite(context: Context): Promise<void>
  /** Makes the commit of the transaction of this context fail, for example by a deferred constraint. */
  failCommit?(context: Context): Promise<void>
  /** Sends a COMMIT in the transaction of this context, as a handler may by mistake: hidden behind a comment, for example. */
  commitByHand?(context: Context): Promise<void>
  /** The committed value of the key. Called outside of transactions. */
  read(key: string): Promise<string | undefined>
  /** The interface of the inbox for operators. Required by `testInboxAdmin()`. */
  readonly inbox?: InboxAdmin | undefined
  /** The committed events in the outbox, oldest first. Called outside of transactions. */
  events(): Promise<readonly RawMessage[]>
}

export type OpenTransactionWorld = () => Promise<TransactionWorld>
export type TransactionScenario = Scenario<OpenTransactionWorld>

export interface DeliveryOptions {
  /** Around the handler, outermost first. */
  readonly use: readonly Middleware[]
  readonly handle: (message: Message, context: Context) => Promise<readonly Message[] | void>
  readonly router?: RouterOptions | undefined
}

/** A router with one handler of `order.place`. It does not log to the console. */
export function routerOf({ use, handle, router = {} }: DeliveryOptions): Router {
  return new Router({ source: '/orders', logger: recordingLogger(), ...router }).use(...use).handle({
    type: 'order.place',
    handle: async (message, context) => (await handle(message, context)) ?? [],
  })
}

/** Delivers these messages and waits until each is handled. */
export async function deliver(options: DeliveryOptions, ...messages: readonly TrackedMessage[]): Promise<void> {
  await routerOf(options).run(sourceOf(...messages))
}

/** An event as a handler returns it, without an id. */
export function placed(data: unknown, type = 'order.placed'): Message {
  return new Message(data, { type })
}

export function dataOf(events: readonly Message<Uint8Array>[]): unknown[] {
  return events.map(({ data }) => JSON.parse(new TextDecoder().decode(data)))
}

/** A handler whose effect can be counted: each call that commits leaves its own key and event. */
export function counting(
  world: TransactionWorld,
  key = 'call',
): {
  readonly calls: () => number
  handle(message: Message, context: Context): Promise<Message[]>
} {
  let calls = 0
  return {
    calls: () => calls,
    async handle(_, context) {
      calls += 1
      const call = calls
      await world.write(context, `${key} ${call}`, 'done')
      return [placed(call)]
    },
  }
}

/** The number of committed calls of a counting handler. */
export async function committedCalls(world: TransactionWorld, calls: number, key = 'call'): Promise<number> {
  let committed = 0
  for (let call = 1; call <= calls; call += 1) if ((await world.read(`${key} ${call}`)) === 'done') committed += 1
  return committed
}

/** Asserts that the message of a handler that writes 'order' has only this verdict, and that the handler left no effect. */
export async function assertNoTrace(world: TransactionWorld, order: TrackedMessage, verdict: 'nack' | 'reject'): Promise<void> {
  assert.deepEqual(order.verdicts, [verdict])
  assert.equal(await world.read('order'), undefined)
  assert.deepEqual(await world.events(), [])
}

/** Checks the fixture itself first: a world that does not do what it claims proves nothing. */
export function fixtureScenario(features: TransactionFeatures): TransactionScenario {
  return {
    name: 'the fixture does what it claims',
    async run(open) {
      await using world = await open()
      await using other = await open()
      assert.equal(world.failCommit !== undefined, features.failCommit, 'a world must have failCommit() as the feature says')
      assert.equal(world.commitByHand !== undefined, features.commitByHand === true, 'a world must have commitByHand() as the feature says')
      assert.equal(await world.read('order'), undefined, 'a new world must be empty')
      assert.deepEqual(await world.events(), [], 'a new world must be empty')
      let refused = false
      await deliver(
        {
          use: [world.transaction()],
          async handle(message, context) {
            await world.write(context, 'order', 'first')
            await world.write(context, 'order', 'second')
            if (message.id === 'm2') {
              await world.failWrite(context).catch(() => {
                refused = true
              })
            }
          },
        },
        trackedMessage('m1'),
        trackedMessage('m2'),
      )
      assert.equal(await world.read('order'), 'second', 'a write must replace the value of its key')
      assert.ok(refused, 'failWrite() must reject')
      assert.equal(await other.read('order'), undefined, 'two worlds must not share data')
    },
  }
}
