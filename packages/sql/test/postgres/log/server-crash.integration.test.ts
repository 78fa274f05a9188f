import type { ClaimedRecord } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import type { SqlOutbox } from '../../../src/index.ts'
import { type LogServer, openLogServer } from '../support/log-server.ts'
import { append, claimsWith, drain, expireRelays, logged } from '../support/log-store.ts'
import { failed, idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

/** The writer of the log of the server writes so seldom that what is not flushed by a commit is lost. */
const settings = { wal_writer_delay: '10s' }

async function crash(world: LogServer): Promise<void> {
  await world.server.kill('SIGKILL')
  await world.server.restart()
  // The connections of the pool have ended; each of them fails once.
  await expect.poll(() => world.query('SELECT 1 AS one').catch(() => [])).toEqual([{ one: 1 }])
}

async function transactionId(world: LogServer): Promise<number> {
  const [row] = await world.query('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xmax')
  return Number(row?.['xmax'])
}

/** Claims and settles until everything has been published: a relay that has lost its membership waits for the lease of the old one, which the test ends. */
async function publishAll(world: LogServer, relay: Pick<SqlOutbox<unknown>, 'claim' | 'settle'>, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let round = 0; round < 10 && ids.length < count; round += 1) {
    const claimed: readonly ClaimedRecord[] = await relay.claim({ limit: 10, lease }).catch(() => [])
    await relay.settle(claimed.map(published))
    ids.push(...idsOf(claimed).map(String))
    if (claimed.length === 0) await expireRelays(world)
  }
  return ids
}

describe('a relay that outlives a crash of the server', () => {
  it('publishes records whose transactions have ids that it has seen before', { timeout: 60_000 }, async () => {
    await using world = await openLogServer(settings)
    const relay = logged(world.database)
    for (const id of ['a', 'b']) {
      await append(world, record(id))
      expect(await drain(relay)).toEqual([id])
    }
    for (let count = 0; count < 20; count += 1) await relay.claim({ limit: 10, lease })
    const before = await transactionId(world)
    await crash(world)
    // The scenario: ids were lost, and are given again.
    expect(await transactionId(world)).toBeLessThan(before)
    const ids = ['n0', 'n1', 'n2', 'n3', 'n4']
    for (const id of ids) await append(world, record(id))
    const seen: string[] = []
    // What is stored later is published, whatever the relay believes to have read: that writes down how far it is.
    for (const id of ['m0', 'm1', 'm2', 'm3', 'm4']) {
      for (let count = 0; count < 5; count += 1) await relay.claim({ limit: 10, lease }).catch(() => [])
      await append(world, record(id))
      ids.push(id)
      seen.push(...(await drain(relay).catch(() => [])).map(String))
    }
    seen.push(...(await publishAll(world, relay, ids.length - seen.length)))
    expect(seen).toEqual(ids)
    // Nothing that was published once is published again by the next relay, and nothing is left.
    await relay.leave?.()
    expect(await drain(logged(world.database))).toEqual([])
  })

  it('publishes what a read has moved to the outbox table if the crash has undone that', { timeout: 60_000 }, async () => {
    await using world = await openLogServer(settings)
    let losesReads = false
    const relay = claimsWith(world, (log) => ({
      async read(options) {
        const answer = await log.read(options)
        if (losesReads && answer.moved.length > 0) {
          losesReads = false
          await crash(world)
        }
        return answer
      },
    }))
    await append(world, keyed('k', 'k1'))
    await relay.settle((await relay.claim({ limit: 10, lease })).map(failed))
    await append(world, keyed('k', 'k2'), record('r'))
    losesReads = true
    // What follows the read uses what it has learned.
    const claimed = await relay.claim({ limit: 10, lease }).catch(() => [])
    await relay.settle(claimed.map(published)).catch(() => [])
    expect(losesReads).toBe(false)
    expect(await world.query(`SELECT FROM ackord_outbox WHERE id = 'k2'`)).toEqual([])
    await world.query(`UPDATE ackord_outbox SET state = 'ready', available_at = clock_timestamp() WHERE id = 'k1'`)
    const seen = await publishAll(world, relay, 3)
    expect(seen.filter((id) => id !== 'r')).toEqual(['k1', 'k2'])
    expect([...idsOf(claimed), ...seen]).toContain('r')
    await relay.leave()
    expect(await drain(logged(world.database))).toEqual([])
  })
})
