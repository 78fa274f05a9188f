import assert from 'node:assert/strict'
import { type Context, RejectError } from '@ackord/core'
import { deferred, sourceOf, trackedMessage } from '../../helpers/tracked-message.ts'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import { within } from '../../run/scenario.ts'
import { assertNoTrace, deliver, placed, routerOf, type TransactionScenario } from './transaction-world.ts'

export const rollbackScenarios: readonly TransactionScenario[] = [
  {
    name: 'a nack inside the handler rolls back',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(message, context) {
            await world.write(context, 'order', 'placed')
            assert.equal(await message.nack(new Error('out of stock')), true)
            return [placed(1)]
          },
        },
        order,
      )
      await assertNoTrace(world, order, 'nack')
    },
  },
  {
    name: 'a reject inside the handler rolls back and remains a reject',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(message, context) {
            await world.write(context, 'order', 'placed')
            assert.equal(await message.reject(new RejectError('never')), true)
            return [placed(1)]
          },
        },
        order,
      )
      await assertNoTrace(world, order, 'reject')
    },
  },
  {
    name: 'a handler that exceeds its time limit is rolled back, even if it then succeeds',
    async run(open) {
      await using world = await open()
      const runtime = new VirtualRuntime()
      const order = trackedMessage('m1')
      const waiting = deferred()
      const running = deliver(
        {
          use: [world.transactional('orders')],
          router: { runtime, processTimeout: 1000 },
          async handle(_, context) {
            await world.write(context, 'order', 'placed')
            waiting.resolve()
            await aborted(context.signal)
            return [placed(1)]
          },
        },
        order,
      )
      await waiting.promise
      await runtime.advance(1000)
      await running
      await assertNoTrace(world, order, 'nack')
    },
  },
  {
    name: 'a handler that is aborted by a forced stop is rolled back',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      const waiting = deferred()
      const router = routerOf({
        use: [world.transactional('orders')],
        router: { shutdownTimeout: 0 },
        async handle(_, context) {
          await world.write(context, 'order', 'placed')
          waiting.resolve()
          await aborted(context.signal)
          return [placed(1)]
        },
      })
      const running = router.run(sourceOf(order))
      await waiting.promise
      await router.stop()
      await running
      await assertNoTrace(world, order, 'nack')
    },
  },
  {
    name: 'after a failed write that the handler ignores, either everything is committed or nothing is',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      let second = 'refused'
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(_, context) {
            await world.write(context, 'first', 'written')
            await assert.rejects(world.failWrite(context))
            await world.write(context, 'second', 'written').then(
              () => {
                second = 'written'
              },
              () => {},
            )
          },
        },
        order,
      )
      const found = [await world.read('first'), await world.read('second')]
      if (order.verdicts[0] === 'ack') assert.deepEqual(found, ['written', second])
      else assert.deepEqual([...order.verdicts, ...found], ['nack', undefined, undefined])
    },
  },
  {
    name: 'rejects a write after the transaction has ended, whether it was committed or rolled back',
    async run(open) {
      await using world = await open()
      const contexts: Context[] = []
      await deliver(
        {
          use: [world.transaction()],
          async handle(message, context) {
            contexts.push(context)
            await world.write(context, 'order', 'placed')
            if (message.id === 'm2') throw new Error('rolled back')
          },
        },
        trackedMessage('m1'),
        trackedMessage('m2'),
      )
      assert.equal(contexts.length, 2)
      for (const context of contexts) {
        await assert.rejects(async () => await world.write(context, 'late', 'written'))
        assert.equal(await world.read('late'), undefined)
      }
    },
  },
  {
    name: 'a write that the handler does not await is part of the commit, or rejected',
    async run(open) {
      await using world = await open()
      const forgotten = deferred<string>()
      const atVerdict = deferred<string | undefined>()
      const order = trackedMessage('m1', { onVerdict: async () => atVerdict.resolve(await world.read('forgotten')) })
      await deliver(
        {
          use: [world.transaction()],
          async handle(_, context) {
            world.write(context, 'forgotten', 'written').then(
              () => forgotten.resolve('written'),
              () => forgotten.resolve('refused'),
            )
          },
        },
        order,
      )
      const fate = await within(5000, forgotten.promise, 'the write that was not awaited')
      const seen = await atVerdict.promise
      assert.equal(seen, fate === 'written' && order.verdicts[0] === 'ack' ? 'written' : undefined)
      assert.equal(await world.read('forgotten'), seen, 'it was written after the end of the transaction')
    },
  },
  {
    name: 'a write that the handler does not await is rolled back with the others',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      const forgotten = deferred()
      await deliver(
        {
          use: [world.transaction()],
          async handle(_, context) {
            world.write(context, 'forgotten', 'written').then(forgotten.resolve, () => forgotten.resolve())
            throw new Error('rolled back')
          },
        },
        order,
      )
      await within(5000, forgotten.promise, 'the write that was not awaited')
      assert.deepEqual(order.verdicts, ['nack'])
      assert.equal(await world.read('forgotten'), undefined)
    },
  },
]

export const commitByHandScenarios: readonly TransactionScenario[] = [
  {
    name: 'a handler that sends COMMIT itself and then fails leaves no trace, and its message is handled when it is redelivered',
    async run(open) {
      await using world = await open()
      const deliveries = [trackedMessage('m1'), trackedMessage('m1')] as const
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(_, context) {
            await world.write(context, 'order', 'placed')
            await world.commitByHand?.(context).catch(() => {})
            throw new Error('out of stock')
          },
        },
        deliveries[0],
      )
      await assertNoTrace(world, deliveries[0], 'nack')
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(_, context) {
            await world.write(context, 'order', 'placed')
            return [placed(1)]
          },
        },
        deliveries[1],
      )
      assert.deepEqual([deliveries[1].verdicts, await world.read('order'), (await world.events()).length], [['ack'], 'placed', 1])
    },
  },
]

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
