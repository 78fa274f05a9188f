import { jsonMarshaler, type Message, marshal, type Process, rootContext, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { type Database, sqlOutbox, transactional } from '../../src/index.ts'
import { mysqlKinds } from '../mysql/support/mysql-world.ts'
import { sqliteKinds } from '../sqlite/support/sqlite-world.ts'
import { type ClientWorld, onEachClient } from '../support/client-worlds.ts'
import { command, event, openPg } from '../support/world.ts'

const failure = new Error('failed')

/** Processes messages concurrently, as a router would, and redelivers those that failed, as a broker would. */
async function deliver<Handle>(database: Database<Handle>, process: Process, ids: readonly string[]) {
  const run = transactional(database, {
    inbox: { consumer: 'orders' },
    outbox: { destination: 'events' },
    transaction: { logger: silentLogger, retries: 0 },
    groupCommit: { size: 50, groups: 1 },
  })(process)
  const errors: Record<string, unknown> = {}
  async function handleOne(id: string, deliveries: number): Promise<void> {
    const { message } = command(id)
    try {
      await run(message, message.context(rootContext()))
    } catch (error) {
      errors[id] = error
      if (deliveries < 3) await handleOne(id, deliveries + 1)
    }
  }
  await Promise.all(ids.map((id) => handleOne(id, 1)))
  return errors
}

const ids = ['a', 'b', 'c', 'd', 'e']

function testEarlyEnd<Handle>(name: string, open: () => Promise<ClientWorld<Handle>>): void {
  describe(`a handler that ends its transaction on ${name}`, () => {
    it.each(['/* tag */ COMMIT', '-- tag\nCOMMIT', 'SELECT 1; COMMIT', "SELECT ';'; COMMIT; BEGIN", 'ROLLBACK'])(
      'is rejected, and the other messages of its group are handled: %j',
      async (sql) => {
        await using world = await open()
        const { database } = world
        let failures = 1
        const errors = await deliver(
          database,
          async (message) => {
            await world.insert(database.executor(), `${message.id}`)
            if (message.id === 'a') await world.run(database.executor(), sql)
            if (message.id === 'b' && failures-- > 0) throw failure
            return [event(`e-${message.id}`)]
          },
          ids,
        )
        expect(errors).toMatchObject({ a: { code: 'ACKORD_TRANSACTION_REQUIRED' } })
        expect(await world.column('SELECT id FROM orders ORDER BY id')).toEqual(['b', 'c', 'd', 'e'])
        expect(await world.column('SELECT id FROM ackord_inbox ORDER BY id')).toEqual(['b', 'c', 'd', 'e'])
        expect(await world.column('SELECT id FROM ackord_outbox ORDER BY id')).toEqual(['e-b', 'e-c', 'e-d', 'e-e'])
      },
    )
  })
}

onEachClient(testEarlyEnd)

/** Handles a group of messages in which `b` ends the transaction with `end`, a statement whose text does not show it. */
async function endedEarly<Handle>(world: {
  readonly database: Database<Handle>
  readonly insert: (transaction: Handle, id: string) => Promise<unknown>
  readonly end: () => Promise<unknown>
}) {
  const { database } = world
  const calls: string[] = []
  const errors = await deliver(
    database,
    async (message): Promise<readonly Message[]> => {
      calls.push(`${message.id}`)
      await world.insert(database.executor(), `${message.id}`)
      if (message.id === 'b') await world.end()
      return [event(`e-${message.id}`)]
    },
    ids,
  )
  return { calls, errors }
}

describe('a group transaction that was ended by a statement whose text does not show it', () => {
  /** A statement that was prepared before is sent without its text. */
  it.each(['COMMIT', 'COMMIT AND CHAIN'])('keeps the handled messages, and handles the rest, after %s on pg', async (sql) => {
    await using world = await openPg({ max: 1 })
    const client = await world.client()
    await client.query('BEGIN')
    await client.query({ name: 'end_it', text: sql })
    if (sql !== 'COMMIT') await client.query('ROLLBACK')
    client.release()
    const { database } = world
    const { calls, errors } = await endedEarly({
      database,
      insert: (transaction, id) => transaction.query('INSERT INTO orders (id) VALUES ($1)', [id]),
      end: () => database.executor().query({ name: 'end_it' } as never),
    })
    expect(errors).toMatchObject({ b: { code: 'ACKORD_SCOPE_ENDED', message: expect.stringMatching(/had ended the transaction/) } })
    expect(Object.keys(errors)).toEqual(['b'])
    expect(calls).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect([await world.orders(), await world.inbox()]).toEqual([5, 5])
    // The writes of b before its COMMIT are committed, but its event is not stored.
    expect(await world.query('SELECT id FROM ackord_outbox ORDER BY id')).toEqual(['e-a', 'e-c', 'e-d', 'e-e'].map((id) => ({ id })))
  })

  it.each([['COMMIT'], ['COMMIT; BEGIN']])('keeps the handled messages, and handles the rest, after %s on SQLite', async (sql) => {
    for (const kind of sqliteKinds) {
      await using world = await kind.open()
      const { database, client } = world
      const { calls, errors } = await endedEarly({
        database,
        insert: async (transaction, id) => transaction.prepare('INSERT INTO orders (id) VALUES (?)').run(id),
        // Uses the client itself, bypassing the handle.
        end: async () => client.exec(sql),
      })
      expect(errors).toMatchObject({ b: { code: 'ACKORD_SCOPE_ENDED' } })
      expect([Object.keys(errors), calls]).toEqual([['b'], ['a', 'b', 'c', 'd', 'e']])
      expect([world.count('orders'), world.count('ackord_inbox')]).toEqual([5, 5])
      expect(world.query('SELECT id FROM ackord_outbox ORDER BY id')).toEqual(['e-a', 'e-c', 'e-d', 'e-e'].map((id) => ({ id })))
    }
  })

  it('removes the inbox rows of the others even if the router has stopped waiting', async () => {
    for (const kind of sqliteKinds) {
      await using world = await kind.open()
      const { database, client } = world
      const stopped = new AbortController()
      const run = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: { logger: silentLogger, retries: 0 },
        groupCommit: { size: 50, groups: 1 },
      })(async (message) => {
        if (message.id === 'b') {
          client.exec('COMMIT')
          stopped.abort(new Error('stopped'))
        }
        return [event(`e-${message.id}`)]
      })
      const context = rootContext({ signal: stopped.signal })
      const messages = ids.map((id) => command(id).message)
      await Promise.allSettled(messages.map((message) => run(message, message.context(context))))
      // When c, d and e are redelivered, they must not be treated as duplicates.
      expect(world.query('SELECT id FROM ackord_inbox ORDER BY id')).toEqual(['a', 'b'].map((id) => ({ id })))
      expect(world.query('SELECT id FROM ackord_outbox ORDER BY id')).toEqual([{ id: 'e-a' }])
    }
  })

  it('handles each alone when it was rolled back', async () => {
    for (const kind of sqliteKinds) {
      await using world = await kind.open()
      const { database, client } = world
      let isFirst = true
      const { errors } = await endedEarly({
        database,
        insert: async (transaction, id) => transaction.prepare('INSERT INTO orders (id) VALUES (?)').run(id),
        async end() {
          if (isFirst) client.exec('ROLLBACK')
          isFirst = false
        },
      })
      expect(errors).toEqual({})
      expect(['orders', 'ackord_inbox', 'ackord_outbox'].map((table) => world.count(table))).toEqual([5, 5, 5])
    }
  })

  describe.each(mysqlKinds)('on $name', ({ open }) => {
    it.each(['COMMIT', 'COMMIT AND CHAIN', 'BEGIN COMMIT; START TRANSACTION; END'])(
      'is not ended by a procedure, which is called alone: %s',
      async (body) => {
        await using world = await open()
        const { database } = world
        await world.query(`CREATE PROCEDURE ends() ${body}`)
        const { calls, errors } = await endedEarly({
          database,
          insert: (transaction, id) => transaction.query('INSERT INTO orders (id) VALUES (?)', [id]),
          end: () => database.executor().query('CALL ends()'),
        })
        expect(errors).toMatchObject({ b: { code: 'ACKORD_SCOPE_ENDED' } })
        expect(calls).toEqual(['a', 'b', 'a', 'b', 'c', 'd', 'e'])
        expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([5, 5, 4])
      },
    )

    it('allows a procedure that leaves the transaction open', async () => {
      await using world = await open()
      const { database } = world
      await world.query("CREATE PROCEDURE notes() INSERT INTO orders (id) VALUES ('by procedure')")
      const { errors } = await endedEarly({
        database,
        insert: (transaction, id) => transaction.query('INSERT INTO orders (id) VALUES (?)', [id]),
        end: () => database.executor().query('CALL notes()'),
      })
      expect(errors).toEqual({})
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([6, 5, 5])
    })

    it('is not treated as done when a handler hides that its procedure was rejected', async () => {
      await using world = await open()
      const { database } = world
      await world.query("CREATE PROCEDURE notes() INSERT INTO orders (id) VALUES ('by procedure')")
      const { errors } = await endedEarly({
        database,
        insert: (transaction, id) => transaction.query('INSERT INTO orders (id) VALUES (?)', [id]),
        end: async () =>
          await database
            .executor()
            .query('CALL notes()')
            .catch(() => {}),
      })
      expect(errors).toEqual({})
      expect(await world.orders()).toBe(6)
    })
  })
})

