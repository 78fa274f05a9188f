import assert from 'node:assert/strict'
import { type Publisher, type SharedPorts, silentLogger } from '@ackord/core'
import { assertRefused, BrokerSession, checkComplete, event, events, idsOf } from './broker-session.ts'
import type { BrokerClaims, BrokerScenario } from './broker-world.ts'

// Longer than any scenario.
const tenMinutes = 600_000

const utf8 = new TextDecoder()

/** A dead letter with a smaller header limit than the broker of the message. */
function withoutLargeAttributes(publisher: Publisher): Publisher {
  return {
    async publish(destination, letters, options) {
      const [letter] = letters
      const isLarge = Object.values(letter?.attributes ?? {}).some((value) => String(value).length > 1000)
      if (isLarge) return [{ ok: false, error: new Error('an attribute is too large'), permanent: true }]
      return await publisher.publish(destination, letters, options)
    },
  }
}

export function ackScenarios({ settlesEach = false, origin = false }: BrokerClaims): readonly BrokerScenario[] {
  return [
    {
      name: 'an acked message is not redelivered',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(10))
        const reader = session.read()
        for (const message of await reader.ack(10)) assert.equal(message.state, 'acked')
        await reader.dispose()
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'a nacked message is redelivered unchanged',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const sent = event('e1', { note: 'the same' })
        await session.send(sent)
        const reader = session.read()
        for (const retryAfter of [undefined, 0, 20]) {
          const message = await reader.next()
          assert.deepEqual({ ...message.attributes }, sent.attributes)
          assert.deepEqual(Buffer.from(message.data), Buffer.from(sent.data))
          assert.equal(await message.nack(new Error('not now'), { retryAfter }), true)
        }
        assert.equal(await (await reader.next()).ack(), true)
        await reader.dispose()
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'acking one message does not ack its neighbours',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(5))
        const reader = session.read()
        const messages = await reader.take(5)
        await messages[2]?.ack()
        await reader.dispose()
        const unacked = idsOf(messages.filter((_, index) => index !== 2))
        const left = await session.left(unacked)
        if (settlesEach) checkComplete(left, unacked, { once: true })
      },
    },
    {
      name: 'the first verdict counts, and a second one changes nothing',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(2))
        const reader = session.read()
        const [acked, nacked] = await reader.take(2)
        assert.deepEqual(
          [await acked?.ack(), await acked?.ack(), await acked?.nack(), await acked?.reject(new Error('no'))],
          [true, true, false, false],
        )
        assert.deepEqual([await nacked?.nack(), await nacked?.ack(), await nacked?.nack()], [true, false, true])
        const again = await reader.next()
        assert.equal(again.id, nacked?.id)
        await again.ack()
        await reader.dispose()
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'unsettled messages are redelivered when their source is disposed, and a late verdict is rejected',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(3))
        const reader = session.read()
        const [one, two, three] = await reader.take(3)
        await reader.dispose()
        for (const verdict of [one?.ack(), two?.nack(), three?.reject(new Error('no'))])
          await assertRefused(verdict ?? Promise.resolve(false))
        checkComplete(await session.left(idsOf(events(3))), idsOf(events(3)), { once: true })
      },
    },
    {
      name: 'a rejected message is in the dead letter, unchanged and with the reason, and is not redelivered',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const dead = await session.world.topic()
        const deadLetter = { publisher: session.publisher, destination: dead.destination }
        const sent = event('e1', { note: 'the same' })
        await session.send(sent, event('e2'))
        const reader = session.read({ deadLetter })
        for (const message of await reader.take(2)) {
          if (message.id === 'e1') assert.equal(await message.reject(new Error('it makes no sense')), true)
          else await message.ack()
        }
        const letter = await session.read({}, dead).next()
        assert.deepEqual(Buffer.from(letter.data), Buffer.from(sent.data))
        for (const name in sent.attributes) assert.deepEqual(letter.attributes[name], sent.attributes[name])
        assert.equal(letter.attributes['deadletterreason'], 'it makes no sense')
        if (origin) assert.equal(letter.attributes['deadletterdestination'], session.topic.destination)
        await letter.ack()
        await reader.dispose()
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'a rejected message whose attributes the dead letter refuses permanently is sent complete in an envelope, and is not redelivered',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const dead = await session.world.topic()
        const deadLetter = { publisher: withoutLargeAttributes(session.publisher), destination: dead.destination }
        const sent = event('e1', { note: 'n'.repeat(2000) }, Uint8Array.of(0, 255, 13, 10, 128))
        await session.send(sent)
        const reader = session.read({ deadLetter })
        assert.equal(await (await reader.next()).reject(new Error('it makes no sense')), true)
        const letter = await session.read({}, dead).next()
        await letter.ack()
        assert.equal(letter.id, 'e1')
        assert.equal(letter.attributes['deadletterform'], 'envelope')
        const { reason, attributes, data_base64 } = JSON.parse(utf8.decode(letter.data))
        assert.equal(reason, 'it makes no sense')
        assert.deepEqual(Buffer.from(data_base64, 'base64'), Buffer.from(sent.data))
        const came = new Map(attributes.map(({ name, value }: { name: string; value: unknown }) => [name, value]))
        for (const name in sent.attributes) assert.deepEqual(came.get(name), sent.attributes[name])
        await reader.dispose()
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'a source that can inherit a logger passes it on to the publisher of its dead letter',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const inherited: SharedPorts[] = []
        const publisher: Publisher = { publish: async () => [], inheritPorts: (ports) => void inherited.push(ports) }
        const { source } = session.read({ deadLetter: { publisher, destination: 'dead' } })
        if (source.inheritPorts === undefined) return
        source.inheritPorts({ logger: silentLogger })
        // It is another one if the source was given its own.
        assert.ok(
          inherited.some(({ logger }) => logger !== undefined),
          'the publisher of the dead letter has no logger',
        )
      },
    },
    {
      name: 'a rejected message is redelivered if the dead letter does not confirm it',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const publisher = { publish: async () => [{ ok: false, error: new Error('the dead letter is down') } as const] }
        await session.send(event('e1'))
        const reader = session.read({ deadLetter: { publisher, destination: 'dead' } })
        const message = await reader.next()
        await assert.rejects(message.reject(new Error('it makes no sense')), { code: 'ACKORD_PUBLISH_FAILED' })
        const again = await reader.next()
        assert.equal(again.id, 'e1')
        await again.ack()
      },
    },
  ]
}

