import {
  constantBackoff,
  Message,
  type Middleware,
  type RawMessage,
  Router,
  type RouterOptions,
  rootContext,
  silentLogger,
} from '@ackord/core'
import { retryMiddleware } from '@ackord/core/middleware'
import type { PayloadCodec } from '@ackord/core/payload'
import { expect, it } from 'vitest'
import { MemoryStore } from '../../src/helpers/memory-store.ts'
import { deferred, sourceOf, trackedMessage } from '../../src/helpers/tracked-message.ts'
import { VirtualRuntime } from '../../src/helpers/virtual-runtime.ts'

/** A codec that waits for a signal before it fails or succeeds. */
function waiting(outcome: (message: RawMessage) => RawMessage = (message) => message) {
  const begun = deferred()
  const go = deferred()
  const codec: PayloadCodec = {
    async encode(message) {
      begun.resolve()
      await go.promise
      return outcome(message)
    },
    decode: (message) => message,
  }
  return { begun, go, store: new MemoryStore({ source: '/orders', destination: 'events', codecs: [codec] }) }
}

const placed = new Message({ id: 'o-1' }, { id: 'e1', type: 'order.placed' })
const events = async ({ outbox }: MemoryStore) => (await outbox.list({}, { limit: 10 })).records.map(({ message }) => message.id)

it('commits an event that the work did not wait for, after its codecs', async () => {
  const { begun, go, store } = waiting()
  const appended = deferred()
  const written = store.write(async ({ events: transaction }) => {
    store.outbox.append(transaction, placed).then(appended.resolve, appended.reject)
  })
  await begun.promise
  expect(await events(store)).toEqual([])
  go.resolve()
  await Promise.all([written, appended.promise])
  expect(await events(store)).toEqual(['e1'])
})

it('commits nothing if the codecs of such an event fail', async () => {
  const { begun, go, store } = waiting(() => {
    throw new Error('the bucket is gone')
  })
  const appended = deferred<unknown>()
  const written = store.write(async (transaction) => {
    transaction.set('order', 'placed')
    store.outbox.append(transaction.events, placed).catch(appended.resolve)
    await begun.promise
  })
  await begun.promise
  go.resolve()
  await expect(written).rejects.toMatchObject({ code: 'ACKORD_CODEC_FAILED', cause: { message: 'the bucket is gone' } })
  expect(await appended.promise).toMatchObject({ code: 'ACKORD_CODEC_FAILED' })
  expect([store.executor(rootContext()).get('order'), await events(store)]).toEqual([undefined, []])
})

it('removes such an event with the nested transaction that has failed meanwhile', async () => {
  const { begun, go, store } = waiting()
  const appended = deferred()
  const written = store.write(async () => {
    const nested = store.write(async ({ events: transaction }) => {
      store.outbox.append(transaction, placed).then(appended.resolve, appended.reject)
      await begun.promise
      throw new Error('no stock')
    })
    await begun.promise
    go.resolve()
    await expect(nested).rejects.toThrow('no stock')
  })
  await Promise.all([written, appended.promise])
  expect(await events(store)).toEqual([])
})

/** A router with one handler, whose event this codec encodes. */
function routerWith(codec: PayloadCodec, options: RouterOptions = {}, ...use: readonly Middleware[]) {
  const store = new MemoryStore({ codecs: [codec] })
  let handled = 0
  const router = new Router({ source: '/orders', logger: silentLogger, ...options })
    .use(...use, store.transactional({ consumer: 'orders', destination: 'events' }))
    .handle({
      type: 'order.place',
      async handle() {
        handled += 1
        store.executor().set(`attempt ${handled}`, 'done')
        return [new Message({ id: 'o-1' }, { type: 'order.placed' })]
      },
    })
  return {
    store,
    router,
    handled: () => handled,
    written: () =>
      store
        .executor(rootContext())
        .entries()
        .map(([key]) => key),
  }
}

it('encodes an event again in a retry, whose transaction is its own', async () => {
  let calls = 0
  const codec: PayloadCodec = {
    async encode(message) {
      calls += 1
      if (calls === 1) throw new Error('the bucket is gone')
      return message
    },
    decode: (message) => message,
  }
  const retries = retryMiddleware({ attempts: 2, backoff: constantBackoff(0), logger: silentLogger })
  const { store, router, handled, written } = routerWith(codec, {}, retries)
  const order = trackedMessage('m1')
  await router.run(sourceOf(order))
  expect([order.verdicts, handled(), calls]).toEqual([['ack'], 2, 2])
  expect([await events(store).then(({ length }) => length), written()]).toEqual([1, ['attempt 2']])
})

it('ends the codecs with the processTimeout of the message, and stores nothing', async () => {
  const runtime = new VirtualRuntime()
  const begun = deferred<AbortSignal>()
  const codec: PayloadCodec = {
    encode(_message, { signal }) {
      begun.resolve(signal)
      return new Promise(() => {})
    },
    decode: (message) => message,
  }
  const { store, router, written } = routerWith(codec, { runtime, processTimeout: 1000 })
  const order = trackedMessage('m1')
  const running = router.run(sourceOf(order))
  const signal = await begun.promise
  await runtime.advance(1000)
  await running
  expect(order.calls).toMatchObject([{ verdict: 'nack', error: { code: 'ACKORD_PROCESS_TIMEOUT' } }])
  expect([signal.aborted, await events(store), written()]).toEqual([true, [], []])
})
