import assert from 'node:assert/strict'
import { type AckStrategy, deterministicIds, type Middleware } from '@ackord/core'
import { deferred, type TrackedMessage, trackedMessage } from '../../helpers/tracked-message.ts'
import { settlePromises } from '../../helpers/virtual-runtime.ts'
import { identityScenarios } from './identity-scenarios.ts'
import { committedCalls, counting, dataOf, deliver, placed, type TransactionScenario } from './transaction-world.ts'

/** Redelivers nacked messages, as a broker does, until all are acked. A nack is allowed: the store may report that another delivery is in progress. */
async function deliverUntilAcked(
  redeliver: (messages: readonly TrackedMessage[]) => Promise<void>,
  messages: readonly TrackedMessage[],
): Promise<number> {
  let open = messages
  let nacks = 0
  for (let round = 0; open.length > 0; round += 1) {
    assert.ok(round < 20, 'duplicates are nacked for ever')
    await redeliver(open)
    for (const { verdicts } of open) assert.equal(verdicts.length, 1)
    const nacked = open.filter(({ verdicts }) => verdicts[0] !== 'ack')
    nacks += nacked.length
    open = nacked.map(({ message }) => trackedMessage(message.id ?? ''))
  }
  return nacks
}

function ackedUnder(ackStrategy: AckStrategy): TransactionScenario {
  return {
    name: `a duplicate is acked under '${ackStrategy}'`,
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      const orders = [trackedMessage('m1'), trackedMessage('m1'), trackedMessage('m1')]
      await deliver(
        {
          use: [world.transactional('orders')],
          router: { ackStrategy },
          async handle(message, context) {
            if (ackStrategy === 'manual') await message.ack()
            return await handler.handle(message, context)
          },
        },
        ...orders,
      )
      assert.deepEqual(
        orders.map(({ verdicts }) => verdicts),
        [['ack'], ['ack'], ['ack']],
      )
      assert.equal(handler.calls(), 1)
    },
  }
}

/** How an inbox treats a duplicate while the first delivery is in progress: it waits, or it is handled too and only one of them takes effect. */
export type Duplicates = 'wait' | 'handled'

function stillHandled(duplicates: Duplicates): TransactionScenario {
  return {
    name: 'a duplicate of a message in progress is not acked before the first one has committed, and is handled if that one fails',
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      const use = [world.transactional('orders')]
      const begun = deferred()
      const fail = deferred()
      const first = trackedMessage('m1')
      const duplicate = trackedMessage('m1')
      const firstRun = deliver(
        {
          use,
          async handle() {
            begun.resolve()
            await fail.promise
            throw new Error('rolled back')
          },
        },
        first,
      )
      await begun.promise
      const secondRun = deliver({ use, handle: handler.handle }, duplicate)
      await settlePromises()
      const allowed = duplicates === 'handled' ? handler.calls() > 0 : false
      assert.ok(allowed || !duplicate.verdicts.includes('ack'), 'a duplicate was acked before the first delivery was done')
      fail.resolve()
      await Promise.all([firstRun, secondRun])
      assert.deepEqual(first.verdicts, ['nack'])
      if (duplicate.verdicts[0] !== 'ack') {
        await deliverUntilAcked((messages) => deliver({ use, handle: handler.handle }, ...messages), [trackedMessage('m1')])
      }
      assert.equal(await committedCalls(world, handler.calls()), 1)
    },
  }
}

/** The scenarios for an inbox that treats concurrent duplicates this way. With `handled` a duplicate may be acked before the first delivery is done. */
export function inboxScenariosFor(duplicates: Duplicates): readonly TransactionScenario[] {
  const own = stillHandled(duplicates)
  return inboxScenarios.map((scenario) => (scenario.name === own.name ? own : scenario))
}

