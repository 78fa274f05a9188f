import assert from 'node:assert/strict'
import { publishAll, type RawMessage } from '@ackord/core'
import { BrokerSession, checkComplete, events, idsOf, type Reader } from './broker-session.ts'
import type { BrokerClaims, BrokerScenario } from './broker-world.ts'

export function deliveryScenarios({ settlesEach = false }: BrokerClaims): readonly BrokerScenario[] {
  return [
    {
      name: 'messages that are published before and after a source starts arrive once each',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(5, 'before'))
        const reader = session.read()
        const seen = idsOf(await reader.ack(3))
        await session.send(...events(5, 'after'))
        seen.push(...idsOf(await reader.ack(7)))
        await reader.dispose()
        seen.push(...(await session.left()))
        return checkComplete(seen, idsOf([...events(5, 'before'), ...events(5, 'after')]), { once: true })
      },
    },
    {
      name: 'the messages that one call publishes for one key reach a single consumer in order',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const messages = events(50, 'e', { partitionkey: 'one' })
        await session.send(...messages)
        assert.deepEqual(idsOf(await session.read().ack(50)), idsOf(messages))
      },
    },
    {
      name: 'many publishers and many consumers: every message arrives',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const { world, topic } = session
        const calls = Array.from({ length: 20 }, (_, call) => events(10, `call${call}-`))
        const publishers = Array.from({ length: 4 }, () => world.publisher())
        const readers = Array.from({ length: 4 }, () => session.read({ prefetch: 5 }))
        const consuming = consumeTogether(readers, new Set(idsOf(calls.flat())))
        const publishing = calls.map((messages, call) => publishAll(publishers[call % 4] ?? session.publisher, topic.destination, messages))
        const [seen] = await Promise.all([session.inTime(consuming, 'consuming everything'), ...publishing])
        return checkComplete(seen, idsOf(calls.flat()), { once: settlesEach })
      },
    },
    {
      name: 'messages of one topic are not delivered from another',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const topics = [session.topic, await session.world.topic(), await session.world.topic()]
        for (const [index, { destination }] of topics.entries()) {
          await session.inTime(publishAll(session.publisher, destination, events(3, `topic${index}-`)), 'publishing')
        }
        for (const [index, topic] of topics.entries()) {
          const reader = session.read({}, topic)
          const seen = idsOf(await reader.ack(3))
          const marker = session.marker()
          await session.inTime(publishAll(session.publisher, topic.destination, [marker]), 'publishing')
          seen.push(...(await reader.ackUntil(String(marker.id))))
          assert.deepEqual(seen.sort(), idsOf(events(3, `topic${index}-`)))
        }
      },
    },
  ]
}

/** Messages that one source holds do not block another source of its group. */
export const competingScenarios: readonly BrokerScenario[] = [
  {
    name: 'two sources of one group share the messages: no message reaches both, and each source gets some',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const [one, other] = [session.read({ prefetch: 1 }), session.read({ prefetch: 1 })]
      await session.send(...events(6))
      const held = [await one.next(), await other.next()]
      assert.notEqual(held[0]?.id, held[1]?.id, 'a message was delivered to two sources')
      await held[0]?.ack()
      const seen = [...idsOf(held), ...idsOf(await one.ack(4))]
      await held[1]?.ack()
      checkComplete(seen, idsOf(events(6)), { once: true })
    },
  },
]

/** Acks messages until every id was acked. Resolves to the ids in the order of their arrival. */
async function consumeTogether(readers: readonly Reader[], open: Set<string | undefined>): Promise<(string | undefined)[]> {
  const seen: (string | undefined)[] = []
  await Promise.all(
    readers.map(async ({ iterator }) => {
      for (let step = await iterator.next(); step.done !== true; step = await iterator.next()) {
        const message: RawMessage = step.value
        seen.push(message.id)
        await message.ack()
        open.delete(message.id)
        if (open.size === 0) for (const reader of readers) reader.abort()
      }
    }),
  )
  return seen
}
