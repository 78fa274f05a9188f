import { randomUUID } from 'node:crypto'
import { Message } from '@ackord/core'
import { expect, it } from 'vitest'
import { event, never, open, openWorld, pullMany } from '../support/world.ts'

const missing = () => `ackord-test-missing-${randomUUID()}`

it('a source whose topic does not exist ends with an error that says so', async () => {
  await using world = await openWorld()
  await expect(open(world.source(missing(), world.group())).next()).rejects.toMatchObject({
    code: 'ACKORD_SOURCE_FAILED',
    message: expect.stringContaining('a topic does not exist'),
  })
}, 60_000)

it('a publish to a topic that does not exist is a failure of the destination, and creates no topic', async () => {
  await using world = await openWorld()
  const topic = missing()
  const [result] = await world.publisher().publish(topic, [event('a')], { signal: never })

  expect(result).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('does not exist') } })
  expect(await world.admin.listTopics()).not.toContain(topic)
}, 60_000)

it('a message that is too large for its topic fails for good, and the others of its call are stored', async () => {
  await using world = await openWorld()
  const topic = `ackord-test-${randomUUID()}`
  const configEntries = [{ name: 'max.message.bytes', value: '20000' }]
  await world.admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }], waitForLeaders: true })
  const large = new Message(Buffer.alloc(50_000, 7), event('large').attributes)
  const results = await world.publisher().publish(topic, [event('a'), large, event('b'), event('c')], { signal: never })

  expect(results).toMatchObject([{ ok: true }, { ok: false, permanent: true }, { ok: true }, { ok: true }])
  const read = await pullMany(open(world.source(topic, world.group())), 3)
  expect(read.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
  expect(await world.stored(topic)).toBe(3)
  await world.admin.deleteTopics({ topics: [topic] })
}, 60_000)