export const inboxScenarios: readonly TransactionScenario[] = [
  ...identityScenarios,
  {
    name: 'a message is handled once, however often it is delivered',
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      for (let delivery = 0; delivery < 3; delivery += 1) {
        const order = trackedMessage('m1')
        await deliver({ use: [world.transactional('orders')], handle: handler.handle }, order)
        assert.deepEqual(order.verdicts, ['ack'])
      }
      assert.equal(handler.calls(), 1)
      assert.deepEqual(dataOf(await world.events()), [1])
    },
  },
  {
    name: 'one of 50 concurrent duplicates takes effect',
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      const use = [world.transactional('orders')]
      const nacks = await deliverUntilAcked(
        (messages) => deliver({ use, handle: handler.handle, router: { concurrency: 50 } }, ...messages),
        Array.from({ length: 50 }, () => trackedMessage('m1')),
      )
      assert.equal(await committedCalls(world, handler.calls()), 1)
      assert.equal((await world.events()).length, 1)
      return `${handler.calls()} handler calls, ${nacks} nacks`
    },
  },
  {
    name: 'a message whose handling was rolled back is handled when it is redelivered',
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      for (const mode of ['throw', 'nack', 'succeed'] as const) {
        const order = trackedMessage('m1')
        await deliver(
          {
            use: [world.transactional('orders')],
            async handle(message, context) {
              const outputs = await handler.handle(message, context)
              if (mode === 'throw') throw new Error('rolled back')
              if (mode === 'nack') await message.nack(new Error('rolled back'))
              return outputs
            },
          },
          order,
        )
        assert.deepEqual(order.verdicts, [mode === 'succeed' ? 'ack' : 'nack'])
      }
      assert.equal(handler.calls(), 3)
      assert.equal(await world.read('call 3'), 'done')
      assert.deepEqual(dataOf(await world.events()), [3])
    },
  },
  stillHandled('wait'),
  {
    name: 'another consumer handles the same message too',
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      for (const consumer of ['orders', 'invoices', 'orders']) {
        const order = trackedMessage('m1')
        await deliver({ use: [world.transactional(consumer)], handle: handler.handle }, order)
        assert.deepEqual(order.verdicts, ['ack'])
      }
      assert.equal(await committedCalls(world, handler.calls()), 2)
      assert.equal((await world.events()).length, 2)
    },
  },
  ackedUnder('onSuccess'),
  ackedUnder('manual'),
  ackedUnder('forward'),
  {
    name: 'event ids are derived from the message and are the same in each attempt',
    async run(open) {
      await using world = await open()
      const seen: (string | undefined)[][] = []
      const watching: Middleware = (next) => async (message, context) => {
        const outputs = await next(message, context)
        seen.push(outputs.map(({ id }) => id))
        if (seen.length === 1) throw new Error('the first attempt fails')
        return outputs
      }
      const handle = async () => [placed(1), placed(2), placed(3, 'order.priced')]
      await deliver({ use: [world.transactional('orders'), watching], handle }, trackedMessage('m1'))
      await deliver({ use: [world.transactional('orders'), watching], handle }, trackedMessage('m1'))
      const idFor = deterministicIds('orders', '/shop', 'm1')
      const expected = ['order.placed', 'order.placed', 'order.priced'].map((type) => idFor(type))
      assert.deepEqual(seen, [expected, expected])
      const events = await world.events()
      assert.deepEqual(
        events.map(({ id }) => id),
        expected,
      )
    },
  },
  {
    name: 'events are complete: type, source, time and correlation id',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1', { attributes: { correlationid: 'c-1' } })
      await deliver({ use: [world.transactional('orders')], handle: async () => [placed({ total: 5 })] }, order)
      const [event] = await world.events()
      assert.ok(event)
      assert.deepEqual(dataOf([event]), [{ total: 5 }])
      assert.deepEqual([event.type, event.source, event.specVersion, event.correlationId], ['order.placed', '/orders', '1.0', 'c-1'])
      assert.ok(event.time instanceof Date)
    },
  },
]
