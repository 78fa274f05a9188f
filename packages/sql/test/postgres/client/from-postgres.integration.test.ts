import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jsonMarshaler, marshal, rootContext, silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import postgres, { type Sql, type TransactionSql } from 'postgres'
import { describe, expect, it } from 'vitest'
import { CommitUnknownError, sqlOutbox, transactional, transactionMiddleware, validateSchema } from '../../../src/index.ts'
import { fromPostgres } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { command, event, failureOf, handle, postgresUrl } from '../../support/world.ts'
import { openPostgres } from '../support/postgres-world.ts'

testAdapter('postgres.js', openPostgres)

const settings = { logger: silentLogger }

describe('fromPostgres()', () => {
  it('lets a repository in postgres.js take part in the transaction, and use the pool elsewhere', async () => {
    await using world = await openPostgres()
    const { database } = world
    const orders = {
      async save(id: string, note: string) {
        const sql = database.executor()
        await sql`INSERT INTO orders ${sql({ id, note })}`
      },
      async noteOf(id: string) {
        const sql = database.executor()
        const byId = sql`WHERE id = ${id}`
        const [order] = await sql<{ note: string }[]>`SELECT note FROM orders ${byId}`
        return order?.note
      },
    }
    const transaction = transactionMiddleware(database, settings)
    const failed = handle(transaction, async () => {
      await orders.save('1', 'rolled back')
      expect(await orders.noteOf('1')).toBe('rolled back')
      throw new Error('failed')
    })
    expect((await failureOf(failed)).message).toBe('failed')
    expect(await orders.noteOf('1')).toBeUndefined()
    await handle(transaction, async () => {
      await orders.save('1', 'committed')
      await failureOf(
        handle(transaction, async () => {
          await orders.save('2', 'in a savepoint')
          throw new Error('failed')
        }),
      )
      return []
    })
    expect([await orders.noteOf('1'), await orders.noteOf('2')]).toEqual(['committed', undefined])
  })

  it.each(["COMMIT; INSERT INTO orders VALUES ('file')", "INSERT INTO orders VALUES ('file')"])(
    'does not run a file in a transaction that messages share: %s',
    async (text) => {
      const directory = mkdtempSync(join(tmpdir(), 'ackord-postgres-'))
      const path = join(directory, 'statements.sql')
      writeFileSync(path, text)
      await using world = await openPostgres()
      const { database } = world
      const run = transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        transaction: settings,
        groupCommit: { size: 50, groups: 1 },
      })(async ({ id }) => {
        const sql = database.executor()
        if (id === 'a') await sql.file(path)
        if (id === 'b') throw new Error('failed')
        await sql`INSERT INTO orders VALUES (${`${id}`})`
        return []
      })
      const messages = ['a', 'b', 'c'].map((id) => command(id).message)
      const results = await Promise.allSettled(messages.map((message) => run(message, message.context(rootContext()))))
      rmSync(directory, { recursive: true })
      expect(results.map(({ status }) => status).slice(1)).toEqual(['rejected', 'fulfilled'])
      expect((await world.query('SELECT id FROM orders ORDER BY id')).map(({ id }) => id)).toEqual(expect.arrayContaining(['c', 'file']))
    },
  )

  it.each(['COMMIT', 'ROLLBACK', 'COMMIT; BEGIN'])('rejects %s after an identifier in a query', async (end) => {
    await using world = await openPostgres()
    const { database } = world
    const failed = database.write(async (sql) => {
      await sql`INSERT INTO orders VALUES ('1')`
      const text = [`SELECT id FROM `, `; ${end}`]
      await sql(Object.assign(text, { raw: text }) as unknown as TemplateStringsArray, sql('orders')).simple()
    }, settings)
    await expect(failed).rejects.toMatchObject({ code: 'ACKORD_TRANSACTION_REQUIRED' })
    await database.write(async (sql) => {
      // An interpolated identifier is harmless.
      await sql`INSERT INTO ${sql('orders')} (id, note) VALUES (${'2'}, 'x; COMMIT')`
    }, settings)
    expect(await world.orders()).toBe(1)
  })

  it('follows the rules of sql.savepoint(): a failed query undoes it', async () => {
    await using world = await openPostgres()
    const { database } = world
    let kept: TransactionSql | undefined
    await database.write(async (sql) => {
      await sql`INSERT INTO orders VALUES ('before')`
      if (!('savepoint' in sql)) throw new Error('not in a transaction')
      const undone = sql.savepoint(async (nested) => {
        kept = nested
        await nested`INSERT INTO orders VALUES ('inside')`
        await nested`INSERT INTO orders VALUES ('before')`.catch(() => {})
      })
      expect((await failureOf(undone)).code).toBe('23505')
      await sql.savepoint('named', (nested) => nested`INSERT INTO orders VALUES ('kept')`)
    }, settings)
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: 'before' }, { id: 'kept' }])
    expect((await failureOf(Promise.resolve(kept?.unsafe('SELECT 1')))).code).toBe('ACKORD_SCOPE_ENDED')
  })

  it('ends a savepoint whose connection is lost', async () => {
    await using world = await openPostgres()
    const { database } = world
    const lost = database.write(async (sql) => {
      if (!('savepoint' in sql)) throw new Error('not in a transaction')
      await sql.savepoint(async (nested) => {
        const [row] = await nested<{ pid: number }[]>`INSERT INTO orders VALUES ('1') RETURNING pg_backend_pid() AS pid`
        await world.query('SELECT pg_terminate_backend($1)', [row?.pid])
        // None of these queries waits for a response that never arrives.
        await Promise.allSettled([nested`SELECT ${1}::int`, nested`SELECT ${2}::int`, nested`SELECT ${3}::int`])
      })
    }, settings)
    expect(await failureOf(lost)).not.toBeInstanceOf(CommitUnknownError)
    expect(await world.orders()).toBe(0)
    await database.write((sql) => sql`INSERT INTO orders VALUES ('2')`, settings)
    expect(await world.orders()).toBe(1)
  })

  it('never ends a transaction on the connection that replaces a lost one', async () => {
    await using world = await openPostgres({ max: 1 })
    const { database } = world
    const inside = deferred()
    const over = deferred()
    const lost = database.write(async (sql) => {
      const [row] = await sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`
      await world.query('SELECT pg_terminate_backend($1)', [row?.pid])
      await inside.promise
    }, settings)
    const other = database.write(async (sql) => {
      await sql`INSERT INTO orders VALUES ('1')`
      inside.resolve()
      await over.promise
      await sql`INSERT INTO orders VALUES ('2')`
    }, settings)
    expect((await failureOf(lost)).code).toBe('CONNECTION_CLOSED')
    over.resolve()
    await other
    expect(await world.orders()).toBe(2)
  })

  it('does not read cursors itself, and rejects new ones after the end', async () => {
    await using world = await openPostgres()
    const { database } = world
    const seen: unknown[] = []
    let kept: Sql | TransactionSql | undefined
    await database.write(async (sql) => {
      kept = sql
      for await (const rows of sql`SELECT n FROM generate_series(1, 5) AS n`.cursor(2)) seen.push(...rows.map(({ n }) => n))
      await sql`INSERT INTO orders VALUES ('1')`
    }, settings)
    expect([seen, await world.orders()]).toEqual([[1, 2, 3, 4, 5], 1])
    const late = Promise.resolve(kept?.unsafe('SELECT 1').cursor(1, () => {}))
    expect((await failureOf(late)).code).toBe('ACKORD_SCOPE_ENDED')
  })

  it.each([
    ['renames columns', { transform: postgres.camel }],
    ['does not prepare', { prepare: false }],
    ['does not fetch the types of the server', { fetch_types: false }],
    ['parses bigint as a number', { types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } } }],
  ])('works with a client that %s', async (_, options) => {
    await using world = await openPostgres(options as Parameters<typeof openPostgres>[0])
    const { database } = world
    const outbox = sqlOutbox(database, { ...settings, retain: true })
    await validateSchema(database)
    const records = ['a', 'b "c" \\'].map((destination) => ({ destination, message: marshal(event(destination), jsonMarshaler) }))
    await database.write((transaction) => outbox.append(transaction, records), settings)
    const claimed = await outbox.claim({ limit: 10, lease: 30_000, destinations: records.map(({ destination }) => destination) })
    expect(claimed.map(({ destination, attempts }) => [destination, attempts]).sort()).toEqual([
      ['a', 1],
      ['b "c" \\', 1],
    ])
    const outcomes = claimed.map(({ id, token }, index) =>
      index === 0 ? { id, token, result: 'published' as const } : { id, token, result: 'parked' as const, error: 'a, "b"' },
    )
    expect(await outbox.settle(outcomes)).toEqual(['applied', 'applied'])
    const { records: listed } = await outbox.list({}, { limit: 10 })
    expect(listed.map(({ state }) => state).sort()).toEqual(['parked', 'published'])
    expect(listed.every(({ createdAt }) => createdAt > 0)).toBe(true)
  })

  it('sends the outbox with COMMIT: BEGIN, the inbox, the handler and the end are the round trips of a message', async () => {
    const sent: string[] = []
    await using world = await openPostgres({ max: 1, debug: (_, text) => void sent.push(text) })
    const { database } = world
    const middleware = transactional(database, { inbox: { consumer: 'orders' }, outbox: { destination: 'events' }, transaction: settings })
    for (const id of ['1', '2']) {
      sent.length = 0
      await handle(middleware, async () => [event(`e-${id}`)], command(id).message)
    }
    expect(sent.map((text) => text.trim().split(' ')[0])).toEqual(['begin', 'INSERT', 'INSERT', 'SAVEPOINT', 'commit'])
  })

  it('rejects other clients than postgres.js, and unknown options', () => {
    expect(() => fromPostgres({} as unknown as Sql)).toThrow(/fromPostgres\(sql\)\.begin/)
    expect(() => fromPostgres(postgres(postgresUrl), { prepared: false } as object)).toThrow(/prepared/)
  })
})
