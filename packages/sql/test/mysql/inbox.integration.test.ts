import { compose, type Middleware, outside, type Process, rootContext, silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { createPool } from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { cleanInbox, type Driver, inboxMiddleware, transactional, transactionMiddleware } from '../../src/index.ts'
import { fromMysql2 } from '../../src/mysql/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import { command, event, failureOf, handle } from '../support/world.ts'
import { auditOnce, type MysqlWorld, mysqlKinds, openMysql2, poolOptions } from './support/mysql-world.ts'

const failure = new Error('failed')

function once({ database }: MysqlWorld, options: Parameters<typeof transactionMiddleware>[1] = {}): Middleware {
  return compose(
    transactionMiddleware(database, { logger: silentLogger, ...options }),
    inboxMiddleware(database, { consumer: 'orders', schema: undefined }),
  )
}

function saving(world: MysqlWorld) {
  return async () => {
    await world.run('INSERT INTO orders (id) VALUES (UUID())')
    return []
  }
}

describe.each(mysqlKinds)('inboxMiddleware() on $name', ({ open }) => {
  it('distinguishes messages byte for byte, whatever the collations and the character set of the connection', async () => {
    await using world = await open({ pool: { charset: 'latin1' } })
    const ids = [
      'a',
      'A',
      'a ',
      'a  ',
      'á',
      'é',
      'e\u0301',
      'ß',
      'ss',
      'ключ',
      // The key above as drivers send it in latin1.
      ':;NG',
      'клюк',
      '😀',
      '😁',
      "';--",
      'back\\slash',
      '0',
      '00',
      '1e0',
      '1',
    ]
    for (const id of [...ids, ...ids]) await handle(once(world), saving(world), command(id).message)
    expect(await world.orders()).toBe(ids.length)
    // A5
    for (const source of ['/shop ', '/SHOP', '']) await handle(once(world), saving(world), command('a', { source }).message)
    expect(await world.orders()).toBe(ids.length + 3)
  })

  it('accepts keys of the maximum length, in full', async () => {
    await using world = await open()
    const long = (end: string) => command(`${'ä'.repeat(511)}${end}`, { source: `/${'s'.repeat(1023)}` }).message
    for (const end of ['1', '2', '1']) {
      const inbox = compose(transactionMiddleware(world.database), inboxMiddleware(world.database, { consumer: 'c'.repeat(255) }))
      await handle(inbox, saving(world), long(end))
    }
    expect([await world.orders(), await world.inbox()]).toEqual([2, 2])
  })

  it.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'lets the first of 50 concurrent duplicates win under %s',
    async (isolation) => {
      await using world = await open({ max: 20 })
      const commands = Array.from({ length: 50 }, () => command('1'))
      let handled = 0
      await Promise.all(
        commands.map(({ message }) =>
          handle(
            once(world, { isolation, retries: 50 }),
            async () => {
              handled += 1
              await world.run("INSERT INTO orders (id) VALUES ('1')")
              return []
            },
            message,
          ),
        ),
      )
      expect([handled, await world.orders(), await world.inbox()]).toEqual([1, 1, 1])
      expect(commands.filter(({ verdicts }) => verdicts.length === 1)).toHaveLength(49)
    },
  )

  it('lets one of many waiting messages continue when the first is rolled back', async () => {
    await using world = await open({ max: 20 })
    const begun = deferred()
    const end = deferred()
    const first = failureOf(
      handle(
        once(world),
        async () => {
          begun.resolve()
          await end.promise
          throw failure
        },
        command('1').message,
      ),
    )
    await begun.promise
    // All of them wait for the same row; those chosen as deadlock victims are retried.
    const others = Array.from({ length: 10 }, () => handle(once(world, { retries: 20 }), saving(world), command('1').message))
    for (let waiting = 0; waiting < 10; ) {
      waiting = (
        await world.query('SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO LIKE ?', [
          world.schema,
          '%INSERT INTO%ackord_inbox%',
        ])
      ).filter(({ ID }) => ID !== null).length
    }
    end.resolve()
    expect(await first).toBe(failure)
    await Promise.all(others)
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })

  it('reports a duplicate in another index of the table as an error', async () => {
    await using world = await open()
    await world.query('CREATE UNIQUE INDEX mine ON ackord_inbox (consumer)')
    await handle(once(world), saving(world), command('1').message)
    expect(await failureOf(handle(once(world), saving(world), command('2').message))).toMatchObject({ errno: 1062 })
    expect([await world.orders(), await world.inbox()]).toEqual([1, 1])
  })

  it.each(['BEFORE', 'AFTER'])('reports a duplicate of a trigger %s its row as an error, unless the row exists too', async (when) => {
    await using world = await open()
    await auditOnce(world, when)
    const [first, second] = [command('1'), command('2')]
    await handle(once(world), saving(world), first.message)
    expect(await failureOf(handle(once(world), saving(world), second.message))).toMatchObject({ errno: 1062 })
    // The same holds if it is not the first statement of its transaction, which then cannot be committed.
    const swallowing: Process = async (message, context) => {
      await saving(world)()
      await failureOf(inboxMiddleware(world.database, { consumer: 'orders' })(saving(world))(message, context))
      return []
    }
    expect(
      await failureOf(handle(transactionMiddleware(world.database, { logger: silentLogger }), swallowing, second.message)),
    ).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: { errno: 1062 } })
    expect([second.verdicts, await world.orders(), await world.inbox()]).toEqual([[], 1, 1])

    await handle(once(world), saving(world), first.message)
    expect([first.verdicts, await world.orders()]).toEqual([[{ verdict: 'ack' }], 1])
    await world.query('DROP TRIGGER audits')
    await handle(once(world), saving(world), second.message)
    expect([second.verdicts, await world.orders(), await world.inbox()]).toEqual([[], 2, 2])
  })

  it.each(['read committed', 'repeatable read'] as const)(
    'recognises a duplicate that was committed after its transaction had read the table, under %s',
    async (isolation) => {
      await using world = await open()
      const seen: unknown[] = []
      const inbox = inboxMiddleware(world.database, { consumer: 'orders', onDuplicate: ({ id }) => void seen.push(id) })
      await handle(transactionMiddleware(world.database, { isolation, logger: silentLogger }), async (message, context) => {
        await world.run('SELECT COUNT(*) FROM orders')
        await outside(() => handle(once(world), saving(world), command('1').message))
        return await inbox(saving(world))(message, context)
      })
      expect([seen, await world.orders(), await world.inbox()]).toEqual([['1'], 1, 1])
    },
  )

  it('stops waiting after lockTimeout for a message that another process handles, and can be redelivered', async () => {
    await using world = await open()
    const begun = deferred()
    const end = deferred()
    const first = handle(
      once(world),
      async () => {
        begun.resolve()
        await end.promise
        return await saving(world)()
      },
      command('1').message,
    )
    await begun.promise
    const second = command('1')
    expect(await failureOf(handle(once(world, { lockTimeout: 1000 }), saving(world), second.message))).toMatchObject({ errno: 1205 })
    end.resolve()
    await first
    await handle(once(world), saving(world), second.message)
    expect([second.verdicts, await world.orders(), await world.inbox()]).toEqual([[{ verdict: 'ack' }], 1, 1])
  })

  it('works in a transaction of the caller, also for duplicates', async () => {
    await using world = await open()
    const { database } = world
    const client = await world.connect()
    await client.query('START TRANSACTION')
    const seen: string[] = []
    for (const id of ['1', '1', '2']) {
      const { message } = command(id)
      const context = database.withTransaction(message.context(rootContext()), client)
      await inboxMiddleware(database, { consumer: 'orders' })(async () => {
        seen.push(id)
        return []
      })(message, context)
    }
    await client.query('COMMIT')
    await client.release()
    expect([seen, await world.inbox()]).toEqual([['1', '2'], 2])
  })

  it('recognises a duplicate with the INSERT privilege on the inbox and without SELECT', async () => {
    await using world = await openMysql2()
    const user = `u_${world.schema}`.slice(0, 32)
    await world.query(`CREATE USER ${user} IDENTIFIED BY 'x'`)
    try {
      await world.query(`GRANT INSERT ON ${world.schema}.ackord_inbox TO ${user}`)
      const pool = createPool({ ...poolOptions(world.schema, 1), user, password: 'x' })
      const process = compose(
        transactionMiddleware(fromMysql2(pool), { logger: silentLogger }),
        inboxMiddleware(fromMysql2(pool), { consumer: 'orders' }),
      )
      let calls = 0
      for (let delivery = 1; delivery <= 2; delivery += 1) {
        await handle(
          process,
          async () => {
            calls += 1
            return []
          },
          command('1').message,
        )
      }
      await pool.end()
      expect([calls, await world.inbox()]).toEqual([1, 1])
    } finally {
      await world.query(`DROP USER ${user}`)
    }
  })

  it('reports a duplicate of a trigger as an error in a transaction of the caller too', async () => {
    await using world = await open()
    const { database } = world
    await auditOnce(world, 'AFTER')
    const client = await world.connect()
    await client.query('START TRANSACTION')
    const seen: unknown[] = []
    const receive = async (id: string) => {
      const { message } = command(id)
      const context = database.withTransaction(message.context(rootContext()), client)
      const inbox = inboxMiddleware(database, { consumer: 'orders', onDuplicate: (duplicate) => void seen.push(duplicate.id) })
      await inbox(async () => [])(message, context)
    }
    await receive('1')
    expect(await failureOf(receive('2'))).toMatchObject({ errno: 1062 })
    await receive('1')
    await client.query('COMMIT')
    await client.release()
    expect([seen, await world.inbox()]).toEqual([['1'], 1])
  })

  it('remembers messages for its window and deletes them in bounded batches', async () => {
    await using world = await open()
    for (const id of ['1', '2', '3', '4']) await handle(once(world), saving(world), command(id).message)
    await world.query("UPDATE ackord_inbox SET received_at = received_at - INTERVAL 8 DAY WHERE id <> '4'")
    const holder = await world.connect()
    await holder.query('START TRANSACTION')
    await holder.query("SELECT * FROM ackord_inbox WHERE consumer = 'orders' AND source = '/shop' AND id = '2' FOR UPDATE")
    // A28: the cleanup does not wait for locked rows.
    expect(await cleanInbox(world.database, { limit: 1 })).toBe(1)
    expect(await cleanInbox(world.database)).toBe(1)
    await holder.query('ROLLBACK')
    await holder.release()
    expect(await cleanInbox(world.database)).toBe(1)
    expect(await cleanInbox(world.database)).toBe(0)
    expect(await world.query('SELECT id FROM ackord_inbox')).toEqual([{ id: '4' }])
  })

  it('says how to create missing tables', async () => {
    await using world = await open({ empty: true })
    const error = await failureOf(handle(once(world), async () => []))
    expect(error).toMatchObject({ name: 'SchemaError', problem: 'missing', message: expect.stringMatching(/createSchema/) })
  })
})

