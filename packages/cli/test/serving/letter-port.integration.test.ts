import { deadLetterPort } from '@ackord/core/broker'
import { recordingLogger } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { type LettersWorld, openLetters } from '../support/letters.ts'
import { natsUrl, rabbitmqUrl, redisUrl } from '../support/services.ts'

const signal = new AbortController().signal
const limit = 100

/** The letters as the dashboard has them, and the ids of those that were not replayed. */
function portOf({ dead }: LettersWorld) {
  const logger = recordingLogger()
  const port = deadLetterPort({
    open: async () => {
      const letters = await dead.broker.deadLetters?.(dead.topic, { group: `group-${dead.topic}` })
      if (letters === undefined) throw new Error('The broker has no dead letters.')
      return await letters.open()
    },
    logger,
    mask: (text) => text.replaceAll('hunter2', '***'),
  })
  return { port, failed: () => logger.lines.map(({ fields }) => String((fields as { readonly id?: string }).id)) }
}

it.each([
  ['RabbitMQ', rabbitmqUrl],
  ['NATS', natsUrl],
  ['Redis Streams', redisUrl],
])('two who look at the letters of %s at the same time see all of them', async (_, url) => {
  await using world = await openLetters(url)
  await world.reject(['a', 'b', 'c'])
  const { port } = portOf(world)
  const [one, other, found, preview] = await Promise.all([
    port.list({ limit, signal }),
    port.list({ limit: 2, signal }),
    port.find('b', { limit, signal }),
    port.preview(undefined, { limit: 2, signal }),
  ])
  expect([one.letters.map(({ message }) => message.id), one.count]).toEqual([['a', 'b', 'c'], 3])
  expect([other.letters.length, other.count]).toEqual([2, 3])
  expect(found).toMatchObject([{ message: { id: 'b' }, origin: world.origin.topic, reason: 'no customer for b' }])
  expect(found[0]?.failedAt).toBeGreaterThan(0)
  expect(preview).toEqual({ count: 2, skipped: 0, destinations: [world.origin.topic], capped: true })
})

it('a letter whose destination is gone stays, and the replay says why', async () => {
  await using world = await openLetters(rabbitmqUrl)
  await world.reject(['a'])
  await world.reject(['b'], { origin: 'gone-hunter2' })
  await world.reject(['c'], { origin: undefined })
  const { port, failed } = portOf(world)
  const progress: number[] = []
  const replaying = port.replay(undefined, { signal, onProgress: (replayed) => void progress.push(replayed) })
  await expect(replaying).rejects.toThrow(/^1 of 2 letters were replayed\. The others stay where they are: .*gone-\*\*\*/)
  expect([progress.at(-1), failed().sort()]).toEqual([1, ['b', 'c']])
  const { letters } = await port.list({ limit, signal })
  expect(letters.map(({ message }) => message.id)).toEqual(['b', 'c'])
  expect(await port.preview(['c', 'x'], { limit, signal })).toEqual({ count: 0, skipped: 1, destinations: [], capped: false })
})

it('a replay that is stopped leaves the other letters', async () => {
  await using world = await openLetters(redisUrl)
  await world.reject(Array.from({ length: 150 }, (_, index) => `m${index}`))
  const { port } = portOf(world)
  const stop = new AbortController()
  // A batch has 100 letters.
  const replayed = await port.replay(undefined, { signal: stop.signal, onProgress: () => stop.abort() })
  expect(replayed).toBe(100)
  expect((await port.list({ limit, signal })).count).toBe(50)
})
