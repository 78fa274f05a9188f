import assert from 'node:assert/strict'
import type { RawMessage } from '@ackord/core'
import { eventLoopTurn } from '../../helpers/virtual-runtime.ts'
import { assertRefused, BrokerSession, event, events, idsOf } from './broker-session.ts'
import type { BrokerClaims, BrokerScenario } from './broker-world.ts'

const keys = ['a', 'b', 'c', 'd', 'e']

/** For brokers that claim order per key. */
export function orderScenarios(claims: BrokerClaims): readonly BrokerScenario[] {
  return [inOrderWhoeverTakesThem(claims), ...scenarios]
}

function inOrderWhoeverTakesThem({ settlesEach = false }: BrokerClaims): BrokerScenario {
  return {
    name: 'the messages of a key are delivered one at a time in the order of their publishes, whichever source takes them',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const sent = Array.from({ length: 20 }, (_, index) => keys.map((key) => event(`${key}${index}`, { partitionkey: key }))).flat()
      await session.send(...sent)
      const readers = [session.read(), session.read()]
      const seen: RawMessage[] = []
      const missing = new Set(idsOf(sent))
      const unsettled = new Map<unknown, { overlapped: boolean }>()
      const together = new Set<unknown>()
      const handle = async (message: RawMessage) => {
        const key = message.partitionKey
        const earlier = unsettled.get(key)
        if (earlier !== undefined) earlier.overlapped = true
        const turn = { overlapped: false }
        unsettled.set(key, turn)
        seen.push(message)
        await eventLoopTurn()
        if (unsettled.get(key) === turn) unsettled.delete(key)
        // A rejected ack means that the message was delivered to another source while it was unsettled.
        const acked = settlesEach ? await message.ack() : await ackUnlessLost(message)
        if (acked && turn.overlapped) together.add(key)
        if (acked) missing.delete(message.id)
        if (missing.size === 0) for (const reader of readers) reader.abort()
      }
      const consuming = readers.map(async ({ iterator }) => {
        const handling: Promise<void>[] = []
        for (let step = await iterator.next(); step.done !== true; step = await iterator.next()) handling.push(handle(step.value))
        await Promise.all(handling)
      })
      await session.inTime(Promise.all(consuming), 'consuming everything')
      assert.deepEqual([...together], [], 'two messages of these keys were unsettled at the same time')
      const duplicates = keys.map((key) => checkOrder(idsOfKey(seen, key), idsOfKey(sent, key), { once: settlesEach }))
      return `${duplicates.reduce((sum, each) => sum + each)} duplicates`
    },
  }
}

const scenarios: readonly BrokerScenario[] = [
  {
    name: 'a nacked message is redelivered before the later messages of its key, and other keys continue meanwhile',
    async run(open) {
      await using session = await BrokerSession.open(open)
      await session.send(...events(3, 'a', { partitionkey: 'a' }), ...events(3, 'b', { partitionkey: 'b' }))
      const reader = session.read()
      const seen: RawMessage[] = []
      let nacks = 0
      while (seen.length < 6 + 2) {
        const message = await reader.next()
        seen.push(message)
        if (message.id === 'a1' && nacks < 2) {
          nacks += 1
          await message.nack(undefined, { retryAfter: 20 })
        } else await message.ack()
      }
      assert.deepEqual(idsOfKey(seen, 'a'), ['a1', 'a1', 'a1', 'a2', 'a3'])
      assert.deepEqual(idsOfKey(seen, 'b'), ['b1', 'b2', 'b3'])
    },
  },
  {
    name: 'a key whose first message always fails does not stop the other keys',
    async run(open) {
      await using session = await BrokerSession.open(open)
      await session.send(...events(5, 'poison', { partitionkey: 'poison' }), ...events(20, 'b', { partitionkey: 'b' }), ...events(20))
      const reader = session.read()
      const seen: RawMessage[] = []
      const handleOthers = async () => {
        while (seen.length < 40) {
          const message = await reader.next()
          if (message.partitionKey === 'poison') {
            assert.equal(message.id, 'poison1', 'no message may overtake the first one of its key')
            await message.nack(undefined, { retryAfter: 20 })
          } else {
            seen.push(message)
            await message.ack()
          }
        }
      }
      await session.inTime(handleOthers(), 'handling the other keys')
      assert.deepEqual(idsOfKey(seen, 'b'), idsOf(events(20, 'b')))
    },
  },
  {
    name: 'the order of a key is kept when one source is disposed and another continues',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const sent = events(12, 'a', { partitionkey: 'a' })
      await session.send(...sent)
      const seen: RawMessage[] = []
      for (let round = 0; round < 3; round += 1) {
        const reader = session.read()
        seen.push(...(await reader.ack(3)))
        const unsettled = await reader.next()
        assert.equal(unsettled.id, sent[seen.length]?.id)
        await reader.dispose()
      }
      seen.push(...(await session.read().ack(3)))
      assert.deepEqual(idsOf(seen), idsOf(sent))
    },
  },
]

function idsOfKey(messages: readonly RawMessage[], key: string): (string | undefined)[] {
  return idsOf(messages.filter(({ partitionKey }) => partitionKey === key))
}

/** Whether the verdict took effect. A rejected verdict must say why. */
async function ackUnlessLost(message: RawMessage): Promise<boolean> {
  const acking = message.ack()
  const counted = await acking.catch(() => false)
  if (!counted) await assertRefused(acking)
  return counted
}

/**
 * Asserts that each message arrives after its predecessor. If one offset covers many messages, reading may restart at an earlier message, and continues from there without a gap.
 * Returns the number of redelivered messages.
 */
function checkOrder(
  seen: readonly (string | undefined)[],
  sent: readonly (string | undefined)[],
  options: { readonly once: boolean },
): number {
  if (options.once) assert.deepEqual(seen, sent)
  let last = -1
  for (const id of seen) {
    const position = sent.indexOf(id)
    assert.ok(position >= 0 && position <= last + 1, `${id} came after ${sent[last] ?? 'nothing'}: ${seen.join(' ')}`)
    last = position
  }
  assert.equal(new Set(seen).size, sent.length, 'exactly the messages that were sent must arrive')
  return seen.length - sent.length
}
