import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { openPg } from '../../support/world.ts'
import { append, claimsWith, drainAll, expireRelays, logged, makeDue, openSession } from '../support/log-store.ts'
import { failed, idsOf, keyed, lease, published, record } from '../support/ordered-store.ts'

/** Runs a call once as if the connection was lost after it. */
function losingAnswer(): <T>(call: Promise<T>) => Promise<T> {
  let isLost = false
  return async (call) => {
    const answer = await call
    if (isLost) return answer
    isLost = true
    throw new Error('The connection was lost.')
  }
}

describe('a relay of the log whose statements are answered late or not at all', () => {
  it('forgets a recorded claim that is answered after its lease was lost', async () => {
    await using world = await openPg()
    const recorded = deferred<void>()
    const opened = deferred<void>()
    let isFirst = true
    const relay = claimsWith(world, (log) => ({
      async recordClaim(member, seqs) {
        const answer = await log.recordClaim(member, seqs)
        if (!isFirst) return answer
        isFirst = false
        recorded.resolve()
        await opened.promise
        return answer
      },
    }))
    await append(world, record('a'))
    const claiming = relay.claim({ limit: 1, lease })
    await recorded.promise
    await expireRelays(world)
    await relay.renew([], lease)
    opened.resolve()
    // The claim has gone on under a new lease.
    const again = await claiming
    await relay.settle(again.map(published))
    const seen = [...idsOf(again)]
    for (const id of ['b', 'c', 'd']) {
      await append(world, record(id))
      seen.push(...(await drainAll(relay)))
    }
    expect(seen).toEqual(['a', 'b', 'c', 'd'])
    const last = `SELECT noted FROM ackord_cursors WHERE kind = 'd' ORDER BY generation DESC LIMIT 1`
    expect(await world.query(last)).toEqual([{ noted: null }])
  })

  it('gives nothing to a relay whose lease has expired, and counts no attempt', async () => {
    await using world = await openPg()
    const recorded: boolean[] = []
    const relay = claimsWith(world, (log) => ({
      async recordClaim(member, seqs) {
        if (recorded.length === 0) await expireRelays(world)
        const answer = await log.recordClaim(member, seqs)
        recorded.push(answer !== undefined)
        return answer
      },
    }))
    await append(world, record('a'))
    const claimed = await relay.claim({ limit: 1, lease })
    expect(recorded).toEqual([false, true])
    expect(claimed.map(({ attempts }) => attempts)).toEqual([1])
  })

  it('moves a failed record once if it settles it again, although the record was published meanwhile', async () => {
    await using world = await openPg()
    const lose = losingAnswer()
    const relay = claimsWith(world, (log) => ({ write: (...given) => lose(log.write(...given)) }))
    await append(world, record('a'), keyed('k', 'k1'), keyed('k', 'k2'))
    const claimed = await relay.claim({ limit: 10, lease })
    expect(idsOf(claimed)).toEqual(['a', 'k1', 'k2'])
    const outcomes = claimed.map((one) => (one.message.id === 'k2' ? published(one) : failed(one)))
    await expect(relay.settle(outcomes.slice(0, 2))).rejects.toThrow('The connection was lost.')
    await world.query(`DELETE FROM ackord_outbox WHERE id = 'a'`)
    await world.query(`UPDATE ackord_outbox SET state = 'ready', available_at = clock_timestamp() WHERE id = 'k1'`)
    expect(await relay.settle(outcomes)).toEqual(['applied', 'applied', 'applied'])
    expect(await world.query('SELECT id, state, attempts FROM ackord_outbox')).toEqual([{ id: 'k1', state: 'ready', attempts: 1 }])
    await relay.leave()
    expect(await drainAll(logged(world.database))).toEqual(['k1'])
  })

  it('settles again what was not applied', async () => {
    await using world = await openPg()
    let isLost = false
    const relay = claimsWith(world, (log) => ({
      async write(...given) {
        if (isLost) return await log.write(...given)
        isLost = true
        throw new Error('The connection was lost.')
      },
    }))
    await append(world, record('a'), record('b'))
    const claimed = await relay.claim({ limit: 10, lease })
    await expect(relay.settle(claimed.map(published))).rejects.toThrow('The connection was lost.')
    expect(await relay.settle(claimed.map(published))).toEqual(['applied', 'applied'])
    await expireRelays(world)
    expect(await drainAll(logged(world.database))).toEqual([])
  })

  it('publishes once, and goes on, if a write reaches the server after the relay has asked whether it was applied', async () => {
    await using world = await openPg()
    let late: (() => Promise<unknown>) | undefined
    const applied: unknown[] = []
    const relay = claimsWith(world, (log) => ({
      async write(...given) {
        if (late !== undefined || applied.length > 0) return await log.write(...given)
        late = () => log.write(...given)
        throw new Error('The connection was lost.')
      },
      async lastGeneration(partition) {
        const answer = await log.lastGeneration(partition)
        if (late !== undefined) applied.push(await late())
        late = undefined
        return answer
      },
    }))
    await append(world, record('a'), keyed('k', 'k1'), keyed('k', 'k2'))
    const claimed = await relay.claim({ limit: 10, lease })
    const outcomes = claimed.map((one) => (one.message.id === 'k1' ? failed(one) : published(one)))
    await expect(relay.settle(outcomes.slice(0, 2))).rejects.toThrow('The connection was lost.')
    expect(await relay.settle(outcomes)).toEqual(['applied', 'applied', 'applied'])
    expect(applied).toEqual([undefined])
    expect(await world.query('SELECT id, attempts FROM ackord_outbox')).toEqual([{ id: 'k1', attempts: 1 }])
    await append(world, record('b'))
    expect(await drainAll(relay)).toEqual(['b'])
    await makeDue(world)
    expect(await drainAll(relay)).toEqual(['k1'])
    await expireRelays(world)
    expect(await drainAll(logged(world.database))).toEqual([])
  })

  it('takes partitions over once, if the first try reaches the server after the second one', async () => {
    await using world = await openPg()
    const first = logged(world.database)
    await append(world, record('a'), record('b'))
    const dead = await first.claim({ limit: 1, lease })
    await expireRelays(world)
    let late: (() => Promise<unknown>) | undefined
    const applied: unknown[] = []
    const relay = claimsWith(world, (log) => ({
      async takeOver(...given) {
        if (late === undefined && applied.length === 0) {
          late = () => log.takeOver(...given)
          throw new Error('The connection was lost.')
        }
        return await log.takeOver(...given)
      },
      async recordClaim(...given) {
        if (late !== undefined) applied.push(await late())
        late = undefined
        return await log.recordClaim(...given)
      },
    }))
    await expect(relay.claim({ limit: 10, lease })).rejects.toThrow('The connection was lost.')
    expect((await drainAll(relay)).toSorted()).toEqual(['a', 'b'])
    expect(applied).toEqual([undefined])
    expect(await first.settle(dead.map(published))).toEqual(['lost'])
    await expireRelays(world)
    expect(await drainAll(logged(world.database))).toEqual([])
  })

  it('moves nothing by a read that reaches the server after the relay has asked what it has moved', async () => {
    await using world = await openPg()
    let losesReads = false
    let late: (() => Promise<{ readonly moved: readonly string[] }>) | undefined
    const moved: unknown[] = []
    const relay = claimsWith(world, (log) => ({
      async read(options) {
        if (!losesReads) return await log.read(options)
        losesReads = false
        late = () => log.read(options)
        throw new Error('The connection was lost.')
      },
      async movedSince(...given) {
        const answer = await log.movedSince(...given)
        if (late !== undefined) moved.push((await late()).moved)
        late = undefined
        return answer
      },
    }))
    await append(world, keyed('k', 'k1'))
    await relay.settle((await relay.claim({ limit: 10, lease })).map(failed))
    await append(world, keyed('k', 'k2'))
    losesReads = true
    await expect(relay.claim({ limit: 10, lease })).rejects.toThrow('The connection was lost.')
    expect(await drainAll(relay)).toEqual([])
    expect(moved).toEqual([[]])
    await makeDue(world)
    expect(await drainAll(relay)).toEqual(['k1', 'k2'])
    expect(await world.outbox()).toBe(0)
  })

  it('does not read records again that a read has moved whose answer was lost', async () => {
    await using world = await openPg()
    const lose = losingAnswer()
    let losesReads = false
    const relay = claimsWith(world, (log) => ({ read: (options) => (losesReads ? lose(log.read(options)) : log.read(options)) }))
    await append(world, keyed('k', 'k1'), record('r1'))
    const claimed = await relay.claim({ limit: 10, lease })
    await relay.settle(claimed.map((one) => (one.message.id === 'k1' ? failed(one) : published(one))))
    await append(world, keyed('k', 'k2'), record('r2'))
    losesReads = true
    await expect(relay.claim({ limit: 10, lease })).rejects.toThrow('The connection was lost.')
    // It was moved, and is published from the table.
    expect(await world.query(`DELETE FROM ackord_outbox WHERE id = 'k2' RETURNING id`)).toEqual([{ id: 'k2' }])
    await makeDue(world)
    expect((await drainAll(relay)).toSorted()).toEqual(['k1', 'r2'])
    await expireRelays(world)
    expect(await drainAll(logged(world.database))).toEqual([])
  })

  it('settles after its lease as long as no other relay has taken over', async () => {
    await using world = await openPg()
    const relay = claimsWith(world, () => ({}))
    await append(world, record('a'), record('b'))
    const claimed = await relay.claim({ limit: 10, lease })
    await expireRelays(world)
    expect(await relay.settle(claimed.slice(0, 1).map(published))).toEqual(['applied'])
    const next = await logged(world.database).claim({ limit: 10, lease })
    expect(next.map(({ message, attempts }) => [message.id, attempts])).toEqual([['b', 2]])
    expect(await relay.settle(claimed.slice(1).map(published))).toEqual(['lost'])
  })

  it.each([
    ['write', 'k1', 'waiting'],
    ['read', 'k3', 'ready'],
  ] as const)('is not taken over before a %s of it has ended', async (name, id, state) => {
    await using world = await openPg()
    const relay = logged(world.database)
    await append(world, keyed('k', 'k1'), keyed('k', 'k2'))
    const claimed = await relay.claim({ limit: 1, lease })
    if (name === 'read') await relay.settle(claimed.map(failed))
    if (name === 'read') await append(world, keyed('k', 'k3'))
    await using session = await openSession(world)
    // The statement waits for this row when it moves the record.
    await session.client.query('BEGIN')
    const columns = 'seq, destination, id, type, ordering_key, partition, data, attributes'
    await session.client.query(
      `INSERT INTO ackord_outbox (${columns}, state, available_at) OVERRIDING SYSTEM VALUE
SELECT ${columns}, $1, created_at FROM ackord_log WHERE id = $2`,
      [state, id],
    )
    const running = name === 'read' ? relay.claim({ limit: 10, lease }) : relay.settle(claimed.map(failed))
    await expect
      .poll(() => world.query(`SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'transactionid'`, [world.schema]))
      .toHaveLength(1)
    await expireRelays(world)
    const other = logged(world.database)
    expect(await other.claim({ limit: 10, lease })).toEqual([])
    await session.client.query('ROLLBACK')
    await running
    await makeDue(world)
    expect(await drainAll(other)).toEqual(name === 'read' ? ['k1', 'k2', 'k3'] : ['k1', 'k2'])
    expect(await world.outbox()).toBe(0)
  })
})
