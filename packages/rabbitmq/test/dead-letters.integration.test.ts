import { expect, it } from 'vitest'
import { rabbitmqDeadLetters } from '../src/index.ts'
import { openWorld, type World } from './support/world.ts'

const signal = new AbortController().signal
const limit = 100
const refused = { code: 'ACKORD_DELIVERY_LIMIT' }

/** How often the oldest letter was delivered, this delivery included. */
async function deliveriesOf(world: World, queue: string): Promise<number> {
  const message = await world.admin.get(queue)
  if (message === false) throw new Error('The queue is empty.')
  const count = Number(message.properties.headers?.['x-delivery-count'] ?? 0) + 1
  world.admin.nack(message, false, true)
  return count
}

it('looking at letters stops before the delivery limit of their queue, and keeps them', async () => {
  await using world = await openWorld()
  const queue = await world.queue({ type: 'quorum', arguments: { 'x-delivery-limit': 20 } })
  await world.fill(queue, ['a', 'b'])
  await expect.poll(() => world.ready(queue)).toBe(2)
  const letters = rabbitmqDeadLetters(world.connection, queue, { logger: world.logger })
  for (let look = 1; look <= 10; look += 1) expect((await letters.list({ limit, signal })).letters).toHaveLength(2)
  for (let look = 11; look <= 30; look += 1) {
    await expect(letters.list({ limit, signal })).rejects.toMatchObject(refused)
    await expect(letters.find('a', { limit, signal })).rejects.toMatchObject(refused)
    await expect(letters.preview(undefined, { limit, signal })).rejects.toMatchObject(refused)
    await expect(letters.replay(undefined, { signal, onProgress() {} })).rejects.toMatchObject(refused)
  }
  await expect.poll(() => world.ready(queue)).toBe(2)
  // The look that has found the count was the last delivery.
  expect(await deliveriesOf(world, queue)).toBe(12)
})

it('letters are looked at again when some were removed, and stay refused while the others were delivered too often', async () => {
  await using world = await openWorld()
  const queue = await world.queue({ type: 'quorum', arguments: { 'x-delivery-limit': 6 } })
  await world.fill(queue, ['a'])
  await expect.poll(() => world.ready(queue)).toBe(1)
  const letters = rabbitmqDeadLetters(world.connection, queue, { logger: world.logger, deliveryLimit: 6 })
  for (let look = 1; look <= 3; look += 1) expect((await letters.list({ limit, signal })).count).toBe(1)
  await expect(letters.list({ limit, signal })).rejects.toThrow(
    /'.+' were delivered 3 times or more.*deliveryLimit: 'none'.*--delivery-limit none/,
  )
  await world.admin.purgeQueue(queue)
  expect(await letters.list({ limit, signal })).toEqual({ letters: [], count: 0 })
  await world.fill(queue, ['b'])
  await expect.poll(() => world.ready(queue)).toBe(1)
  expect((await letters.list({ limit, signal })).letters).toHaveLength(1)
})

it('letters of a queue without a limit can be looked at as often as anyone wants', async () => {
  await using world = await openWorld()
  const queue = await world.queue({ type: 'quorum' })
  await world.fill(queue, ['a'])
  await expect.poll(() => world.ready(queue)).toBe(1)
  const letters = rabbitmqDeadLetters(world.connection, queue, { logger: world.logger, deliveryLimit: 'none' })
  for (let look = 1; look <= 25; look += 1) expect((await letters.list({ limit, signal })).letters).toHaveLength(1)
})

it('letters return to their places when a look has ended', async () => {
  await using world = await openWorld()
  const queue = await world.queue({ type: 'quorum' })
  await world.fill(queue, ['a', 'b', 'c', 'd'])
  await expect.poll(() => world.ready(queue)).toBe(4)
  const letters = rabbitmqDeadLetters(world.connection, queue, { logger: world.logger })
  for (const looked of [4, 2, 3, 4]) {
    const { letters: found } = await letters.list({ limit: looked, signal })
    expect(found.map(({ message }) => message.id)).toEqual(['a', 'b', 'c', 'd'].slice(0, looked))
    expect(await world.ready(queue)).toBe(4)
  }
})
