import { eventHandler, messageKey, Router, type Source, silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { events, openWorld, until } from '../support/world.ts'

/** The first letter of an id. */
const by = ({ id }: { readonly id: string | undefined }) => id?.[0]

it('handles a trickle of one tenant behind the burst of another one, which is over its rate', async () => {
  await using world = await openWorld()
  const queue = await world.queue({ type: 'quorum' })
  await world.fill(queue, [...events(500, 'a'), ...events(5, 'b')])
  const handled: string[] = []
  let deliveries = 0
  const source = world.source(queue, { prefetch: 100 })
  const counting: Source = {
    ...source,
    async *messages(options) {
      for await (const message of source.messages(options)) {
        deliveries += 1
        yield message
      }
    },
  }
  const router = new Router({
    concurrency: 8,
    logger: silentLogger,
    fairness: { by, rate: (tenant) => (tenant === 'a' ? { limit: 20, interval: 1000 } : undefined) },
  }).handle(
    eventHandler({ type: 'test.event' }, async (_data, context) => {
      handled.push(context.get(messageKey)?.id ?? '')
    }),
  )
  const startedAt = Date.now()
  const running = router.run(counting)
  const ofB = () => handled.filter((id) => id.startsWith('b')).length
  await until(() => ofB() === 5)
  const caughtUp = Date.now() - startedAt
  // From then on messages are handled as they arrive.
  for (let count = 1; count <= 5; count += 1) {
    await world.fill(queue, [`b-late-${count}`])
    await until(() => ofB() === 5 + count)
  }
  const seconds = (Date.now() - startedAt) / 1000
  const ofA = handled.length - 10
  await router.stop()
  await running
  // One after the other it would take 24 seconds.
  expect(caughtUp).toBeLessThan(12_000)
  expect(ofA).toBeLessThanOrEqual(20 + 20 * (seconds + 1))
  // No hot loop: each message has come, was returned, and comes back later.
  expect(deliveries).toBeLessThan(1.5 * 510 + ofA)
})
