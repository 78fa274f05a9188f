import assert from 'node:assert/strict'
import type { Runtime } from '@ackord/core'
import type { OutboxStore } from '@ackord/outbox'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import { distinct, numbered, type OnPoint, type RelayPorts, type RelayScenario, RelayWorld, relayLease, takeAll } from './relay-world.ts'

const total = 50

export const stallScenarios: readonly RelayScenario[] = [
  {
    name: 'two relays that stall at random past their lease lose nothing, and duplicate no more than the leases they lost',
    run: (ports) => runStalling(ports, { relays: 2, seed: 7 }),
  },
  {
    name: 'four relays that stall at random past their lease lose nothing, and duplicate no more than the leases they lost',
    run: (ports) => runStalling(ports, { relays: 4, seed: 20_260_101 }),
  },
]

interface Stalling {
  readonly relays: number
  readonly seed: number
}

async function runStalling({ openStore, createRelay }: RelayPorts, { relays, seed }: Stalling): Promise<string> {
  const { random } = new VirtualRuntime({ seed })
  const stall = async (runtime: Runtime, chance = 0.2) => {
    if (random() > chance) return
    const duration = (1.1 + random()) * relayLease
    await new Promise<void>((resolve) => void runtime.setTimeout(resolve, duration))
  }
  const afterClaim = (store: OutboxStore, runtime: Runtime): OutboxStore => ({
    ...store,
    async claim(options) {
      const claimed = await store.claim(options)
      if (claimed.length > 0) await stall(runtime)
      return claimed
    },
  })
  await using world = await RelayWorld.open({
    openStore,
    createRelay: (store, setup) => createRelay(afterClaim(store, setup.runtime), setup),
  })
  let settled = false
  const onPoint: OnPoint = async (point) => {
    if (point === 'publish') await stall(world.runtime)
    if (point !== 'settle') return
    const isFirst = !settled
    settled = true
    // At least one lease is lost, however the calls of the relays interleave.
    await stall(world.runtime, isFirst ? 1 : undefined)
  }
  // A publish that was given up in time is not sent late: that would be a duplicate of another kind.
  world.answer = async (call) => {
    call.signal.throwIfAborted()
    return await takeAll(call)
  }
  await world.add('a', ...numbered(total))
  for (let count = 0; count < relays; count += 1) await world.start(onPoint, { batchSize: 7, maxAttempts: 1000 })
  await world.until(() => world.isEmpty(), 'everything is published', 3_600_000)
  assert.deepEqual(distinct(world.arrived), numbered(total))
  const duplicates = world.arrived.length - total
  assert.ok(world.takenOver > 0, 'no relay has lost a lease, so the scenario proves nothing')
  assert.ok(duplicates <= world.takenOver, `${duplicates} duplicates, and ${world.takenOver} leases lost`)
  return `${duplicates} duplicates of ${total}, ${world.takenOver} leases lost`
}
