import assert from 'node:assert/strict'
import { BrokerSession, events, idsOf } from './broker-session.ts'
import type { BrokerScenario } from './broker-world.ts'

export const groupScenarios: readonly BrokerScenario[] = [
  {
    name: 'each group gets every message and settles it independently',
    async run(open) {
      await using session = await BrokerSession.open(open)
      // If groups start with new messages only, both must have started.
      const [billing, shipping] = [session.read({ group: 'billing' }), session.read({ group: 'shipping' })]
      await session.send(...events(5))
      assert.deepEqual(idsOf(await billing.ack(5)).sort(), idsOf(events(5)))
      const held = await shipping.take(5)
      assert.deepEqual(idsOf(held).sort(), idsOf(events(5)))
      await shipping.dispose()
      await billing.dispose()
      assert.deepEqual(await session.left([], { group: 'billing' }), [])
      await session.left(idsOf(held), { group: 'shipping' })
    },
  },
]

export const replayScenarios: readonly BrokerScenario[] = [
  {
    name: 'a group that starts later gets messages that other groups have settled before',
    async run(open) {
      await using session = await BrokerSession.open(open)
      await session.send(...events(5))
      const reader = session.read({ group: 'billing' })
      await reader.ack(5)
      await reader.dispose()
      assert.deepEqual(idsOf(await session.read({ group: 'reporting' }).ack(5)).sort(), idsOf(events(5)))
    },
  },
]
