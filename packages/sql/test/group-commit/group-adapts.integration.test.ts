import { type Metrics, type Process, rootContext, silentLogger, systemRuntime } from '@ackord/core'
import { deferred, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type Database, transactional } from '../../src/index.ts'
import { mysqlKinds } from '../mysql/support/mysql-world.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { command } from '../support/world.ts'

/** Records the sizes of the groups, and how many were dissolved. */
function groupMetrics(): Metrics & { readonly sizes: number[]; dissolved: number } {
  const counted = {
    sizes: [] as number[],
    dissolved: 0,
    count(name: string) {
      if (name === 'ackord.group.dissolved') counted.dissolved += 1
    },
    observe(name: string, value: number) {
      if (name === 'ackord.group.size') counted.sizes.push(value)
    },
    gauge() {},
  }
  return counted
}

function runner<Handle>(database: Database<Handle>, process: Process, runtime: VirtualRuntime, lockTimeout?: number) {
  const metrics = groupMetrics()
  const run = transactional(database, {
    inbox: { consumer: 'orders' },
    outbox: { destination: 'events', runtime: { ...systemRuntime, monotonic: () => runtime.monotonic() } },
    transaction: { logger: silentLogger, metrics, retries: 10, lockTimeout },
    groupCommit: { size: 2, groups: 2 },
  })(process)
  const deliver = async (...ids: readonly string[]) => {
    const results = await Promise.allSettled(
      ids.map((id) => {
        const { message } = command(id)
        return run(message, message.context(rootContext()))
      }),
    )
    return results.map(({ status }) => status)
  }
  return { metrics, deliver }
}

function testGroups<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  // SQLite has one writer, so there are no deadlocks.
  if (name.includes('sqlite')) return

  describe(`groups on ${name}`, () => {
    it('handle messages alone after a deadlock, and together again after a while', async () => {
      await using world = await open()
      const { database } = world
      await world.query("INSERT INTO orders (id, note) VALUES ('a', ''), ('b', '')")
      const runtime = new VirtualRuntime()
      const bothHaveOne = deferred()
      let first = 0
      const rows: Record<string, string> = { m1: 'a', m2: 'b', m3: 'b', m4: 'a' }
      const { metrics, deliver } = runner(
        database,
        async (message) => {
          const row = rows[`${message.id}`] ?? 'a'
          await world.run(database.executor(), `UPDATE orders SET note = 'taken' WHERE id = '${row}'`)
          if (message.id === 'm1' || message.id === 'm3') {
            first += 1
            if (first === 2) bothHaveOne.resolve()
            // When either message is retried, both have already locked their rows once.
            await bothHaveOne.promise
          }
          return []
        },
        runtime,
      )
      expect(await deliver('m1', 'm2', 'm3', 'm4')).toEqual(Array(4).fill('fulfilled'))
      expect(metrics.dissolved).toBeGreaterThan(0)
      metrics.sizes.length = 0
      expect(await deliver('m5', 'm6', 'm7', 'm8')).toEqual(Array(4).fill('fulfilled'))
      expect(metrics.sizes).toEqual([])
      await runtime.advance(10_000)
      expect(await deliver('m9', 'm10', 'm11', 'm12')).toEqual(Array(4).fill('fulfilled'))
      expect(metrics.sizes).toEqual([2, 2])
      expect(await world.counts()).toEqual([2, 12, 0])
    })

    it('handle messages alone after a lock timeout', async () => {
      await using world = await open()
      const { database } = world
      await world.query("INSERT INTO orders (id, note) VALUES ('a', '')")
      const runtime = new VirtualRuntime()
      const { metrics, deliver } = runner(
        database,
        async () => {
          await world.run(database.executor(), "UPDATE orders SET note = 'taken' WHERE id = 'a'")
          return []
        },
        runtime,
        1000,
      )
      const over = deferred()
      const holding = deferred()
      const rival = world.begin(async (client) => {
        await world.run(client, "UPDATE orders SET note = 'mine' WHERE id = 'a'")
        holding.resolve()
        await over.promise
      })
      await holding.promise
      expect(await deliver('m1', 'm2')).toEqual(['rejected', 'rejected'])
      over.resolve()
      await rival
      expect(await deliver('m3', 'm4')).toEqual(['fulfilled', 'fulfilled'])
      expect([metrics.dissolved, metrics.sizes]).toEqual([1, []])
    })
  })
}

onEachClient(testGroups)

describe.each(mysqlKinds)('groups on $name', ({ open }) => {
  it('are suspended for a while if handlers call procedures, which must run alone', async () => {
    await using world = await open()
    const { database } = world
    await world.query("CREATE PROCEDURE notes() UPDATE orders SET note = 'by procedure'")
    const runtime = new VirtualRuntime()
    const { metrics, deliver } = runner(
      database,
      async (message) => {
        await database.executor().query('INSERT INTO orders (id) VALUES (?)', [message.id])
        await database.executor().query('CALL notes()')
        return []
      },
      runtime,
    )
    expect(await deliver('1', '2')).toEqual(['fulfilled', 'fulfilled'])
    expect(await deliver('3', '4')).toEqual(['fulfilled', 'fulfilled'])
    expect([metrics.dissolved, metrics.sizes, await world.orders()]).toEqual([1, [], 4])
  })
})
