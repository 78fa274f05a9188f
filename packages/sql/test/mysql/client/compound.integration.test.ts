import { type Message, type Process, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import {
  CommitUnknownError,
  inboxMiddleware,
  sqlOutbox,
  type TransactionOptions,
  transactional,
  transactionMiddleware,
} from '../../../src/index.ts'
import { command, event, failureOf, handle } from '../../support/world.ts'
import { checkViolated, isMariadb, statementsPerMessage } from '../support/flavour.ts'
import { auditOnce, type MysqlWorld, mysqlKinds } from '../support/mysql-world.ts'
import { needOrder, needsOrder, openRival } from '../support/rival.ts'

const failure = new Error('failed')
const inbox = { consumer: 'orders' }
const nothing = [0, 0, 0]

function insert({ run }: MysqlWorld, id: string): Promise<unknown> {
  return run('INSERT INTO orders (id) VALUES (?)', [id])
}

/** Handles a command that inserts an order and returns an event. `more` runs in between. */
function place(
  world: MysqlWorld,
  id: string,
  { more = async () => {}, ...transaction }: TransactionOptions & { readonly more?: () => Promise<unknown> } = {},
): Promise<readonly Message[]> {
  const settings = { logger: silentLogger, retries: 0, ...transaction }
  const process: Process = async () => {
    await insert(world, id)
    await more()
    return [event(`e${id}`)]
  }
  return handle(
    transactional(world.database, { inbox, outbox: { destination: 'events' }, transaction: settings }),
    process,
    command(id).message,
  )
}

/** The number of rows that a command has in the orders, the inbox and the outbox. */
async function storedOf({ query }: MysqlWorld, id: string): Promise<number[]> {
  const count = async (table: string, key: string) =>
    Number((await query(`SELECT COUNT(*) AS n FROM ${table} WHERE id = ?`, [key]))[0]?.['n'])
  return [await count('orders', id), await count('ackord_inbox', id), await count('ackord_outbox', `e${id}`)]
}

async function connectionOf({ run }: MysqlWorld): Promise<number> {
  return Number((await run('SELECT CONNECTION_ID() AS id'))[0]?.['id'])
}

/** Expects the pool's only connection to be the same one, usable, with no open transaction and no changed settings. */
async function expectUnchanged(world: MysqlWorld, connection: number): Promise<void> {
  // The server rejects this statement while a transaction is open.
  await world.run('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
  const time = isMariadb ? '@@max_statement_time' : '0'
  const [row] = await world.run(`SELECT ${time} AS time, @@innodb_lock_wait_timeout AS \`lock\``)
  expect(Object.values(row ?? {}).map(Number)).toEqual([0, 50])
  await world.query('DROP TRIGGER IF EXISTS needs_order')
  await place(world, 'next')
  expect([await storedOf(world, 'next'), await connectionOf(world)]).toEqual([[1, 1, 1], connection])
}

const tables = [
  [
    'first',
    'ackord_inbox',
    "INSERT INTO ackord_inbox (consumer, source, id, received_at) VALUES ('orders', '/shop', '1', UTC_TIMESTAMP(6))",
  ],
  ['last', 'ackord_outbox', "UPDATE orders SET note = 'theirs' WHERE id = 'b'"],
] as const

describe.each(mysqlKinds)('a transaction with compound statements, on $name', ({ open }) => {
  it.each(tables)('commits nothing, and says why, when it loses a deadlock in its %s statement', async (_, table, contested) => {
    await using world = await open({ max: 1 })
    await needOrder(world, table)
    const connection = await connectionOf(world)
    {
      await using rival = await openRival(world)
      const losing = failureOf(place(world, '1', { more: () => world.run("UPDATE orders SET note = 'ours' WHERE id = 'b'") }))
      await needsOrder(world)
      await rival.query(contested)
      expect(await losing).toMatchObject({ errno: 1213 })
    }
    expect(await storedOf(world, '1')).toEqual(nothing)
    await expectUnchanged(world, connection)
  })

  it.each(tables)('is retried as a whole when it loses a deadlock in its %s statement', async (_, table, contested) => {
    await using world = await open({ max: 1 })
    await needOrder(world, table)
    let placing: Promise<unknown>
    {
      await using rival = await openRival(world)
      placing = place(world, '1', { retries: 1, more: () => world.run("UPDATE orders SET note = 'ours' WHERE id = 'b'") })
      await needsOrder(world)
      await rival.query(contested)
    }
    await placing
    expect(await storedOf(world, '1')).toEqual([1, 1, 1])
  })

  it.each(tables)('commits nothing, and says why, when its %s statement waits too long for a lock', async (_, table) => {
    await using world = await open({ max: 1 })
    await needOrder(world, table)
    const connection = await connectionOf(world)
    {
      await using _rival = await openRival(world)
      expect(await failureOf(place(world, '1', { lockTimeout: 1000 }))).toMatchObject({ errno: 1205 })
    }
    expect(await storedOf(world, '1')).toEqual(nothing)
    await expectUnchanged(world, connection)
  })

  const withStatementTimeout = isMariadb ? tables : []
  it.each(withStatementTimeout)('commits nothing, and says why, when its %s statement takes too long', async (_, table) => {
    await using world = await open({ max: 1 })
    await needOrder(world, table)
    const connection = await connectionOf(world)
    {
      await using _rival = await openRival(world)
      expect(await failureOf(place(world, '1', { statementTimeout: 200 }))).toMatchObject({ errno: 1969 })
    }
    expect(await storedOf(world, '1')).toEqual(nothing)
    await expectUnchanged(world, connection)
  })

  it.each(tables)('commits nothing, and says why, when its %s statement is killed', async (_, table) => {
    await using world = await open({ max: 1 })
    await needOrder(world, table)
    const connection = await connectionOf(world)
    {
      await using _rival = await openRival(world)
      const killed = failureOf(place(world, '1'))
      await world.query(`KILL QUERY ${await needsOrder(world)}`)
      expect(await killed).toMatchObject({ errno: 1317 })
    }
    expect(await storedOf(world, '1')).toEqual(nothing)
    await expectUnchanged(world, connection)
  })

  it.each(tables)('does not reuse a connection that is killed in its %s statement', async (which, table) => {
    await using world = await open({ max: 1 })
    await needOrder(world, table)
    const connection = await connectionOf(world)
    {
      await using _rival = await openRival(world)
      const killed = failureOf(place(world, '1'))
      await world.query(`KILL ${await needsOrder(world)}`)
      // On MariaDB the last statement includes COMMIT, and its outcome cannot be queried on a killed connection.
      expect((await killed) instanceof CommitUnknownError).toBe(isMariadb && which === 'last')
    }
    await place(world, '1')
    expect([await storedOf(world, '1'), (await connectionOf(world)) === connection]).toEqual([[1, 1, 1], false])
  })

  if (isMariadb) {
    it('commits nothing, and says why, when a row that its last statement needs was changed', async () => {
      await using world = await open({ max: 1 })
      await needOrder(world, 'ackord_outbox')
      await world.run('SET SESSION innodb_snapshot_isolation = ON')
      const connection = await connectionOf(world)
      let calls = 0
      async function changeMeanwhile() {
        calls += 1
        await world.run('SELECT COUNT(*) FROM orders')
        if (calls < 3) await world.query(`UPDATE orders SET note = '${calls}' WHERE id = 'a'`)
      }
      expect(await failureOf(place(world, '1', { more: changeMeanwhile }))).toMatchObject({ errno: 1020 })
      expect(await storedOf(world, '1')).toEqual(nothing)
      // The transaction lost a conflict, as in a deadlock, so it is retried.
      await place(world, '1', { more: changeMeanwhile, retries: 1 })
      expect([calls, await storedOf(world, '1')]).toEqual([3, [1, 1, 1]])
      await expectUnchanged(world, connection)
    })
  }

  it.each(tables)('commits with the changes of a trigger of its %s statement, or not at all', async (_, table) => {
    await using world = await open({ max: 1 })
    await world.query('CREATE TABLE audit (n INT)')
    await world.query(`CREATE TRIGGER audits AFTER INSERT ON ${table} FOR EACH ROW INSERT INTO audit VALUES (1), (2)`)
    // The server adds the rows of triggers to the affected rows of the statement, which show whether a message is new.
    await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
    await world.query(`CREATE TRIGGER counts BEFORE INSERT ON ${table} FOR EACH ROW UPDATE orders SET note = UUID() WHERE id IN ('a', 'b')`)
    await place(world, '1')
    await world.query(
      `CREATE TRIGGER fails AFTER INSERT ON ${table} FOR EACH ROW FOLLOWS audits SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'`,
    )
    expect(await failureOf(place(world, '2'))).toMatchObject({ errno: 1644 })
    expect([await storedOf(world, '1'), await storedOf(world, '2')]).toEqual([[1, 1, 1], nothing])
    expect(await world.query('SELECT n FROM audit')).toHaveLength(2)
  })

  it.each(tables)('still uses compound statements after a trigger of its %s statement reported a syntax error', async (_, table) => {
    await using world = await open({ max: 1 })
    await world.query(`CREATE TRIGGER fails AFTER INSERT ON ${table} FOR EACH ROW SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1064`)
    expect(await failureOf(place(world, '1'))).toMatchObject({ errno: 1064 })
    expect(await storedOf(world, '1')).toEqual(nothing)
    await world.query('DROP TRIGGER fails')
    await place(world, '2')
    const statements = await questions(world)
    await place(world, '3')
    expect(await statements()).toBe(statementsPerMessage)
  })

  it.each(['CHAIN', 'RELEASE'])('ends as a whole, and ends nothing else, if completion_type is %s', async (type) => {
    await using world = await open({ max: 1 })
    await world.run(`SET SESSION completion_type = '${type}'`)
    const connection = await connectionOf(world)
    // Fails if a transaction is still open, because the isolation level cannot be set inside a transaction.
    for (const id of ['1', '2']) await place(world, id, { isolation: 'read committed' })
    expect(await failureOf(place(world, '3', { more: () => Promise.reject(failure) }))).toBe(failure)
    await world.database.write(() => insert(world, '4'))
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([3, 2, 2])
    await expectUnchanged(world, connection)
  })

  it('checks again before it treats a message as a duplicate, but not for a new one', async () => {
    await using world = await open({ max: 1 })
    await auditOnce(world, 'AFTER')
    const connection = await connectionOf(world)
    await place(world, '1')
    let statements = await questions(world)
    expect(await failureOf(place(world, '2'))).toMatchObject({ errno: 1062 })
    // The first statement, the check for the row, and ROLLBACK; on MySQL also START TRANSACTION.
    const forDuplicate = isMariadb ? 3 : 4
    expect([await statements(), await storedOf(world, '2')]).toEqual([forDuplicate, nothing])
    statements = await questions(world)
    await place(world, '1')
    expect(await statements()).toBe(forDuplicate)
    await world.query('DROP TRIGGER audits')
    await place(world, '2')
    statements = await questions(world)
    await place(world, '3')
    // The inbox with START TRANSACTION, the handler's statement, and the outbox with COMMIT.
    expect([await statements(), await storedOf(world, '2'), await storedOf(world, '3')]).toEqual([
      statementsPerMessage,
      [1, 1, 1],
      [1, 1, 1],
    ])
    await expectUnchanged(world, connection)
  })

  it('continues after a duplicate, and commits the later changes of the handler or nothing', async () => {
    await using world = await open({ max: 1 })
    await place(world, '1')
    const again = (id: string, fail: boolean) =>
      handle(transactionMiddleware(world.database), async (message, context) => {
        // The first statement of the transaction, which finds the row.
        await inboxMiddleware(world.database, inbox)(async () => [])(message, context)
        await insert(world, id)
        if (fail) throw failure
        return []
      })
    expect(await failureOf(again('lost', true))).toBe(failure)
    await again('kept', false)
    expect((await world.query("SELECT id FROM orders WHERE id <> '1'")).map(({ id }) => id)).toEqual(['kept'])
  })

  it('stores appended records in order: twice, around a query, in a savepoint, un-awaited', async () => {
    await using world = await open({ max: 1 })
    const { database } = world
    const store = sqlOutbox(database, { logger: silentLogger })
    const append = (id: string) => store.append(database.executor(), [{ destination: 'events', message: raw(id) }])
    const nested = (fail: boolean, id: string): Process =>
      transactionMiddleware(database)(async () => {
        await append(id)
        if (fail) throw failure
        return []
      })
    await handle(transactionMiddleware(database), async (message, context) => {
      await append('1')
      await append('2')
      expect(await failureOf(nested(true, 'lost')(message, context))).toBe(failure)
      await insert(world, 'between')
      await append('3')
      await nested(false, '4')(message, context)
      void append('5')
      void append('6')
      void insert(world, 'last')
      void append('7')
      return []
    })
    const claimed = await store.claim({ limit: 10, lease: 60_000 })
    expect([claimed.map(({ message }) => message.id), await world.orders()]).toEqual([['1', '2', '3', '4', '5', '6', '7'], 2])
  })

  it('commits nothing when one of several un-awaited statements fails', async () => {
    await using world = await open({ max: 1 })
    const { database } = world
    await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> '2')")
    const store = sqlOutbox(database, { logger: silentLogger })
    const append = (id: string) => store.append(database.executor(), [{ destination: 'events', message: raw(id) }])
    for (const ids of [
      ['1', '2', '3'],
      ['2', '3'],
      ['1', '2'],
    ]) {
      const failing = handle(transactionMiddleware(database), async () => {
        await insert(world, 'x')
        for (const id of ids) append(id).catch(() => {})
        return []
      })
      const error = await failureOf(failing)
      expect(error).not.toBeInstanceOf(CommitUnknownError)
      expect([error, error.cause]).toContainEqual(expect.objectContaining({ errno: checkViolated }))
      expect([await world.orders(), await world.outbox()]).toEqual([0, 0])
    }
  })

  it('has a known outcome when the connection was lost before its last statement', async () => {
    await using world = await open({ max: 1 })
    const lost = place(world, '1', {
      async more() {
        await world.query(`KILL ${await connectionOf(world)}`)
        // The failed statement tells the client that the connection is lost; the handler ignores the error.
        await failureOf(world.run('SELECT 1'))
      },
    })
    expect(await failureOf(lost)).not.toBeInstanceOf(CommitUnknownError)
    expect(await storedOf(world, '1')).toEqual(nothing)
    await place(world, '1')
    expect(await storedOf(world, '1')).toEqual([1, 1, 1])
  })

  it('keeps its tables when they are changed after its statements were prepared', async () => {
    await using world = await open({ max: 1 })
    await world.query('CREATE TABLE audit (n INT)')
    await place(world, '1')
    for (const table of ['ackord_inbox', 'ackord_outbox']) {
      await world.query(`ALTER TABLE ${table} ADD COLUMN more INT DEFAULT 1 FIRST`)
      await world.query(`CREATE TRIGGER audits_${table} AFTER INSERT ON ${table} FOR EACH ROW INSERT INTO audit VALUES (1)`)
    }
    await place(world, '2')
    expect([await storedOf(world, '2'), await world.query('SELECT n FROM audit')]).toMatchObject([[1, 1, 1], { length: 2 }])
  })

  it('uses triggers created after its statements were prepared, on another connection if necessary', async () => {
    await using world = await open({ max: 1 })
    await world.query('CREATE TABLE audit (n INT)')
    await world.query('CREATE TABLE more_audit (n INT)')
    for (const table of ['ackord_inbox', 'ackord_outbox']) {
      for (const audit of ['audit', 'more_audit']) {
        await world.query('DROP TRIGGER IF EXISTS audits')
        await world.query(`CREATE TRIGGER audits AFTER INSERT ON ${table} FOR EACH ROW INSERT INTO ${audit} VALUES (1)`)
        const id = `${table} ${audit}`
        await place(world, id).catch(async (error: unknown) => {
          expect(error).not.toBeInstanceOf(CommitUnknownError)
          expect(await storedOf(world, id)).toEqual(nothing)
          await place(world, id)
        })
        expect(await storedOf(world, id)).toEqual([1, 1, 1])
      }
      await world.query('DROP TRIGGER audits')
    }
    expect([await world.query('SELECT n FROM audit'), await world.query('SELECT n FROM more_audit')]).toMatchObject([
      { length: 2 },
      { length: 2 },
    ])
  })

  it('stores a group of messages together, or each alone when its last statement fails', async () => {
    await using world = await open({ max: 1 })
    await world.query("ALTER TABLE ackord_outbox ADD CONSTRAINT no CHECK (id <> 'e2')")
    const group = transactional(world.database, {
      inbox,
      outbox: { destination: 'events' },
      transaction: { logger: silentLogger },
      groupCommit: { size: 3, groups: 1 },
    })((message) => insert(world, `${message.id}`).then(() => [event(`e${message.id}`)]))
    const placed = (...ids: string[]) =>
      Promise.allSettled(
        ids.map((id) =>
          handle(
            () => group,
            async () => [],
            command(id).message,
          ),
        ),
      ).then((all) => all.map((one) => (one.status === 'rejected' ? one.reason.errno : 'placed')))
    expect(await placed('4', '5', '6')).toEqual(['placed', 'placed', 'placed'])
    expect(await placed('1', '2', '3')).toEqual(['placed', checkViolated, 'placed'])
    expect([await storedOf(world, '1'), await storedOf(world, '2'), await storedOf(world, '3')]).toEqual([[1, 1, 1], nothing, [1, 1, 1]])
  })

  it.each([
    ['keeps one prepared statement', { maxPreparedStatements: 1, prepareCacheLength: 1 }],
    ['keeps none', { maxPreparedStatements: 0, prepareCacheLength: 0 }],
    ['is reset after use', { resetOnRelease: true, resetAfterUse: true }],
    ['accepts several statements per query', { multipleStatements: true, namedPlaceholders: true }],
  ])('works on a pool that %s', async (_, pool) => {
    await using world = await open({ max: 1, pool })
    for (const id of ['1', '2', '1', '2', '3']) await place(world, id).catch((error: unknown) => expect(error).toBeUndefined())
    expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([3, 3, 3])
  })

  it('is rejected on a connection with autocommit off, and its first statement is undone', async () => {
    await using world = await open({ max: 1 })
    await world.run('SET autocommit = 0')
    expect(await failureOf(place(world, '1'))).toMatchObject({
      code: 'ACKORD_INVALID_OPTION',
      message: expect.stringMatching(/autocommit/),
    })
    expect(await storedOf(world, '1')).toEqual(nothing)
  })

  it.each(['first', 'last'])('does not leave its isolation level to the next transaction when its %s statement fails', async (which) => {
    await using world = await open({ max: 1 })
    const table = which === 'first' ? 'ackord_inbox' : 'ackord_outbox'
    await world.query(`CREATE TRIGGER fails AFTER INSERT ON ${table} FOR EACH ROW SIGNAL SQLSTATE '45000'`)
    expect(await failureOf(place(world, '1', { isolation: 'read committed' }))).toMatchObject({ errno: 1644 })
    await world.query('DROP TRIGGER fails')
    const count = async () => Number((await world.run('SELECT COUNT(*) AS n FROM orders'))[0]?.['n'])
    await place(world, '2', {
      async more() {
        expect(await count()).toBe(1)
        await world.query("INSERT INTO orders (id) VALUES ('theirs')")
        expect(await count()).toBe(1)
      },
    })
    expect(await world.orders()).toBe(2)
  })

  it('works on a connection without a database, if the tables are fully qualified', async () => {
    await using world = await open({ max: 1, pool: { database: undefined } })
    const inFull: Process = async () => {
      await world.run(`INSERT INTO ${world.schema}.orders (id) VALUES ('1')`)
      return [event('e1')]
    }
    await handle(transactional(world.database, { inbox, outbox: { destination: 'events' } }), inFull)
    expect(await storedOf(world, '1')).toEqual([1, 1, 1])
  })

  if (isMariadb) {
    it('works under sql_mode ORACLE, in as few round trips', async () => {
      await using world = await open({ max: 1 })
      await world.run("SET SESSION sql_mode = 'ORACLE'")
      await place(world, '1')
      const statements = await questions(world)
      await place(world, '2')
      expect([await statements(), await storedOf(world, '2')]).toEqual([3, [1, 1, 1]])
    })
  }
})

/** An event in its stored form. */
function raw(id: string): Message<Uint8Array> {
  return event(id).copy(new TextEncoder().encode(id))
}

/** Returns a function that resolves to the number of statements sent since on the pool's only connection, counted by the server. */
async function questions(world: MysqlWorld): Promise<() => Promise<number>> {
  const count = async () => Number(Object.values((await world.run("SHOW SESSION STATUS LIKE 'Questions'"))[0] ?? {})[1])
  const before = await count()
  return async () => (await count()) - before - 1
}
