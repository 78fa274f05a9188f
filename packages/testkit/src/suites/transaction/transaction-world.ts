import assert from 'node:assert/strict'
import { type Context, Message, type Middleware, type RawMessage, Router, type RouterOptions } from '@ackord/core'
import { recordingLogger, sourceOf, type TrackedMessage, trackedMessage } from '../../helpers/tracked-message.ts'
import type { Scenario } from '../../run/scenario.ts'

/** What an implementation claims beyond the base. Each claim adds scenarios; none takes one away. */
export interface TransactionFeatures {
  /** A transaction inside of a transaction is a savepoint. */
  readonly savepoints: boolean
  /** The world has `failCommit()`. */
  readonly failCommit: boolean
  /** The world has `commitByHand()`. Default: false. */
  readonly commitByHand?: boolean | undefined
}

/**
 * A store of its own for one scenario, empty at first, with the middleware under test. Disposing it removes what it made.
 * A store with a single connection works: scenarios read only when no handler is inside of a transaction.
 */
export interface TransactionWorld extends AsyncDisposable {
  /** The transaction alone. */
  transaction(): Middleware
  /** Transaction, inbox and outbox in the order that is right for the store. The outbox takes all outputs, as JSON. */
  transactional(consumer: string): Middleware
  /** A business write through the transaction that this context is in, as a repository makes it. */
  write(context: Context, key: string, value: string): Promise<void>
  /** A business write that the store refuses. It rejects, always. */
  failWrite(context: Context): Promise<void>
  /** Makes the commit of the transaction that this context is in fail, such as by a constraint that is checked there. */
  failCommit?(context: Context): Promise<void>
  /** Sends what commits the transaction that this context is in, as a handler may by mistake: hidden behind a comment, for example. */
  commitByHand?(context: Context): Promise<void>
  /** What is committed under the key. Called outside of transactions. */
  read(key: string): Promise<string | undefined>
  /** The events that are committed in the outbox, oldest first. Called outside of transactions. */
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

/** A router as services have it, for one handler of `order.place`. What it logs is kept from the console. */
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

/** An event as handlers return it: without an id. */
export function placed(data: unknown, type = 'order.placed'): Message {
  return new Message(data, { type })
}

export function dataOf(events: readonly Message<Uint8Array>[]): unknown[] {
  return events.map(({ data }) => JSON.parse(new TextDecoder().decode(data)))
}

/** A handler whose effect can be counted: each call that commits leaves a key and an event of its own. */
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

/** How many calls of a counting handler were committed. */
export async function committedCalls(world: TransactionWorld, calls: number, key = 'call'): Promise<number> {
  let committed = 0
  for (let call = 1; call <= calls; call += 1) if ((await world.read(`${key} ${call}`)) === 'done') committed += 1
  return committed
}

/** The message of a handler that writes 'order' has only this verdict, and what the handler did is not there. */
export async function assertNoTrace(world: TransactionWorld, order: TrackedMessage, verdict: 'nack' | 'reject'): Promise<void> {
  assert.deepEqual(order.verdicts, [verdict])
  assert.equal(await world.read('order'), undefined)
  assert.deepEqual(await world.events(), [])
}

/** First of all the fixture itself: a world that cannot do what it says proves nothing. */
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
      assert.equal(await other.read('order'), undefined, 'two worlds must not share what is written')
    },
  }
}
