import assert from 'node:assert/strict'
import { type AckCallbacks, Message, type PublishResult, type RawMessage } from '@ackord/core'
import { BrokerSession, checkComplete, event, events, idsOf } from './broker-session.ts'
import type { BrokerClaims, BrokerScenario } from './broker-world.ts'

export function publishScenarios({ settlesEach = false }: BrokerClaims): readonly BrokerScenario[] {
  return [
    {
      name: 'returns one result per message, in order, and only messages whose data are not bytes fail permanently',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const wrong = new Message({ not: 'bytes' }, event('wrong').attributes) as unknown as RawMessage
        const results = await publish(session, [event('e1'), wrong, event('e2'), wrong])
        assert.deepEqual(results.map(describe), ['ok', 'permanent', 'ok', 'permanent'])
        assert.deepEqual((await session.left(['e1', 'e2'])).sort(), ['e1', 'e2'])
      },
    },
    {
      name: 'a publish without messages has no results',
      async run(open) {
        await using session = await BrokerSession.open(open)
        assert.deepEqual(await publish(session, []), [])
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'every confirmed message of concurrent calls is stored',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const calls = Array.from({ length: 20 }, (_, call) => events(10, `call${call}-`))
        for (const results of await Promise.all(calls.map((messages) => publish(session, messages)))) {
          assert.deepEqual(results, Array(10).fill({ ok: true }))
        }
        return checkComplete(await session.left(idsOf(calls.flat())), idsOf(calls.flat()), { once: settlesEach })
      },
    },
    {
      name: 'publishing settles no message',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const verdicts: string[] = []
        const acking: AckCallbacks = {
          ack: () => void verdicts.push('ack'),
          nack: () => void verdicts.push('nack'),
          reject: () => void verdicts.push('reject'),
        }
        const { data, attributes } = event('e1')
        const message = new Message(data, attributes, { acking })
        assert.deepEqual(await publish(session, [message]), [{ ok: true }])
        await session.read().ack(1)
        assert.equal(message.state, 'pending')
        assert.deepEqual(verdicts, [])
      },
    },
    {
      name: 'a publish whose signal is already aborted rejects with the reason and sends nothing',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const reason = new Error('given up')
        await assert.rejects(publish(session, events(3), AbortSignal.abort(reason)), (error) => error === reason)
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'a publish that is aborted while it runs ends, reports no permanent failure, and confirms only stored messages',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const giveUp = new AbortController()
        const reason = new Error('given up')
        const publishing = publish(session, events(50), giveUp.signal)
        giveUp.abort(reason)
        const results = await publishing.catch((error: unknown) => {
          assert.equal(error, reason)
          return []
        })
        assert.ok(results.length === 50 || results.length === 0, 'one result per message')
        assert.ok(
          results.every((result) => result.ok || result.permanent !== true),
          'an aborted publish must not be a permanent failure',
        )
        const confirmed = idsOf(events(50).filter((_, index) => results[index]?.ok === true))
        const arrived = await session.left(confirmed)
        return `${confirmed.length} of 50 confirmed, ${arrived.length} there`
      },
    },
    {
      name: 'dispose waits for publishes that run, and later publishes are rejected',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const publisher = session.world.publisher()
        const signal = new AbortController().signal
        let ended = false
        const publishing = publisher.publish(session.topic.destination, events(20), { signal }).finally(() => {
          ended = true
        })
        publishing.catch(() => {}) // awaited below, unless the scenario has failed by then
        await session.inTime(Promise.all([publisher[Symbol.asyncDispose](), publisher[Symbol.asyncDispose]()]), 'disposing a publisher')
        assert.ok(ended, 'a publish was still running')
        const results = await publishing
        assert.deepEqual(results, Array(20).fill({ ok: true }))
        await assert.rejects(publisher.publish(session.topic.destination, [event('late')], { signal }), { code: 'ACKORD_SHUTDOWN' })
        await publisher[Symbol.asyncDispose]()
        checkComplete(await session.left(idsOf(events(20))), idsOf(events(20)), { once: settlesEach })
      },
    },
  ]
}

export const declaredScenarios: readonly BrokerScenario[] = [
  {
    name: 'a missing destination is reported as a failure of the destination, not of the messages',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const missing = session.world.missing?.()
      assert.ok(missing !== undefined, "a world that claims 'declared' has missing()")
      const results = await publish(session, events(3), undefined, missing)
      assert.deepEqual(results.map(describe), ['destination', 'destination', 'destination'])
      assert.deepEqual(await publish(session, [event('e1')]), [{ ok: true }], 'other destinations must not suffer')
    },
  },
]

export const sizeScenarios: readonly BrokerScenario[] = [
  {
    name: 'a message that is too large fails permanently, and the other messages of the call arrive',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const { tooLarge } = session.world
      assert.ok(tooLarge !== undefined, "a world that claims 'sizeLimit' has tooLarge")
      const results = await publish(session, [event('e1'), event('large', {}, new Uint8Array(tooLarge)), event('e2')])
      assert.deepEqual(results.map(describe), ['ok', 'permanent', 'ok'])
      assert.deepEqual((await session.left(['e1', 'e2'])).sort(), ['e1', 'e2'])
    },
  },
]

export const repeatScenarios: readonly BrokerScenario[] = [
  {
    name: 'drops a message that is published again, but not one of another source with the same id',
    async run(open) {
      await using session = await BrokerSession.open(open)
      await session.send(event('e1'), event('e1', { source: '/other' }))
      await session.send(event('e1'), event('e2'))
      assert.deepEqual((await session.left(['e1', 'e2'])).sort(), ['e1', 'e1', 'e2'])
    },
  },
]

async function publish(
  session: BrokerSession,
  messages: readonly RawMessage[],
  signal: AbortSignal = new AbortController().signal,
  destination: string = session.topic.destination,
): Promise<readonly PublishResult[]> {
  return await session.inTime(session.publisher.publish(destination, messages, { signal }), 'publishing')
}

function describe(result: PublishResult): string {
  if (result.ok) return 'ok'
  if (result.scope === 'destination') return 'destination'
  return result.permanent === true ? 'permanent' : 'failed'
}