export const deliveryCountScenarios: readonly BrokerScenario[] = [
  {
    name: 'the delivery count is one at first and grows with every nack',
    async run(open) {
      await using session = await BrokerSession.open(open)
      await session.send(event('e1'))
      const reader = session.read()
      for (const count of [1, 2, 3]) {
        const message = await reader.next()
        assert.equal(message.deliveryCount, count)
        await message.nack()
      }
      await (await reader.next()).ack()
      await session.send(event('e2'))
      const fresh = await reader.next()
      assert.equal(fresh.deliveryCount, 1, 'each message has its own count')
    },
  },
]

export const delayScenarios: readonly BrokerScenario[] = [
  {
    name: 'a nack with a delay delays the redelivery of that message and of no other',
    async run(open) {
      await using session = await BrokerSession.open(open)
      await session.send(event('later'), event('soon'))
      const reader = session.read()
      for (const message of await reader.take(2)) await message.nack(undefined, { retryAfter: message.id === 'later' ? tenMinutes : 20 })
      const seen = [await reader.next()]
      await seen[0]?.ack()
      await session.send(...events(5))
      seen.push(...(await reader.ack(5)))
      assert.deepEqual(idsOf(seen).sort(), ['e1', 'e2', 'e3', 'e4', 'e5', 'soon'])
    },
  },
]