it('fails only the message that ended its transaction by a statement whose text does not show it', async () => {
  await using world = await openPg({ max: 1 })
  const { database } = world
  const client = await world.client()
  await client.query('BEGIN')
  await client.query({ name: 'end_it', text: 'COMMIT AND CHAIN' })
  await client.query('ROLLBACK')
  client.release()
  const outbox = sqlOutbox(database, { logger: silentLogger })
  const failed = database.write(async (transaction) => {
    await transaction.query("INSERT INTO orders (id) VALUES ('1')")
    await transaction.query({ name: 'end_it' } as never)
    await outbox.append(transaction, [{ destination: 'events', message: marshal(event('e1'), jsonMarshaler) }])
  })
  await expect(failed).rejects.toMatchObject({ code: 'ACKORD_COMMIT_UNKNOWN', cause: { code: 'ACKORD_SCOPE_ENDED' } })
  expect(await world.outbox()).toBe(0)
  // The connection is not reused.
  expect(world.pool.totalCount).toBe(0)
})

describe('a handler that ended its transaction by a statement whose text does not show it, and then fails', () => {
  const settings = { logger: silentLogger }
  const ended = { code: 'ACKORD_SCOPE_ENDED', message: expect.stringMatching(/may be committed/), cause: failure }

  it('is reported to have ended it, on pg', async () => {
    await using world = await openPg({ max: 1 })
    const client = await world.client()
    await client.query({ name: 'end_it', text: 'COMMIT' })
    client.release()
    const failed = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')")
      await transaction.query({ name: 'end_it' } as never)
      throw failure
    }, settings)
    await expect(failed).rejects.toMatchObject(ended)
  })

  it('is reported to have ended it, on SQLite', async () => {
    for (const kind of sqliteKinds) {
      await using world = await kind.open()
      const failed = world.database.write(async (transaction) => {
        transaction.prepare("INSERT INTO orders (id) VALUES ('1')").run()
        world.client.exec('COMMIT')
        throw failure
      }, settings)
      await expect(failed).rejects.toMatchObject(ended)
    }
  })

  it.each(mysqlKinds)('is reported to have ended it when its procedure commits and fails, on $name', async ({ open }) => {
    await using world = await open()
    await world.query("CREATE PROCEDURE ends() BEGIN COMMIT; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END")
    const failed = world.database.write(async (transaction) => {
      await transaction.query("INSERT INTO orders (id) VALUES ('1')", [])
      await transaction.query('CALL ends()', [])
    }, settings)
    await expect(failed).rejects.toMatchObject({ code: 'ACKORD_SCOPE_ENDED', cause: { message: expect.stringContaining('no') } })
  })
})

