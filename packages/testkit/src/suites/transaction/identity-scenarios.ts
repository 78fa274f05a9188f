import assert from 'node:assert/strict'
import type { Attributes } from '@ackord/core'
import { trackedMessage } from '../../helpers/tracked-message.ts'
import { committedCalls, counting, deliver, type TransactionScenario } from './transaction-world.ts'

function sameTwice(name: string, attributes: readonly [Attributes, Attributes]): TransactionScenario {
  return {
    name,
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      const orders = attributes.map((own) => trackedMessage('m1', { attributes: own }))
      await deliver({ use: [world.transactional('orders')], handle: handler.handle }, ...orders)
      assert.deepEqual(
        orders.map(({ verdicts }) => verdicts[0]),
        ['ack', 'ack'],
      )
      assert.equal(await committedCalls(world, handler.calls()), 2, 'a message was mistaken for a duplicate and lost')
      assert.equal((await world.events()).length, 2)
    },
  }
}

/** The identity of a message: consumer, source and id, compared byte by byte. */
export const identityScenarios: readonly TransactionScenario[] = [
  sameTwice('the same id from another source is a different message', [{ source: '/shop' }, { source: '/branch' }]),
  sameTwice('ids that differ in case are different', [{ id: 'order-a' }, { id: 'ORDER-A' }]),
  sameTwice('ids that differ in a trailing space are different', [{ id: 'order' }, { id: 'order ' }]),
  sameTwice('ids that look the same but differ in their bytes are different', [{ id: 'caf\u00e9' }, { id: 'cafe\u0301' }]),
  sameTwice('source and id are distinguished, wherever one ends and the other begins', [
    { source: '/shop:1', id: '2' },
    { source: '/shop', id: '1:2' },
  ]),
  {
    name: 'rejects a message without an id, without calling the handler',
    async run(open) {
      await using world = await open()
      const handler = counting(world)
      const orders = [trackedMessage('m1', { attributes: { id: undefined } }), trackedMessage('')]
      await deliver({ use: [world.transactional('orders')], handle: handler.handle }, ...orders)
      assert.deepEqual(
        orders.map(({ verdicts }) => verdicts),
        [['reject'], ['reject']],
      )
      assert.equal(handler.calls(), 0)
    },
  },
  {
    name: 'a message with an unusual id is handled once or rejected: never lost, never handled twice',
    async run(open) {
      await using world = await open()
      const long = 'x'.repeat(10_000)
      const ids = [`${long}1`, `${long}2`, 'nul \0 1', 'nul \0 2', '\ud800', '\udc00', `it's "odd" \\ % _ $1`, '訂單 🚚', ' ', '\n']
      const odd: string[] = []
      for (const id of ids) {
        const handler = counting(world, `${ids.indexOf(id)}: call`)
        const orders = [trackedMessage(id), trackedMessage(id)]
        await deliver({ use: [world.transactional('orders')], handle: handler.handle }, ...orders)
        const verdicts = orders.flatMap((order) => order.verdicts)
        const effects = await committedCalls(world, handler.calls(), `${ids.indexOf(id)}: call`)
        const expected = verdicts[0] === 'reject' ? ['reject', 'reject', 0] : ['ack', 'ack', 1]
        assert.deepEqual([...verdicts, effects], expected, `the id at ${ids.indexOf(id)}`)
        if (verdicts[0] === 'reject') odd.push(id)
      }
      return `${odd.length} of ${ids.length} refused`
    },
  },
]
