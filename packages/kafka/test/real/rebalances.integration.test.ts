import type { RawMessage } from '@ackord/core'
import { expect, it } from 'vitest'
import { fromKafkaJs, kafkaSource } from '../../src/index.ts'
import { createClient, kafkaUrl } from '../support/connection.ts'
import { event, events, open, openWorld, pull, pullMany, until, type World } from '../support/world.ts'

it('a member that leaves frees its partitions at once, without waiting for its session to end', async () => {
  await using world = await openWorld()
  const [topic, group] = [await world.topic(), world.group()]
  const sessionTimeout = 45_000
  const kafka = fromKafkaJs(createClient(kafkaUrl), { consumer: { sessionTimeout, rebalanceTimeout: sessionTimeout } })
  const member = () => kafkaSource(kafka, { topics: [topic], group, logger: world.logger })
  await using first = member()
  await using second = member()
  await world.fill(topic, events(40, 'one'))
  const leaving = open(first)
  for (const message of await pullMany(leaving, 40)) await message.ack()
  await leaving.return?.()

  await world.fill(topic, events(40, 'two'))
  const soon = AbortSignal.timeout(sessionTimeout / 2)
  const staying = open(second, soon)
  const ids = new Set<string | undefined>()
  while (ids.size < 40) {
    const message = await pull(staying)
    ids.add(message.id)
    await message.ack()
  }
  expect(ids).toEqual(new Set(events(40, 'two').map(({ id }) => id)))
}, 90_000)

it('a message that is being handled when its partition moves to another member is delivered there, and cannot be acked here', async () => {
  await using world = await openWorld()
  const [topic, group] = [await world.topic(), world.group()]
  await fillEachPartition(world, topic, 'before')
  const held = new Map<string | undefined, RawMessage>()
  const here = open(world.source(topic, group))
  for (const message of await pullMany(here, 4)) held.set(message.id, message)
  const moved = await pull(open(world.source(topic, group)))
  await fillEachPartition(world, topic, 'after')
  // Delivers nothing during a rebalance: when it delivers again, this member knows its new partitions.
  const next = await pull(here)

  expect(held.has(moved.id)).toBe(true)
  expect(next.id).toMatch(/^after/)
  expect(await rejectionOf(held.get(moved.id))).toMatchObject({ code: 'ACKORD_LEASE_LOST' })
  expect(await rejectionOf(held.get(next.id?.replace('after', 'before')))).toBeUndefined()
}, 60_000)

it('members that come and go apply every message, and keep the order of each key', async () => {
  await using world = await openWorld()
  const [topic, group] = [await world.topic(), world.group()]
  const keys = Array.from({ length: 12 }, (_, index) => `k${index}`)
  /** The ids in the order in which they were first handled, by key. */
  const handled = new Map<string, string[]>(keys.map((key) => [key, []]))
  const active = new Set<number>()
  const run = async (member: number, signal: AbortSignal) => {
    for await (const message of world.source(topic, group).messages({ signal })) {
      active.add(member)
      const ids = handled.get(message.partitionKey ?? '')
      if (ids?.includes(message.id ?? '') === false) ids.push(message.id ?? '')
      // A message whose partition has moved is delivered again there.
      await message.ack().catch(() => {})
    }
  }
  let rounds = 0
  const exchange = async () => {
    await world.fill(
      topic,
      keys.map((key) => event(`${key}-${rounds}`, { partitionkey: key })),
    )
    rounds += 1
    await until(() => [...handled.values()].every((ids) => ids.length === rounds))
  }
  const stops = [new AbortController(), new AbortController(), new AbortController()]
  const members: Promise<void>[] = []
  for (const [index, { signal }] of stops.entries()) {
    members.push(run(index, signal))
    await until(async () => {
      await exchange()
      return active.size === index + 1
    })
    active.clear()
    await until(async () => {
      await exchange()
      return active.size === index + 1
    })
  }
  for (const [index, stop] of stops.entries()) {
    stop.abort()
    await members[index]
    if (index < stops.length - 1) await exchange()
  }

  for (const [key, ids] of handled) expect(ids).toEqual(Array.from({ length: rounds }, (_, round) => `${key}-${round}`))
  expect(await world.committed(topic, group)).toBe(rounds * keys.length)
}, 120_000)

/** One event for each of the four partitions, with its number in the id. */
async function fillEachPartition(world: World, topic: string, prefix: string): Promise<void> {
  const producer = world.client.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  const record = (partition: number) => ({ partition, value: 'x', headers: { ce_specversion: '1.0', ce_id: `${prefix}${partition}` } })
  await producer.send({ topic, messages: [0, 1, 2, 3].map(record) })
  await producer.disconnect()
}

/** Acks a message; resolves to the error, or to `undefined`. */
async function rejectionOf(message: RawMessage | undefined): Promise<unknown> {
  return await message?.ack().then(
    () => undefined,
    (error: unknown) => error,
  )
}
