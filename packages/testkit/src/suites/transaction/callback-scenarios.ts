import assert from 'node:assert/strict'
import { afterCommit, afterRollback, type Context, type Middleware } from '@ackord/core'
import { transactionScopeKey } from '@ackord/core/internal'
import { trackedMessage } from '../../helpers/tracked-message.ts'
import { eventLoopTurn } from '../../helpers/virtual-runtime.ts'
import { deliver, type TransactionScenario, type TransactionWorld } from './transaction-world.ts'

export const callbackScenarios: readonly TransactionScenario[] = [
  {
    name: 'afterCommit runs after the commit, outside of the transaction, and before the ack',
    async run(open) {
      await using world = await open()
      const steps: unknown[] = []
      const order = trackedMessage('m1', { onVerdict: (verdict) => void steps.push(verdict) })
      await deliver(
        {
          use: [world.transaction()],
          router: { ackStrategy: 'manual' },
          async handle(message, context) {
            for (const name of ['first', 'second']) {
              afterCommit(context, async (outside) => {
                const inside = outside.get(transactionScopeKey) !== undefined
                steps.push(name, await world.read('order'), inside)
              })
            }
            afterRollback(context, () => void steps.push('rolled back'))
            await message.ack()
            await world.write(context, 'order', 'placed')
            steps.push('handled')
          },
        },
        order,
      )
      assert.deepEqual(steps, ['handled', 'first', 'placed', false, 'second', 'placed', false, 'ack'])
    },
  },
  {
    name: 'afterRollback runs after a rollback, and afterCommit does not',
    async run(open) {
      await using world = await open()
      const steps: unknown[] = []
      const order = trackedMessage('m1', { onVerdict: (verdict) => void steps.push(verdict) })
      await deliver(
        {
          use: [world.transaction()],
          async handle(_, context) {
            afterCommit(context, () => void steps.push('committed'))
            afterRollback(context, () => void steps.push('rolled back'))
            await world.write(context, 'order', 'placed')
            throw new Error('rolled back')
          },
        },
        order,
      )
      assert.deepEqual(steps, ['rolled back', 'nack'])
    },
  },
]

export const savepointScenarios: readonly TransactionScenario[] = [
  {
    name: 'a nested transaction that fails is rolled back alone',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      const steps: string[] = []
      await deliver(
        {
          use: [world.transaction(), forgiving(world, steps), world.transaction()],
          async handle(_, context) {
            afterCommit(context, () => void steps.push('inner committed'))
            await world.write(context, 'inner', 'written')
            throw new Error('the inner transaction failed')
          },
        },
        order,
      )
      assert.deepEqual(order.verdicts, ['ack'])
      assert.deepEqual(
        [await world.read('before'), await world.read('inner'), await world.read('after')],
        ['written', undefined, 'written'],
      )
      assert.deepEqual(steps, ['outer committed'])
    },
  },
  {
    name: 'a nested transaction commits with the outer one, and not before',
    async run(open) {
      await using world = await open()
      const steps: string[] = []
      const handle = async (message: { readonly id: string | undefined }, context: Context) => {
        afterCommit(context, () => void steps.push(`inner committed: ${message.id}`))
        await world.write(context, `inner ${message.id}`, 'written')
      }
      const failing: Middleware = (next) => async (message, context) => {
        const outputs = await next(message, context)
        if (message.id === 'm1') throw new Error('the outer transaction failed')
        return outputs
      }
      const orders = [trackedMessage('m1'), trackedMessage('m2')] as const
      await deliver({ use: [world.transaction(), failing, world.transaction()], handle }, ...orders)
      assert.deepEqual([...orders[0].verdicts, ...orders[1].verdicts], ['nack', 'ack'])
      assert.deepEqual([await world.read('inner m1'), await world.read('inner m2')], [undefined, 'written'])
      assert.deepEqual(steps, ['inner committed: m2'])
    },
  },
  {
    name: 'concurrent nested transactions are committed or rolled back independently',
    async run(open) {
      await using world = await open()
      const order = trackedMessage('m1')
      const outcomes: string[] = []
      await deliver(
        {
          use: [world.transaction()],
          async handle(message, context) {
            const inside = (key: string, fails: boolean) =>
              world.transaction()(async (_, inner) => {
                await world.write(inner, key, 'written')
                // The others run meanwhile, if the store allows it.
                for (let turn = 0; turn < 3; turn += 1) await eventLoopTurn()
                if (fails) throw new Error(`${key} failed`)
                await world.write(inner, `${key} too`, 'written')
                return []
              })(message, context)
            const results = await Promise.allSettled([inside('one', false), inside('two', true), inside('three', false)])
            outcomes.push(...results.map(({ status }) => status))
          },
        },
        order,
      )
      assert.deepEqual([order.verdicts, outcomes], [['ack'], ['fulfilled', 'rejected', 'fulfilled']])
      const keys = ['one', 'one too', 'two', 'three', 'three too']
      const found = await Promise.all(keys.map((key) => world.read(key)))
      assert.deepEqual(found, ['written', 'written', undefined, 'written', 'written'])
    },
  },
]

/** Writes before and after the inner middleware, and ignores its failures. */
function forgiving(world: TransactionWorld, steps: string[]): Middleware {
  return (next) =>
    async function forgive(message, context) {
      afterCommit(context, () => void steps.push('outer committed'))
      await world.write(context, 'before', 'written')
      await next(message, context).catch(() => {})
      await world.write(context, 'after', 'written')
      return []
    }
}
