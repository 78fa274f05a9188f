import { silentLogger, systemRuntime } from '@ackord/core'
import { type OutboxStore, Relay } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { openPg, type World } from '../../support/world.ts'
import { append, claimsWith, drainAll, logged } from '../support/log-store.ts'
import { idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

/** Resolves to a function that returns the number of rows that have been inserted into the outbox table since then. */
async function countRows(world: World): Promise<() => Promise<number>> {
  await world.query('CREATE SEQUENCE inserted')
  await world.query(
    `CREATE FUNCTION count_inserted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''inserted''); RETURN NEW; END'`,
  )
  await world.query('CREATE TRIGGER count_inserted AFTER INSERT ON ackord_outbox FOR EACH ROW EXECUTE FUNCTION count_inserted()')
  return async () => {
    const [row] = await world.query('SELECT CASE WHEN is_called THEN last_value ELSE 0 END::int AS count FROM inserted')
    return Number(row?.['count'])
  }
}

/** A clock that the test can advance. */
function testClock(): { readonly runtime: typeof systemRuntime; readonly advance: (by: number) => void } {
  let ahead = 0
  return {
    runtime: { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + ahead },
    advance(by) {
      ahead += by
    },
  }
}

const many = (count: number, destination: string) =>
  Array.from({ length: count }, (_, index) => record(`${destination}${index}`, {}, destination))

describe('a destination that the relay does not ask for', () => {
  it('keeps its records in memory while a publish to it is in flight, and while another destination is tried', async () => {
    await using world = await openPg({ fresh: true })
    const inserted = await countRows(world)
    const relay = logged(world.database)
    await append(world, ...many(20, 'slow'), ...Array.from({ length: 20 }, (_, index) => keyed(`k${index % 4}`, `e${index}`)))
    const seen: (string | undefined)[] = []
    for (let round = 0; round < 8; round += 1) {
      const claimed = await relay.claim({ limit: 5, lease })
      expect(claimed).toHaveLength(5)
      expect(await relay.claim({ limit: 5, lease, except: ['slow', 'events'] })).toEqual([])
      expect(await relay.claim({ limit: 5, lease, destinations: ['down'] })).toEqual([])
      await relay.settle(claimed.map(published))
      seen.push(...idsOf(claimed))
    }
    expect(new Set(seen).size).toBe(40)
    expect(await inserted()).toBe(0)
  })

  it('keeps its records in memory for a minute, then they go on in the outbox table', async () => {
    await using world = await openPg({ fresh: true })
    const inserted = await countRows(world)
    const { runtime, advance } = testClock()
    const relay = claimsWith(world, () => ({}), runtime)
    await append(world, ...many(10, 'down'))
    const options = { limit: 10, lease: 600_000, except: ['down'] }
    expect(await relay.claim(options)).toEqual([])
    advance(59_000)
    expect(await relay.claim(options)).toEqual([])
    expect(await inserted()).toBe(0)
    advance(1000)
    expect(await relay.claim(options)).toEqual([])
    expect(await inserted()).toBe(10)
    // What follows is moved at once, until it is served again.
    await append(world, record('another', {}, 'down'))
    expect(await relay.claim(options)).toEqual([])
    expect(await inserted()).toBe(11)
    expect(await drainAll(relay)).toHaveLength(11)
  })

  it('holds up other destinations for five seconds at most, however many records it has', async () => {
    await using world = await openPg({ fresh: true })
    const inserted = await countRows(world)
    const { runtime, advance } = testClock()
    const relay = claimsWith(world, () => ({}), runtime)
    await append(world, ...many(9000, 'down'))
    await append(world, ...many(5, 'up'))
    const options = { limit: 10, lease: 600_000, except: ['down'] }
    expect(await relay.claim(options)).toEqual([])
    expect(await inserted()).toBe(0)
    advance(5000)
    const claimed = await relay.claim(options)
    expect(idsOf(claimed).toSorted()).toEqual(['up0', 'up1', 'up2', 'up3', 'up4'])
    expect(await inserted()).toBe(9000)
    await relay.settle(claimed.map(published))
    expect(await drainAll(relay)).toHaveLength(9000)
  })

  it('needs no rows in the outbox table while a relay waits for its broker', async () => {
    await using world = await openPg({ fresh: true })
    const inserted = await countRows(world)
    await append(world, ...many(400, 'events'))
    let polled = deferred<void>()
    const store = logged(world.database)
    const watched: OutboxStore = {
      ...store,
      async claim(options) {
        const claimed = await store.claim(options)
        if (options.except?.includes('events') === true) polled.resolve()
        return claimed
      },
    }
    const seen = new Set<string>()
    const all = deferred<void>()
    const publisher = {
      async publish(_destination: string, messages: readonly { readonly id?: string | undefined }[]) {
        if (seen.size < 300) {
          // The relay has found the destination busy, and claims for others.
          polled = deferred()
          await polled.promise
        }
        for (const { id } of messages) seen.add(String(id))
        if (seen.size === 400) all.resolve()
        return messages.map(() => ({ ok: true as const }))
      },
    }
    const relay = new Relay(watched, { publisher, logger: silentLogger, batchSize: 100, pollInterval: 10, maxPollInterval: 20 }).start()
    await all.promise
    await relay.stop()
    expect(await inserted()).toBe(0)
    expect(await drainAll(logged(world.database))).toEqual([])
  })
})
