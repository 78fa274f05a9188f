import type { PublishResult } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { afterEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../core/test/support/router-world.ts'
import { ids, openWorld, records, SuspendableRuntime } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }
const lease = 30_000

let removeProbe = () => {}
afterEach(() => removeProbe())

describe('a relay whose process was suspended past its lease', () => {
  it('publishes nothing that it had claimed before, and settles nothing', async () => {
    const world = openWorld({ retain: true })
    await world.add('orders', ...ids(3))
    const runtime = new SuspendableRuntime(world.runtime)
    const asleep = deferred()
    removeProbe = installProbe((point) => (point === 'relay.claimed' ? asleep.promise : undefined))
    const sleeper = world.another({ runtime }).start()
    await world.runtime.advance(0)
    runtime.suspend()
    await world.runtime.advance(lease + 1)
    const rival = await world.memory.claim({ limit: 10, lease: 600_000 })
    expect(rival).toHaveLength(3)
    removeProbe()
    runtime.resume()
    asleep.resolve()
    await world.runtime.advance(60_000)
    expect(world.sent()).toEqual([])
    expect((await records(world)).map(({ state, attempts }) => [state, attempts])).toEqual(Array(3).fill(['leased', 2]))
    expect(sleeper.health()).toMatchObject({ published: 0, leasesLost: 3 })
    // It continues with the records it claims from then on.
    await world.add('orders', 'new')
    await world.runtime.advance(5000)
    expect(world.sent()).toEqual(['new'])
    await sleeper.stop()
  })

  it('in the middle of a publish that was confirmed has made a duplicate, and does not affect the relay that owns the record now', async () => {
    const confirmed = deferred()
    const world = openWorld({
      retain: true,
      answer: async ({ messages }) => {
        await confirmed.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', ...ids(3))
    const runtime = new SuspendableRuntime(world.runtime)
    const sleeper = world.another({ runtime }).start()
    await world.runtime.advance(0)
    runtime.suspend()
    await world.runtime.advance(lease + 1)
    const [rival] = await world.memory.claim({ limit: 1, lease: 600_000 })
    runtime.resume()
    confirmed.resolve()
    await world.runtime.advance(0)
    // Neither the record that another relay has, nor those that any relay may claim: it has to claim and send these anew.
    expect(sleeper.health()).toMatchObject({ leasesLost: 3 })
    await world.runtime.advance(60_000)
    const [first] = await records(world)
    expect(first).toMatchObject({ id: rival?.id, state: 'leased' })
    expect(world.sent()).toEqual([...ids(3), 'e2', 'e3'])
    await sleeper.stop()
  })

  it('sends no dead letter for records that it no longer owns', async () => {
    const asked = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        await asked.promise
        return messages.map(() => ({ ok: false, error: 'never', permanent: true }))
      },
    })
    await world.add('orders', 'e1')
    const runtime = new SuspendableRuntime(world.runtime)
    const dead: string[] = []
    const publisher = {
      publish: async (_: string, messages: readonly { readonly id?: string | undefined }[]) => {
        dead.push(...messages.map(({ id = '' }) => id))
        return messages.map(() => ok)
      },
    }
    const sleeper = world.another({ runtime, deadLetter: { publisher, destination: 'dead' } }).start()
    await world.runtime.advance(0)
    runtime.suspend()
    await world.runtime.advance(lease + 1)
    await world.memory.claim({ limit: 1, lease: 600_000 })
    // The answer arrives before any timer notices how late it is.
    asked.resolve()
    await world.runtime.advance(0)
    runtime.resume()
    await world.runtime.advance(1000)
    expect(dead).toEqual([])
    expect(await world.states()).toEqual({ leased: 1 })
    await sleeper.stop()
  })
})
