import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { CamelCasePlugin, CompiledQuery, Kysely, type KyselyPlugin, PostgresDialect, sql } from 'kysely'
// @ts-expect-error The package has no types.
import Cursor from 'pg-cursor'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { sqlOutbox, transactionMiddleware } from '../../../src/index.ts'
import { fromKysely } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema } from '../../support/own-schema.ts'
import { event, failureOf, handle } from '../../support/world.ts'

interface Tables {
  readonly orders: { readonly id: string; readonly note: string | null }
}

const settings = { logger: silentLogger }

async function openKysely(options: { readonly max?: number; readonly plugins?: KyselyPlugin[] } = {}) {
  const { plugins = [], ...poolOptions } = options
  const own = await openSchema({ client: 'Kysely' })
  const pool = own.createPool(poolOptions)
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool, cursor: Cursor }), plugins })
  const database = fromKysely(db, { schema: own.schema })
  await own.createTables(database)
  return {
    ...own,
    db,
    database,
    root: db,
    begin: (work: (transaction: Kysely<Tables>) => Promise<void>) => db.transaction().execute(work),
    async openSession() {
      const [opened, closed] = [deferred<Kysely<Tables>>(), deferred()]
      const ended = db.connection().execute(async (connection) => {
        opened.resolve(connection)
        await closed.promise
      })
      const connection = await opened.promise
      const send = (text: string) => connection.executeQuery(CompiledQuery.raw(text))
      return {
        begin: () => send('BEGIN').then(() => connection),
        commit: () => send('COMMIT'),
        async [Symbol.asyncDispose]() {
          closed.resolve()
          await ended
        },
      }
    },
    async run(handle: Kysely<Tables>, text: string, parameters: unknown[]) {
      return (await handle.executeQuery(CompiledQuery.raw(text, parameters))).rows as Record<string, unknown>[]
    },
    async [Symbol.asyncDispose]() {
      await db.destroy()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('Kysely', openKysely, depthOfOtherClients)
testAdapter('Kysely', openKysely)

describe('fromKysely()', () => {
  it('lets a repository in Kysely take part in the transaction, and use the pool elsewhere', async () => {
    await using world = await openKysely()
    const { database } = world
    const repository = {
      async save(id: string, note: string) {
        await database.executor().insertInto('orders').values({ id, note }).execute()
      },
      async noteOf(id: string) {
        const found = await database.executor().selectFrom('orders').select('note').where('id', '=', id).executeTakeFirst()
        return found?.note
      },
    }
    const transaction = transactionMiddleware(database, settings)
    const failed = handle(transaction, async () => {
      await repository.save('1', 'rolled back')
      expect(await repository.noteOf('1')).toBe('rolled back')
      throw new Error('failed')
    })
    expect((await failureOf(failed)).message).toBe('failed')
    expect(await repository.noteOf('1')).toBeUndefined()
    await handle(transaction, async () => {
      await repository.save('1', 'committed')
      await failureOf(
        handle(transaction, async () => {
          await repository.save('2', 'in a savepoint')
          throw new Error('failed')
        }),
      )
      return []
    })
    expect([await repository.noteOf('1'), await repository.noteOf('2')]).toEqual(['committed', undefined])
  })

  it('returns a transaction of Kysely: schemas, raw queries, streams and introspection are all tracked', async () => {
    await using world = await openKysely()
    const { database, schema } = world
    let kept: Kysely<Tables> | undefined
    await database.write(async (transaction) => {
      expect(transaction.isTransaction).toBe(true)
      kept = transaction.withSchema(schema)
      await kept.insertInto('orders').values({ id: '1', note: null }).execute()
      await sql`INSERT INTO orders VALUES (${'2'})`.execute(transaction)
      const seen: string[] = []
      for await (const { id } of transaction.selectFrom('orders').select('id').orderBy('id').stream(1)) seen.push(id)
      expect(seen).toEqual(['1', '2'])
      // Not getTables(): it would read the tables of other tests, which may be dropped at any time.
      const schemas = await transaction.introspection.getSchemas()
      expect(schemas.map(({ name }) => name)).toContain(schema)
    }, settings)
    expect((await failureOf(Promise.resolve(kept?.selectFrom('orders').selectAll().execute()))).code).toBe('ACKORD_SCOPE_ENDED')
    expect(await world.orders()).toBe(2)
  })

  it('hides the library’s own statements from plugins', async () => {
    await using world = await openKysely({ plugins: [new CamelCasePlugin()] })
    const { database } = world
    const outbox = sqlOutbox(database, settings)
    const message = marshal(event('1'), jsonMarshaler)
    await database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message }]), settings)
    const [claimed] = await outbox.claim({ limit: 1, lease: 30_000 })
    expect([claimed?.message.id, Number(claimed?.createdAt) > 0]).toEqual(['1', true])
  })

  it('rejects unsupported clients', () => {
    expect(() => fromKysely({} as Kysely<Tables>)).toThrow(/fromKysely\(db\)\.transaction/)
  })
})
