import { publishAll } from '@ackord/core'
import type { FaultProxy } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { fromKafkaJs, kafkaPublisher } from '../../src/index.ts'
import { kafkaUrl, openProxied } from '../support/connection.ts'
import { event, open, openWorld, pullMany } from '../support/world.ts'

const produceKey = 0

/** A request starts with its length and its API key. A chunk contains whole requests, unless they are large. */
function hasProduce(bytes: Buffer): boolean {
  for (let at = 0; at + 6 <= bytes.length; at += 4 + bytes.readInt32BE(at)) if (bytes.readInt16BE(at + 4) === produceKey) return true
  return false
}

/** Loses the answer to every tenth Produce request, `times` times: the record is stored, and the client does not know it. */
function loseAnswers(proxies: readonly FaultProxy[], times: number): { readonly lost: number } {
  const state = { lost: 0 }
  let requests = 0
  for (const proxy of proxies) {
    proxy.judge((bytes) => {
      if (!hasProduce(bytes) || state.lost === times) return 'pass'
      requests += 1
      if (requests % 10 !== 0) return 'pass'
      state.lost += 1
      return 'cut after'
    })
  }
  return state
}

it.each([
  ['stores each record once, in order', { idempotent: true, maxInFlightRequests: 1 }, 0],
  // Without it, the fault of this test has an effect.
  ['is needed: another one stores records twice', {}, 3],
] as const)(
  'an idempotent producer %s, when answers are lost',
  async (_, settings, duplicates) => {
    await using world = await openWorld()
    const topic = await world.topic()
    await using proxied = await openProxied(kafkaUrl, { retry: { retries: 10, initialRetryTime: 50 } })
    const fault = loseAnswers(proxied.proxies, 3)
    const sent = Array.from({ length: 40 }, (_each, index) => event(`m${index}`, { partitionkey: 'k' }))
    await using publisher = kafkaPublisher(fromKafkaJs(proxied.client, { producer: settings }))
    for (const message of sent) await publishAll(publisher, topic, [message])

    expect(fault.lost).toBe(3)
    expect(await world.stored(topic)).toBe(sent.length + duplicates)
    const messages = open(world.source(topic, world.group()))
    const ids: (string | undefined)[] = []
    while (ids.length < sent.length + duplicates) {
      for (const message of await pullMany(messages, 1)) {
        ids.push(message.id)
        await message.ack()
      }
    }
    expect([...new Set(ids)]).toEqual(sent.map(({ id }) => id))
  },
  60_000,
)
