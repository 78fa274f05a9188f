import assert from 'node:assert/strict'
import { trackedMessage } from '../tracked-message.ts'
import { deliver } from './delivery.ts'
import type { TransactionFeatures, TransactionScenario } from './transaction-world.ts'

/** First of all the fixture itself: a world that cannot do what it says proves nothing. */
export function fixtureScenario(features: TransactionFeatures): TransactionScenario {
  return {
    name: 'the fixture is what it says it is',
    async run(open) {
      await using world = await open()
      await using other = await open()
      assert.equal(world.failCommit !== undefined, features.failCommit, 'a world must have failCommit() as the feature says')
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
