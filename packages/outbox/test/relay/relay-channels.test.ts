import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { expect, it } from 'vitest'
import type { RelayEvent } from '../../src/index.ts'
import { openWorld } from '../support/relay-world.ts'

// A type that is missing here does not compile.
const types = Object.keys({
  claimed: true,
  published: true,
  released: true,
  lost: true,
  failed: true,
  parked: true,
  destinationDown: true,
  destinationUp: true,
  storeDown: true,
  storeUp: true,
  deadLetterFailed: true,
} satisfies Record<RelayEvent['type'], true>)

it('a relay announces each of its events on a channel too, with its store', async () => {
  const events: RelayEvent[] = []
  const world = openWorld({ onEvent: (event) => events.push(event) })
  const announced: unknown[] = []
  const stores = new Set<unknown>()
  const listener = (event: unknown) => {
    const { store, ...rest } = event as RelayEvent & { readonly store: object }
    // Other tests of this process have relays too.
    if (store !== world.store) return
    stores.add(store)
    announced.push(rest)
  }
  for (const type of types) subscribe(`ackord:outbox:${type}`, listener)
  try {
    await world.add('orders', 'e1', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    await world.relay.stop()
  } finally {
    for (const type of types) unsubscribe(`ackord:outbox:${type}`, listener)
  }
  expect(events.map(({ type }) => type)).toEqual(['claimed', 'published'])
  expect(announced).toEqual(events)
  expect(stores.size).toBe(1)
})