it.each(mysqlKinds)('a handler on $name does not leave autocommit off', async ({ open }) => {
  await using world = await open({ max: 1 })
  const { database } = world
  const settings = { logger: silentLogger }
  const failed = database.write(async (transaction) => {
    await transaction.query("INSERT INTO orders (id) VALUES ('1')", [])
    await transaction.query('SET @a = 1, autocommit = 0', [])
  }, settings)
  await expect(failed).rejects.toMatchObject({ message: expect.stringContaining('autocommit') })
  await world.run("INSERT INTO orders (id) VALUES ('2')")
  expect(await world.query('SELECT id FROM orders')).toEqual([{ id: '2' }])
})

it.each(sqliteKinds)('lets messages that use savepoints share a transaction on $name', async ({ open }) => {
  await using world = await open()
  const { database } = world
  const calls: string[] = []
  const errors = await deliver(
    database,
    async (message) => {
      calls.push(`${message.id}`)
      database.executor().exec(`SAVEPOINT mine; INSERT INTO orders (id) VALUES ('${message.id}')`)
      return [event(`e-${message.id}`)]
    },
    ids,
  )
  expect([errors, calls]).toEqual([{}, ids])
  expect(['orders', 'ackord_inbox', 'ackord_outbox'].map((table) => world.count(table))).toEqual([5, 5, 5])
})
