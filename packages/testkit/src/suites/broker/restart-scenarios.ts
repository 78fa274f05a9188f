import assert from 'node:assert/strict'
import { isAckordError, type PublishResult, type RawMessage } from '@ackord/core'
import { BrokerSession, events, idsOf } from './broker-session.ts'
import type { BrokerScenario } from './broker-world.ts'

const batch = 20

export const restartScenarios: readonly BrokerScenario[] = [
  {
    name: 'a broker that is restarted twice during a run loses no confirmed message',
    async run(open) {
      await using session = await BrokerSession.open(open)
      const { world } = session
      assert.ok(world.restart !== undefined, "a world that claims 'restart' has restart()")
      const sent = events(300)
      const publishing = publishEach(session, sent)
      publishing.catch(() => {}) // awaited below, unless the scenario has failed by then
      const unacked = new Set(idsOf(sent))
      const reader = session.read({ prefetch: 10 })
      let seen = 0
      let restarts = 0
      while (unacked.size > 0) {
        const message = await reader.next()
        seen += 1
        if (restarts === 0 && unacked.size <= (sent.length * 2) / 3) {
          restarts += 1
          await world.restart()
        } else if (restarts === 1 && unacked.size <= sent.length / 2) {
          restarts += 1
          await world.restart()
        }
        if (await acked(message)) unacked.delete(message.id)
      }
      const repeats = await session.inTime(publishing, 'publishing everything')
      assert.equal(restarts, 2, 'the broker must have been restarted twice')
      return `${seen - sent.length} duplicates, ${repeats} messages published again`
    },
  },
]

/** Whether the broker accepted the ack; if not, the message is redelivered. */
async function acked(message: RawMessage): Promise<boolean> {
  try {
    return await message.ack()
  } catch (error) {
    if (isAckordError(error, 'ACKORD_LEASE_LOST')) return false
    throw error
  }
}

/** Publishes until each message is confirmed. Resolves to the number of messages that had to be sent again. */
async function publishEach({ publisher, topic }: BrokerSession, messages: readonly RawMessage[]): Promise<number> {
  let waiting = messages
  let repeats = 0
  while (waiting.length > 0) {
    const sent = waiting.slice(0, batch)
    const signal = new AbortController().signal
    const results: readonly PublishResult[] = await publisher.publish(topic.destination, sent, { signal })
    const failed = sent.filter((_, index) => {
      const result = results[index]
      assert.ok(result !== undefined, 'one result per message')
      assert.ok(result.ok || result.permanent !== true, 'an unavailable broker must not be a permanent failure of a message')
      return !result.ok
    })
    repeats += failed.length
    waiting = [...failed, ...waiting.slice(batch)]
  }
  return repeats
}
