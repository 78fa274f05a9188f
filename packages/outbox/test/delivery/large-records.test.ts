import { Message } from '@ackord/core'
import { expect, it } from 'vitest'
import { event, openWorld } from '../support/relay-world.ts'

it('does not pause between claims that large records ended early', async () => {
  const { relay, store, runtime, addMessages, sent } = openWorld({ maxBatchBytes: 1000, pollInterval: 500 })
  const pairs = Array.from({ length: 10 }, (_, index) => [
    event(`small-${index}`),
    new Message(new Uint8Array(2000), { ...event(`large-${index}`).attributes }),
  ])
  await addMessages('orders', pairs.flat())
  relay.start()
  // At most one pause: the relay cannot know of the first large record before it is claimed.
  await runtime.advance(1000)
  expect(sent()).toHaveLength(20)
  const claims = store.count('claim')
  await runtime.advance(1000)
  expect(store.count('claim') - claims).toBeLessThanOrEqual(3)
  await relay.stop()
})
