import { Relay } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { keyed, OrderWorld } from '../../src/suites/ordering/order-world.ts'
import { openOrderedMemoryOutboxWorld } from '../../src/suites/outbox/outbox-world.ts'
import { relayLease } from '../../src/suites/relay/relay-world.ts'

const open = () => OrderWorld.open({ openStore: openOrderedMemoryOutboxWorld, createRelay: (store, setup) => new Relay(store, setup) })

describe('checkDuplicates', () => {
  it('does not count a refusal that arrives after the relay abandoned the publish', async () => {
    await using world = await open()
    await world.add(keyed('k', 1))
    world.refuse(() => (world.relays.calls.length === 1 ? { error: new Error('too late') } : undefined))
    await world.start({}, async (point, process) => {
      if (point !== 'published') return
      if (world.relays.arrived.length > 0) process.kill()
      else await world.relays.until(() => world.relays.calls[0]?.signal.aborted === true, 'the relay has given the publish up')
    })
    await world.relays.until(() => world.relays.arrived.length > 0, 'the record has arrived, and its relay was killed')
    await world.relays.elapse(relayLease)
    await world.start()
    await world.drained()
    expect(world.relays.arrived).toHaveLength(2)
    world.checkDuplicates()
    expect(world.relays.refused).toEqual([])
  })

  it('prints the counts of a record that arrived twice without a reason', async () => {
    await using world = await open()
    await world.add(keyed('k', 1))
    await world.start()
    await world.drained()
    world.relays.arrived.push('k/0001')
    expect(() => world.checkDuplicates()).toThrow(
      'k/0001 arrived more than once without a takeover: 2 arrivals, 1 attempts, 0 refusals, 0 given up',
    )
  })
})
