import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { openPg } from '../../support/world.ts'
import { append, claimsWith, drainAll, logged, makeDue, shareOut } from '../support/log-store.ts'
import { failed, idsOf, keyed, lease, ordered, published, record } from '../support/ordered-store.ts'

const keys = Array.from({ length: 60 }, (_, index) => `k${index}`)
const firstOf = (all: readonly string[]) => [...new Set(all)]

/** A function that waits at its first call until the test lets it go on. */
function gate(): { readonly reached: Promise<void>; readonly open: () => void; readonly pass: () => Promise<void> } {
  const reached = deferred<void>()
  const opened = deferred<void>()
  return {
    reached: reached.promise,
    open: () => opened.resolve(),
    async pass() {
      reached.resolve()
      await opened.promise
    },
  }
}

describe('a relay of the log that shares partitions with others', () => {
  it.each(['takeOver', 'read', 'recordClaim'] as const)(
    'settles what it has claimed although another relay joins during `%s`',
    async (statement) => {
      await using world = await openPg()
      await append(world, ...keys.map((key) => keyed(key, key)))
      const { reached, open, pass } = gate()
      const relay = claimsWith(world, (log) => ({
        async [statement](...given: never[]) {
          const answer = await (log[statement] as (...given: never[]) => Promise<unknown>)(...given)
          await pass()
          return answer
        },
      }))
      const other = logged(world.database)
      const claiming = relay.claim({ limit: 100, lease })
      await reached
      expect(await other.claim({ limit: 100, lease })).toEqual([])
      // The first renewal finds out that there are two relays; before the second, half of the partitions could be handed over.
      await relay.renew([], lease)
      await relay.renew([], lease)
      const claimedByOther = await other.claim({ limit: 100, lease })
      open()
      const claimed = await claiming
      expect(await relay.settle(claimed.map(published))).not.toContain('lost')
      expect(await other.settle(claimedByOther.map(published))).not.toContain('lost')
      const seen = [...idsOf(claimedByOther), ...idsOf(claimed), ...(await drainAll(relay, other))]
      expect(seen.toSorted()).toEqual(keys.toSorted())
      expect([relay.ownedPartitions(), other.ownedPartitions?.()]).toMatchObject([{ length: 128 }, { length: 128 }])
    },
  )

  it('moves nothing of partitions that it hands over while it reads', async () => {
    await using world = await openPg()
    const first = gate()
    const second = gate()
    let reads = Number.NEGATIVE_INFINITY
    const relay = claimsWith(world, (log) => ({
      async read(options) {
        reads += 1
        if (reads === 2) await second.pass()
        const answer = await log.read(options)
        if (reads === 1) await first.pass()
        return answer
      },
    }))
    await append(world, ...keys.map((key) => keyed(key, `${key}/0`)))
    await relay.settle((await relay.claim({ limit: 100, lease })).map(failed))
    expect(await drainAll(relay)).toEqual([])
    // While all of these are in flight, no partition can be handed over.
    await append(world, ...Array.from({ length: 3000 }, (_, index) => keyed(`f${index}`, `f${index}`)))
    const inFlight = await relay.claim({ limit: 3000, lease })
    const other = logged(world.database)
    expect(await other.claim({ limit: 1, lease })).toEqual([])
    await relay.renew(inFlight, lease)
    reads = 0
    const claiming = relay.claim({ limit: 10, lease })
    await first.reached
    expect(await relay.settle(inFlight.map(published))).not.toContain('lost')
    const renewing = relay.renew([], lease)
    await append(world, ...keys.map((key) => keyed(key, `${key}/1`)))
    first.open()
    await renewing
    const seen: string[] = []
    const publish = async (claims: Pick<typeof relay, 'claim' | 'settle'>) => seen.push(...((await drainAll(claims)) as string[]))
    await makeDue(world)
    await publish(other)
    // Another record of each key fails and waits in the table.
    await append(world, ...keys.map((key) => keyed(key, `${key}/2`)))
    await other.settle((await other.claim({ limit: 1000, lease })).map(failed))
    second.open()
    const claimed = await claiming
    expect(await relay.settle(claimed.map(published))).not.toContain('lost')
    seen.push(...(idsOf(claimed) as string[]))
    await makeDue(world)
    seen.push(...((await drainAll(relay, other)) as string[]))
    expect(seen).toEqual(firstOf(seen))
    for (const key of keys) expect(seen.filter((id) => id.startsWith(`${key}/`))).toEqual([`${key}/0`, `${key}/1`, `${key}/2`])
  })

  it('renews its lease while a read takes long', async () => {
    await using world = await openPg()
    const { reached, open, pass } = gate()
    const relay = claimsWith(world, (log) => ({
      async read(options) {
        await pass()
        return await log.read(options)
      },
    }))
    const other = logged(world.database)
    const claiming = relay.claim({ limit: 1, lease })
    await reached
    expect(await other.claim({ limit: 1, lease })).toEqual([])
    await world.query(`UPDATE ackord_relays SET alive_until = clock_timestamp() + interval '10 seconds'`)
    for (let count = 0; count < 3; count += 1) await relay.renew([], lease)
    const [row] = await world.query(
      `SELECT count(*)::int AS renewed FROM ackord_relays WHERE alive_until > clock_timestamp() + interval '11 seconds'`,
    )
    expect(row).toEqual({ renewed: 1 })
    open()
    expect(await claiming).toEqual([])
  })

  it.each(['it has left', 'it has died'])('publishes the log of another one before its records in the table, after %s', async (how) => {
    await using world = await openPg()
    const [leaving, relay] = [claimsWith(world, () => ({})), claimsWith(world, () => ({}))]
    await leaving.claim({ limit: 1, lease })
    const [row] = await world.query('SELECT member FROM ackord_relays')
    await shareOut(leaving, relay)
    await append(world, ...keys.map((key) => keyed(key, `${key}/1`)))
    await world.database.write((transaction) =>
      ordered(world.database).append(
        transaction,
        keys.map((key) => keyed(key, `${key}/2`)),
      ),
    )
    if (how === 'it has left') await leaving.leave()
    else await world.query(`UPDATE ackord_relays SET alive_until = clock_timestamp() WHERE member = $1`, [row?.['member']])
    const seen = await drainAll(relay)
    for (const key of keys) expect(seen.filter((id) => id?.startsWith(`${key}/`))).toEqual([`${key}/1`, `${key}/2`])
  })

  it('continues a claim that is under way before it leaves', async () => {
    await using world = await openPg()
    await append(world, ...keys.map((key) => keyed(key, key)))
    const { reached, open, pass } = gate()
    const relay = claimsWith(world, (log) => ({
      async read(options) {
        const answer = await log.read(options)
        await pass()
        return answer
      },
    }))
    const claiming = relay.claim({ limit: 100, lease })
    await reached
    const leaving = relay.leave()
    open()
    await Promise.all([claiming, leaving])
    expect((await drainAll(logged(world.database))).toSorted()).toEqual(keys.toSorted())
  })

  it('frees its partitions before it rotates the log', async () => {
    await using world = await openPg()
    const { reached, open, pass } = gate()
    const relay = claimsWith(world, () => ({ rotate: pass }))
    await append(world, record('r1'))
    expect(await relay.claim({ limit: 1, lease })).toHaveLength(1)
    const leaving = relay.leave()
    await reached
    expect(await logged(world.database).claim({ limit: 1, lease })).toMatchObject([{ attempts: 2 }])
    open()
    await leaving
  })
})