describe.each(mysqlKinds)('turns on $name', ({ open }) => {
  it('are granted to at most one caller per interval, by the database’s clock', async () => {
    await using world = await open()
    const { driver, dialect, tables } = portOf(world.database)
    const { meta } = tables({})
    const take = (interval: number) => dialect.store.takeTurn(driver as Driver<unknown>, meta, { name: 'cleanup', interval })
    const taken = await Promise.all(Array.from({ length: 10 }, () => take(60_000)))
    expect(taken.filter(Boolean)).toHaveLength(1)
    expect(await take(60_000)).toBe(false)
    await world.query("UPDATE ackord_meta SET changed_at = changed_at - INTERVAL 61 SECOND WHERE name = 'cleanup'")
    const again = await Promise.all(Array.from({ length: 10 }, () => take(60_000)))
    expect(again.filter(Boolean)).toHaveLength(1)
  })
})

describe.each(mysqlKinds)('a group of messages on $name', ({ open }) => {
  it('has the same outcome as one by one: with duplicates in the group and before it, and a failure', async () => {
    await using world = await open()
    const groupCommit = { size: 10, groups: 2 }
    const process = transactional(world.database, {
      inbox: { consumer: 'orders' },
      outbox: { destination: 'events' },
      transaction: { logger: silentLogger },
      groupCommit,
    })
    const place = (id: string) =>
      handle(
        process,
        async () => {
          if (id === '7') throw failure
          await world.run('INSERT INTO orders (id) VALUES (?)', [id])
          return [event(`e${id}`)]
        },
        command(id).message,
      )
    const ids = Array.from({ length: 25 }, (_, index) => `${index}`)
    await Promise.allSettled(ids.slice(0, 5).map(place))
    const settled = await Promise.allSettled([...ids, ...ids].map(place))
    expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(2)
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([24, 24, 24])
  })

  it('loses none of its messages to a duplicate of a trigger', async () => {
    await using world = await open()
    await auditOnce(world, 'AFTER')
    const process = transactional(world.database, {
      inbox: { consumer: 'orders' },
      outbox: { destination: 'events' },
      transaction: { logger: silentLogger },
      groupCommit: { size: 10, groups: 1 },
    })(async (message) => {
      await world.run('INSERT INTO orders (id) VALUES (?)', [message.id])
      return [event(`e${message.id}`)]
    })
    const placed = async () => {
      const commands = ['1', '2', '3'].map((id) => command(id))
      const settled = await Promise.allSettled(
        commands.map(({ message }) =>
          handle(
            () => process,
            async () => [],
            message,
          ),
        ),
      )
      return settled.map((one, index) => (one.status === 'rejected' ? one.reason.errno : (commands[index]?.verdicts.length ?? 0)))
    }
    // Each message is handled alone, and the trigger accepts only one.
    expect(await placed()).toEqual([0, 1062, 1062])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 1])
    // Now the first is a duplicate.
    expect(await placed()).toEqual([1, 1062, 1062])
    await world.query('DROP TRIGGER audits')
    expect(await placed()).toEqual([1, 0, 0])
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([3, 3, 3])
  })
})

it('handles a hundred concurrent messages of the same kind on a pool of ten connections', async () => {
  await using world = await openMysql2()
  await Promise.all(Array.from({ length: 100 }, (_, index) => handle(once(world), saving(world), command(`${index}`).message)))
  expect([await world.orders(), await world.inbox()]).toEqual([100, 100])
})
