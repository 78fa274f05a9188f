import { randomUUID } from 'node:crypto'
import { jsonMarshaler, marshal, rootContext, silentLogger, systemRuntime } from '@ackord/core'
import { deferred, recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { sqlOutbox, transactional } from '../../../src/index.ts'
import { channelOf, type PgNotificationClient, pgNotifications } from '../../../src/postgres/client/pg-notifications.ts'
import { fromPg } from '../../../src/postgres/index.ts'
import { postgresUrl } from '../../support/own-schema.ts'
import { pg } from '../../support/pg.ts'
import { command, event, failureOf, openPg } from '../../support/world.ts'

/** Counts wake-ups, and waits until there are a given number of them. */
function wakeCounter() {
  let count = 0
  let check = () => {}
  return {
    wake() {
      count += 1
      check()
    },
    get count() {
      return count
    },
    reaches: (wanted: number) =>
      new Promise<void>((resolve) => {
        check = () => {
          if (count >= wanted) resolve()
        }
        check()
      }),
  }
}

describe('the channel of an outbox', () => {
  it('is the name of its table, with or without a schema', () => {
    expect(channelOf('"ackord_outbox"')).toBe('ackord_outbox')
    expect(channelOf('"my.schema"."out""box"')).toBe('out"box')
  })
})

describe('notifications of PostgreSQL', () => {
  async function openListener(logger = silentLogger) {
    const table = `"notified ""${randomUUID()}"`
    const wakes = wakeCounter()
    const stop = new AbortController()
    const connect = () => new pg.Client(postgresUrl)
    const following = pgNotifications(connect).follow(table, wakes.wake, { signal: stop.signal, runtime: systemRuntime, logger })
    const door = new pg.Client(postgresUrl)
    await door.connect()
    return {
      wakes,
      door,
      notify: () => door.query('SELECT pg_notify($1, $2)', [channelOf(table), '']),
      async [Symbol.asyncDispose]() {
        stop.abort()
        await following
        await door.end()
      },
    }
  }

  it('wake the relay as soon as they listen, and for every later commit', async () => {
    await using listener = await openListener()
    await listener.wakes.reaches(1)
    await listener.notify()
    await listener.wakes.reaches(2)
    await listener.door.query('BEGIN')
    await listener.notify()
    await listener.notify()
    await listener.door.query('ROLLBACK')
    await listener.notify()
    await listener.wakes.reaches(3)
    expect(listener.wakes.count).toBe(3)
  })

  it('reconnect when their connection is terminated, and wake for missed commits', async () => {
    const logger = recordingLogger()
    await using listener = await openListener(logger)
    await listener.wakes.reaches(1)
    const { rows } = await listener.door.query(
      "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN \"notified%' AND pid <> pg_backend_pid()",
    )
    for (const { pid } of rows) await listener.door.query('SELECT pg_terminate_backend($1)', [pid])
    await listener.wakes.reaches(2)
    await listener.notify()
    await listener.wakes.reaches(3)
    expect(logger.at('warn')).toHaveLength(1)
    expect(logger.at('info')).toHaveLength(1)
  })

  it('log a failure once, and retry less and less often', async () => {
    const runtime = new VirtualRuntime()
    const logger = recordingLogger()
    const stop = new AbortController()
    let tries = 0
    const connect = () => {
      tries += 1
      return new pg.Client('postgres://postgres@127.0.0.1:1/none')
    }
    const following = pgNotifications(connect).follow('"t"', () => {}, { signal: stop.signal, runtime, logger })
    while (tries < 4) {
      await settlePromises()
      await runtime.advance(500)
    }
    expect(runtime.now() - Date.UTC(2026, 0, 1)).toBeGreaterThan(1500)
    stop.abort()
    await following
    expect(logger.at('warn')).toHaveLength(1)
    expect(runtime.timers).toBe(0)
  })

  it('drop a connection that does not respond', async () => {
    const runtime = new VirtualRuntime()
    const stop = new AbortController()
    const wakes = wakeCounter()
    const ended: number[] = []
    let made = 0
    const hanging = deferred<unknown>()
    const connect = (): PgNotificationClient => {
      made += 1
      const number = made
      return {
        connect: async () => {},
        query: (sql) => (number === 1 && sql === 'SELECT 1' ? hanging.promise : Promise.resolve()),
        end: async () => void ended.push(number),
        on: () => {},
      }
    }
    const following = pgNotifications(connect).follow('"t"', wakes.wake, { signal: stop.signal, runtime, logger: silentLogger })
    await settlePromises()
    expect(wakes.count).toBe(1)
    await runtime.advance(60_000 + 10_000 + 1000)
    expect([ended, made, wakes.count]).toEqual([[1], 2, 2])
    await runtime.advance(600_000)
    expect(made).toBe(2)
    stop.abort()
    await following
    expect(runtime.timers).toBe(0)
  })

  it('retry when the factory throws', async () => {
    const runtime = new VirtualRuntime()
    const stop = new AbortController()
    let tries = 0
    const connect = (): PgNotificationClient => {
      tries += 1
      throw new Error('no address')
    }
    const following = pgNotifications(connect).follow('"t"', () => {}, { signal: stop.signal, runtime, logger: silentLogger })
    await runtime.advance(5000)
    expect(tries).toBeGreaterThan(1)
    stop.abort()
    await following
  })
})

describe('an outbox with notifications', () => {
  async function openOutbox() {
    const world = await openPg()
    const { schema } = world
    const listener = () => new pg.Client(postgresUrl)
    const wakes = wakeCounter()
    const stop = new AbortController()
    const outbox = sqlOutbox(fromPg(world.pool, { schema }), { notifications: pgNotifications(listener), logger: silentLogger })
    const following = (async () => {
      for await (const _ of outbox.wakeUps?.({ signal: stop.signal }) ?? []) wakes.wake()
    })()
    await wakes.reaches(1)
    const otherPool = new pg.Pool({ connectionString: postgresUrl, max: 2 })
    const other = fromPg(otherPool, { schema, notify: true })
    return {
      outbox,
      wakes,
      other,
      schema,
      quiet: fromPg(otherPool, { schema }),
      async [Symbol.asyncDispose]() {
        stop.abort()
        await following
        await otherPool.end()
        await world[Symbol.asyncDispose]()
      },
    }
  }
  const records = (...ids: readonly string[]) => ids.map((id) => ({ destination: 'events', message: marshal(event(id), jsonMarshaler) }))

  it('reports that it is notified of every commit, and wakes for those of other notifying processes', async () => {
    await using world = await openOutbox()
    const { outbox, other, quiet, wakes } = world
    expect(outbox.capabilities.notifies).toBe(true)
    await quiet.write((transaction) => sqlOutbox(quiet).append(transaction, records('quiet')))
    await other.write((transaction) => sqlOutbox(other).append(transaction, records('e-1', 'e-2')))
    await wakes.reaches(2)
    const middleware = transactional(other, {
      inbox: { consumer: 'orders' },
      outbox: { destination: 'events' },
      groupCommit: { size: 8, groups: 1 },
    })
    const process = middleware(async (given) => [event(`of-${given.id}`)])
    const deliver = (id: string) => {
      const { message } = command(id)
      return process(message, message.context(rootContext()))
    }
    await Promise.all(['1', '2', '3'].map(deliver))
    await wakes.reaches(3)
    expect(wakes.count).toBe(3)
  })

  it('does not wake for a rollback', async () => {
    await using world = await openOutbox()
    const { other, wakes } = world
    const rejected = other.write(async (transaction) => {
      await sqlOutbox(other).append(transaction, records('e-1'))
      throw new Error('no')
    })
    await failureOf(rejected)
    await other.write((transaction) => sqlOutbox(other).append(transaction, records('e-2')))
    await wakes.reaches(2)
    expect(wakes.count).toBe(2)
  })
})
