import assert from 'node:assert/strict'
import { constantBackoff, currentContext, type Message, silentLogger } from '@ackord/core'
import { retryMiddleware } from '@ackord/core/middleware'
import { trackedMessage } from '../../helpers/tracked-message.ts'
import { assertNoTrace, dataOf, deliver, placed, type TransactionScenario } from './transaction-world.ts'

export const commitScenarios: readonly TransactionScenario[] = [
  {
    name: 'the writes and the outputs of a handler are committed, and the message is acked',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(_, context) {
            await world.write(context, 'order', 'placed')
            return [placed(1), placed(2)]
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['ack'])
      assert.equal(await world.read('order'), 'placed')
      assert.deepEqual(dataOf(await world.events()), [1, 2])
    },
  },
  {
    name: 'a handler that fails leaves no trace: no write, no event',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(_, context) {
            await world.write(context, 'order', 'placed')
            throw new Error('out of stock')
          },
        },
        order,
      )
      await assertNoTrace(world, order, 'nack')
    },
  },
  {
    name: 'each attempt of a retry has its own transaction',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      let attempt = 0
      await deliver(
        {
          use: [retryMiddleware({ attempts: 3, backoff: constantBackoff(0), logger: silentLogger }), world.transactional('orders')],
          async handle(_, context) {
            attempt += 1
            await world.write(context, `attempt ${attempt}`, 'done')
            if (attempt < 3) throw new Error('not yet')
            return [placed(attempt)]
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['ack'])
      const kept = [await world.read('attempt 1'), await world.read('attempt 2'), await world.read('attempt 3')]
      assert.deepEqual(kept, [undefined, undefined, 'done'])
      assert.deepEqual(dataOf(await world.events()), [3])
    },
  },
  {
    name: 'everything is committed when the broker gets the ack',
    async run(open) {
      await using world = await open()
      const seen: unknown[] = []
      const order = trackedMessage('m1', {
        async onVerdict() {
          seen.push(await world.read('order'), (await world.events()).length)
        },
      })
      await deliver(
        {
          use: [world.transactional('orders')],
          async handle(_, context) {
            await world.write(context, 'order', 'placed')
            return [placed(1)]
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['ack'])
      assert.deepEqual(seen, ['placed', 1])
    },
  },
  {
    name: 'an ack inside the handler waits for the commit',
    async run(open) {
      await using world = await open()
      const seen: unknown[] = []
      const order = trackedMessage('m1', { onVerdict: async () => void seen.push(await world.read('order')) })
      await deliver(
        {
          use: [world.transaction()],
          router: { ackStrategy: 'manual' },
          async handle(message, context) {
            assert.equal(await message.ack(), true)
            await world.write(context, 'order', 'placed')
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['ack'])
      assert.deepEqual(seen, ['placed'])
    },
  },
  {
    name: 'an ack inside a handler that fails is discarded',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      await deliver(
        {
          use: [world.transaction()],
          router: { ackStrategy: 'manual' },
          async handle(message, context) {
            await world.write(context, 'order', 'placed')
            await message.ack()
            throw new Error('too early')
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['nack'])
      assert.equal(await world.read('order'), undefined)
    },
  },
  {
    name: 'code that uses the ambient context is inside the transaction too',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      await deliver(
        {
          use: [world.transaction()],
          async handle(_, context) {
            await world.write(currentContext() ?? context, 'order', 'placed')
            throw new Error('rolled back')
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['nack'])
      assert.equal(await world.read('order'), undefined)
    },
  },
  {
    name: 'messages that are handled concurrently have separate transactions',
    async run(open) {
      await using world = await open()
      const orders = Array.from({ length: 20 }, (_, index) => trackedMessage(`m${index}`, { data: index }))
      await deliver(
        {
          use: [world.transactional('orders')],
          router: { concurrency: 4 },
          async handle({ data }, context) {
            await world.write(context, `order ${data}`, 'placed')
            if (Number(data) % 2 === 1) throw new Error('an odd order')
            return [placed(data)]
          },
        },
        ...orders,
      )
      for (const [index, order] of orders.entries()) {
        const [verdict, value] = index % 2 === 1 ? ['nack', undefined] : ['ack', 'placed']
        assert.deepEqual(order.verdicts, [verdict])
        assert.equal(await world.read(`order ${index}`), value)
      }
      const data = dataOf(await world.events())
      assert.deepEqual(
        data.toSorted((a, b) => Number(a) - Number(b)),
        Array.from({ length: 10 }, (_, index) => 2 * index),
      )
    },
  },
]

export const failCommitScenarios: readonly TransactionScenario[] = [
  {
    name: 'a failed commit nacks the message and stores nothing',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      let fails = true
      const options = {
        use: [world.transactional('orders')],
        async handle(_: Message, context: Parameters<typeof world.write>[0]) {
          await world.write(context, 'order', 'placed')
          if (fails) await world.failCommit?.(context)
          return [placed(1)]
        },
      }
      await deliver(options, order)
      await assertNoTrace(world, order, 'nack')

      fails = false
      const again = trackedMessage('m1')
      await deliver(options, again)
      assert.deepEqual(again.verdicts, ['ack'])
      assert.equal(await world.read('order'), 'placed')
      assert.deepEqual(dataOf(await world.events()), [1])
    },
  },
]
