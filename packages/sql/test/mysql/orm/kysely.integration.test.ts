import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { CamelCasePlugin, CompiledQuery, Kysely, type KyselyPlugin, MysqlDialect, sql } from 'kysely'
import { createPool } from 'mysql2'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { sqlOutbox, transactionMiddleware } from '../../../src/index.ts'
import { fromKysely } from '../../../src/mysql/index.ts'
import { event, failureOf, handle } from '../../support/world.ts'
import { type OpenOptions, testMysqlAdapter } from '../support/mysql-adapter.ts'
import { testMysqlConformance } from '../support/mysql-conformance.ts'
import { openDoor, poolOptions } from '../support/mysql-world.ts'

interface Tables {
  readonly orders: { readonly id: string; readonly note: string | null }
}

const settings = { logger: silentLogger }

async function openKysely({ max = 10, port, restricted = false, plugins = [] }: OpenOptions & { readonly plugins?: KyselyPlugin[] } = {}) {
  const door = await openDoor({ client: 'Kysely', restricted })
  const pool = createPool({ ...poolOptions(door.schema, max, door.server), ...(port !== undefined && { port }) })
  const db = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }), plugins })
  const database = fromKysely(db, { schema: door.schema })
  await door.createTables(database)
  return {
    ...door,
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
      await door.close()
    },
  }
}

// The complete suites run on mysql2 by default; on this client they run only in `make proof`.
testMysqlConformance(
  'Kysely',
  openKysely,
  (world, handle: Kysely<Tables>, text, values) => world.run(handle, text, values),
  depthOfOtherClients,
)
testMysqlAdapter('Kysely', openKysely)

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

  it('tracks schemas, raw queries and streams', async () => {
    await using world = await openKysely()
    const { database, schema } = world
    let kept: Kysely<Tables> | undefined
    await database.write(async (transaction) => {
      kept = transaction.withSchema(schema)
      await kept.insertInto('orders').values({ id: '1', note: null }).execute()
      await sql`INSERT INTO orders (id) VALUES (${'2'})`.execute(transaction)
      const seen: string[] = []
      for await (const { id } of transaction.selectFrom('orders').select('id').orderBy('id').stream(1)) seen.push(id)
      expect(seen).toEqual(['1', '2'])
    }, settings)
    expect((await failureOf(Promise.resolve(kept?.selectFrom('orders').selectAll().execute()))).code).toBe('ACKORD_SCOPE_ENDED')
    expect(await world.orders()).toBe(2)
  })

  it('hides the library’s own statements from plugins', async () => {
    await using world = await openKysely({ plugins: [new CamelCasePlugin()] })
    const outbox = sqlOutbox(world.database, settings)
    const message = marshal(event('1'), jsonMarshaler)
    await world.database.write((transaction) => outbox.append(transaction, [{ destination: 'events', message }]), settings)
    const [claimed] = await outbox.claim({ limit: 1, lease: 30_000 })
    expect([claimed?.message.id, Number(claimed?.createdAt) > 0]).toEqual(['1', true])
  })
})
