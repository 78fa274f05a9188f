import { Message, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '../../src/index.ts'
import { createClient } from '../support/connection.ts'
import { event, events, never, open, openWorld, pull, pullMany, until } from '../support/world.ts'

const idsOf = (messages: readonly RawMessage[]) => messages.map(({ id }) => id)

// Concurrent, because the mock cluster delays each member that joins a group.
describe.concurrent('Kafka', () => {
  it.each(['binary', 'structured'] as const)('carries bytes and attributes in %s mode', async (mode) => {
    await using world = await openWorld()
    const topic = await world.topic()
    const sent = [
      event('text', { partitionkey: 'k', subject: 'für 5 €\r\n"%"', datacontenttype: 'application/json' }),
      new Message(new Uint8Array(), { ...event('empty').attributes, partitionkey: 'k' }),
      new Message(Buffer.alloc(500_000, 7), {
        ...event('large').attributes,
        partitionkey: 'k',
        datacontenttype: 'application/octet-stream',
      }),
    ]

    expect(await world.publisher({ mode }).publish(topic, sent, { signal: never })).toEqual(sent.map(() => ({ ok: true })))
    const messages = open(world.source(topic, world.group()))
    for (const expected of sent) {
      const message = await pull(messages)
      expect(message.attributes).toEqual(expected.attributes)
      expect(Buffer.from(message.data).equals(expected.data)).toBe(true)
      await message.ack()
    }
  })

  it('delivers each message to each group, and continues where a group has stopped', async () => {
    await using world = await openWorld()
    const [topic, one, other] = [await world.topic(), world.group(), world.group()]
    await world.fill(topic, events(40))
    const first = open(world.source(topic, one))
    for (const message of await pullMany(first, 25)) await message.ack()
    await first.return?.()

    const rest = await pullMany(open(world.source(topic, one)), 15)
    const all = await pullMany(open(world.source(topic, other)), 40)

    expect(new Set(idsOf(all))).toEqual(new Set(idsOf(events(40))))
    expect(new Set(idsOf(rest)).size).toBe(15)
    expect(await world.committed(topic, one)).toBe(25)
  })

  it('keeps the order of each key, also after nacks', async () => {
    await using world = await openWorld()
    const topic = await world.topic()
    const keys = ['a', 'b', 'c', 'd', 'e']
    const sent = Array.from({ length: 100 }, (_, index) => event(`m${index}`, { partitionkey: keys[index % keys.length] }))
    await world.fill(topic, sent)
    const messages = open(world.source(topic, world.group()))
    const acked = new Map<string, string[]>(keys.map((key) => [key, []]))
    let count = 0
    for (let acks = 0; acks < sent.length; ) {
      const message = await pull(messages)
      count += 1
      if (count % 3 === 0) {
        await message.nack(new Error('again'), { retryAfter: count % 2 })
        continue
      }
      acked.get(message.partitionKey ?? '')?.push(message.id ?? '')
      await message.ack()
      acks += 1
    }

    for (const [index, key] of keys.entries())
      expect(acked.get(key)).toEqual(Array.from({ length: 20 }, (_, round) => `m${round * keys.length + index}`))
  })

  it('holds no more messages of a partition than allowed, and loses none', async () => {
    await using world = await openWorld()
    const [topic, group] = [await world.topic(), world.group()]
    await world.fill(
      topic,
      Array.from({ length: 200 }, (_, index) => event(`m${index}`, { partitionkey: 'k' })),
    )
    const messages = open(world.source(topic, group, { prefetch: 10 }))
    const seen: (string | undefined)[] = []
    while (seen.length < 200) {
      const message = await pull(messages)
      seen.push(message.id)
      await message.ack()
    }

    expect(seen).toEqual(Array.from({ length: 200 }, (_, index) => `m${index}`))
    await until(async () => (await world.committed(topic, group)) === 200)
  })

  it('loses nothing when connections are cut', async () => {
    await using world = await openWorld()
    const [topic, group] = [await world.topic(), world.group()]
    const sent = events(150)
    const publisher = world.publisher()
    const messages = open(world.source(topic, group))
    const seen = new Set<string>()
    let cut = 0
    let waiting = sent
    const publishing = (async () => {
      for (let round = 0; waiting.length > 0 && round < 100; round += 1) {
        const results = await publisher.publish(topic, waiting.slice(0, 30), { signal: never })
        waiting = waiting.filter((_, index) => results[index]?.ok !== true)
      }
    })()
    while (seen.size < sent.length) {
      const message = await pull(messages)
      // A message whose connection was cut is delivered again.
      await message.ack().catch(() => {})
      seen.add(message.id ?? '')
      if (seen.size === 50 || seen.size === 75) cut += world.cut()
    }
    await publishing

    expect(waiting).toEqual([])
    expect(cut).toBeGreaterThan(0)
    expect(seen).toEqual(new Set(idsOf(sent)))
  }, 60_000)
})

describe('a group', () => {
  it('assigns partitions to a second member, and all of them to the one that stays', async () => {
    await using world = await openWorld()
    const [topic, group] = [await world.topic(), world.group()]
    const seen = new Set<string>()
    const active = new Set<number>()
    const stops = [new AbortController(), new AbortController()]
    const run = async (member: number, signal: AbortSignal) => {
      for await (const message of world.source(topic, group).messages({ signal })) {
        active.add(member)
        seen.add(message.id ?? '')
        // A message whose partition was assigned to the other member is delivered again there.
        await message.ack().catch(() => {})
      }
    }
    const members = stops.map(({ signal }, index) => run(index, signal))
    let sent = 0
    const exchange = async () => {
      await world.fill(topic, events(20, `r${sent}-`))
      sent += 20
      await until(() => seen.size === sent)
    }
    await until(async () => {
      await exchange()
      return active.size === 2
    })
    stops[0]?.abort()
    await members[0]
    active.clear()
    await exchange()
    stops[1]?.abort()
    await members[1]

    expect([...active]).toEqual([1])
    expect(await world.committed(topic, group)).toBe(sent)
  }, 90_000)
})

describe('an unreachable Kafka', () => {
  const absent = fromKafkaJs(createClient('kafka://127.0.0.1:1'))

  it('is a failure of the destination', async () => {
    await using publisher = kafkaPublisher(absent)

    expect(await publisher.publish('orders', [event('a')], { signal: never })).toMatchObject([{ ok: false, scope: 'destination' }])
  })

  it('is waited for by a source until its signal is aborted', async () => {
    const stop = new AbortController()
    let pauses = 0
    const backoff = () => {
      pauses += 1
      if (pauses === 3) stop.abort()
      return 5
    }
    const lines: string[] = []
    const logger = { debug() {}, info() {}, error() {}, warn: (_fields: object, text: string) => void lines.push(text) }
    const source = kafkaSource(absent, { topics: ['orders'], group: 'billing', backoff, logger })

    expect(await open(source, stop.signal).next()).toEqual({ value: undefined, done: true })
    expect(pauses).toBe(3)
    expect(lines).toHaveLength(1)
  })
})
