import { type Metrics, silentLogger } from '@ackord/core'
import { recordingLogger, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type CleanupOptions, type Driver, startCleanup } from '../../src/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import { type World, worldKinds } from '../support/world.ts'

const hour = 60 * 60 * 1000

/** Inserts messages received, events published, requests abandoned and processes finished this many hours ago, by the database's clock. */
async function fill(world: World, hours: readonly number[]): Promise<void> {
  for (const [index, ago] of hours.entries()) {
    const then = `clock_timestamp() - interval '${ago} hours'`
    await world.query(`INSERT INTO ackord_inbox VALUES ('c', '/s', '${index}-${ago}', ${then})`)
    await world.query(`INSERT INTO ackord_idempotency (scope, request_key, fingerprint, token, lease_until, expires_at)
VALUES ('s', '${index}-${ago}', 'f', 't', ${then}, ${then} + interval '24 hours')`)
    await world.query(
      `INSERT INTO ackord_process VALUES ('p', '${index}-${ago}', 1, '{}', 1, '{}', ${then}, ${then}, ${then} + interval '24 hours')`,
    )
    for (const state of ['published', 'ready', 'parked'] as const) {
      const times = state === 'published' ? 'published_at' : state === 'parked' ? 'parked_at' : 'created_at'
      await world.query(
        `INSERT INTO ackord_outbox (state, destination, id, type, partition, data, attributes, available_at, ${times})
VALUES ('${state}', 'd', '${index}-${ago}', 't', 0, '', '{}', ${then}, ${then})`,
      )
    }
  }
}

/** Starts a cleanup. `done` resolves when the metrics have been updated `until` times. */
function counting(options: CleanupOptions, world: World, until: number) {
  const runtime = new VirtualRuntime()
  const deleted: Record<string, number> = {}
  let reached = () => {}
  const done = new Promise<void>((resolve) => {
    reached = resolve
  })
  let calls = 0
  const metrics: Metrics = {
    count(_name, amount, { table = '' }) {
      deleted[table] = (deleted[table] ?? 0) + amount
      calls += 1
      if (calls === until) reached()
    },
    observe() {},
    gauge() {},
  }
  const cleanup = startCleanup(world.database, { logger: silentLogger, runtime, metrics, ...options })
  return { runtime, deleted, done, cleanup }
}

/** Advances the virtual clock until the promise resolves. */
async function passTime(runtime: VirtualRuntime, until: Promise<unknown>): Promise<void> {
  let done = false
  void until.then(() => {
    done = true
  })
  while (!done) {
    await runtime.advance(1000)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

describe.each(worldKinds)('startCleanup() on $name', ({ open }) => {
  it('deletes old messages, published events, abandoned requests and finished processes, and nothing else', async () => {
    await using world = await open()
    await fill(world, [1, 30, 200])
    await world.query(`INSERT INTO ackord_process VALUES ('p', 'running', 1, '{}', 1, '{}', '2000-01-01', '2000-01-01', NULL)`)
    const { runtime, deleted, done, cleanup } = counting({}, world, 4)
    await passTime(runtime, done)
    await cleanup.stop()
    expect(deleted).toEqual({ inbox: 1, outbox: 2, idempotency: 2, process: 2 })
    expect(await world.inbox()).toBe(2)
    expect(await world.query('SELECT request_key FROM ackord_idempotency')).toEqual([{ request_key: '0-1' }])
    expect(await world.query('SELECT id FROM ackord_process ORDER BY id')).toEqual([{ id: '0-1' }, { id: 'running' }])
    expect(await world.query('SELECT state, count(*)::int AS n FROM ackord_outbox GROUP BY 1 ORDER BY 1')).toEqual([
      { state: 'parked', n: 3 },
      { state: 'published', n: 1 },
      { state: 'ready', n: 3 },
    ])
  })

  it('deletes in bounded batches, and continues in the next round', async () => {
    await using world = await open()
    await fill(world, [200, 201, 202, 203, 204])
    // The first round deletes two batches of two from each table; the next round deletes the last rows.
    const { runtime, deleted, done, cleanup } = counting({ batch: 2, batches: 2, keepPublished: false, interval: 1 }, world, 9)
    await passTime(runtime, done)
    await cleanup.stop()
    expect(deleted).toEqual({ inbox: 5, idempotency: 5, process: 5 })
    expect(await world.inbox()).toBe(0)
    expect(await world.query("SELECT count(*)::int AS n FROM ackord_outbox WHERE state = 'published'")).toEqual([{ n: 5 }])
  })

  it('takes turns: of many processes, one works per interval, by the clock of the database', async () => {
    await using world = await open()
    const { driver, dialect, tables } = portOf(world.database)
    const ask = (interval: number) => dialect.store.takeTurn(driver as Driver<unknown>, tables({}).meta, { name: 'cleanup', interval })
    const first = await Promise.all(Array.from({ length: 10 }, () => ask(hour)))
    expect(first.filter((isOurs) => isOurs)).toHaveLength(1)
    expect(await ask(hour)).toBe(false)
    await world.query("UPDATE ackord_meta SET changed_at = changed_at - interval '1 hour' WHERE name = 'cleanup'")
    const second = await Promise.all(Array.from({ length: 10 }, () => ask(hour)))
    expect(second.filter((isOurs) => isOurs)).toHaveLength(1)
  })

  it('logs once that it fails, and once that it works again', async () => {
    await using world = await open()
    await world.query('ALTER TABLE ackord_inbox RENAME TO elsewhere')
    const logger = recordingLogger()
    const { runtime, done, cleanup } = counting({ logger, interval: 1, keepPublished: false }, world, 1)
    let failed = () => {}
    const warned = new Promise<void>((resolve) => {
      failed = resolve
    })
    void (async () => {
      while (logger.at('warn').length === 0) await new Promise((resolve) => setImmediate(resolve))
      failed()
    })()
    await passTime(runtime, warned)
    await world.query('ALTER TABLE elsewhere RENAME TO ackord_inbox')
    await passTime(runtime, done)
    await cleanup.stop()
    expect(logger.at('warn')).toHaveLength(1)
    expect(logger.at('info').map(({ text }) => text)).toContain('The cleanup works again.')
  })

  it('warns about a window shorter than the redelivery horizon, and rejects invalid options', async () => {
    await using world = await open()
    const logger = recordingLogger()
    await startCleanup(world.database, { logger, inboxWindow: hour, redeliveryHorizon: 2 * hour }).stop()
    expect(logger.lines).toEqual([expect.objectContaining({ level: 'warn', text: expect.stringContaining('inboxWindow') })])
    for (const wrong of [{ interval: 0 }, { batch: 0 }, { inboxWindow: 0 }, { keepPublished: -1 }, { window: 1 }]) {
      expect(() => startCleanup(world.database, wrong as CleanupOptions)).toThrow()
    }
  })

  it('stops immediately while it waits, and stopping twice is harmless', async () => {
    await using world = await open()
    const cleanup = startCleanup(world.database)
    await cleanup.stop()
    await cleanup.stop()
    await cleanup[Symbol.asyncDispose]()
    expect(await world.query("SELECT 1 FROM ackord_meta WHERE name = 'cleanup'")).toEqual([])
  })
})
