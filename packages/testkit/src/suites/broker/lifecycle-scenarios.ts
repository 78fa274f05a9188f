import assert from 'node:assert/strict'
import { BrokerSession, checkComplete, event, events, idsOf } from './broker-session.ts'
import type { BrokerClaims, BrokerScenario } from './broker-world.ts'

export function lifecycleScenarios({ settlesEach = false }: BrokerClaims): readonly BrokerScenario[] {
  return [
    {
      name: 'an iteration that waits ends without an error when its signal is aborted',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const reader = session.read()
        await session.send(event('e1'))
        await reader.ack(1)
        const waiting = reader.iterator.next()
        reader.abort()
        const { done } = await session.inTime(waiting, 'the end of an iteration')
        assert.equal(done, true)
        await reader.ended()
      },
    },
    {
      name: 'an iteration whose signal is already aborted takes no message',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(event('e1'))
        const reader = session.read()
        reader.abort()
        await reader.ended()
        assert.deepEqual(await session.left(['e1']), ['e1'])
      },
    },
    {
      name: 'leaving a loop releases messages that were fetched and not yielded',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(20))
        const reader = session.read()
        const [first] = await reader.ack(1)
        await reader.leave()
        await reader.ended()
        // The first source is not disposed.
        const others = idsOf(events(20)).filter((id) => id !== first?.id)
        checkComplete([first?.id, ...(await session.left(others))], idsOf(events(20)), { once: settlesEach })
      },
    },
    {
      name: 'yielded messages can be settled after the loop has ended',
      async run(open) {
        await using session = await BrokerSession.open(open)
        await session.send(...events(3))
        const reader = session.read()
        const messages = await reader.take(3)
        await reader.leave()
        for (const message of messages) assert.equal(await session.inTime(message.ack(), 'an ack'), true)
        await reader.dispose()
        assert.deepEqual(await session.left(), [])
      },
    },
    {
      name: 'a source may be disposed before it starts, while it waits, and twice',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const unused = session.read()
        await unused.dispose()
        await unused.ended()
        const reader = session.read()
        await session.send(event('e1'))
        await reader.ack(1)
        const waiting = reader.iterator.next()
        await Promise.all([reader.dispose(), reader.dispose()])
        assert.equal((await session.inTime(waiting, 'the end of an iteration')).done, true)
        await reader.dispose()
        await reader.ended()
      },
    },
    {
      name: 'a new source continues where the last one stopped',
      async run(open) {
        await using session = await BrokerSession.open(open)
        const seen: (string | undefined)[] = []
        await session.send(...events(30))
        for (const count of [10, 7]) {
          const reader = session.read()
          seen.push(...idsOf(await reader.ack(count)))
          await reader.dispose()
        }
        const others = idsOf(events(30)).filter((id) => !seen.includes(id))
        seen.push(...(await session.left(others)))
        return checkComplete(seen, idsOf(events(30)), { once: settlesEach })
      },
    },
  ]
}
