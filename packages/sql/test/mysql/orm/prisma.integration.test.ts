import { jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { PrismaMariaDb } from '@prisma/adapter-mariadb'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients, isProof } from '../../../../../scripts/test-depth.mjs'
import { sqlOutbox, transactionMiddleware } from '../../../src/index.ts'
import { fromPrisma } from '../../../src/mysql/index.ts'
import { event, failureOf, handle } from '../../support/world.ts'
import { loseDeadlock } from '../support/deadlock.ts'
import { isMariadb } from '../support/flavour.ts'
import { type OpenOptions, testMysqlAdapter } from '../support/mysql-adapter.ts'
import { testMysqlConformance } from '../support/mysql-conformance.ts'
import { openDoor, poolOptions } from '../support/mysql-world.ts'
import { Prisma, PrismaClient } from './prisma/generated/client.ts'

const settings = { logger: silentLogger }

async function openPrisma({
  max = 10,
  port,
  restricted = false,
  useTextProtocol = !isMariadb,
}: OpenOptions & { readonly useTextProtocol?: boolean } = {}) {
  const door = await openDoor({ client: 'Prisma', restricted })
  const { host = '', user = '', password = '', port: usual = 0 } = poolOptions(door.schema, max, door.server)
  const pool = {
    host,
    user,
    password,
    port: port ?? usual,
    database: door.schema,
    connectionLimit: max,
    minimumIdle: 1,
    // Long enough for a loaded machine.
    acquireTimeout: 120_000,
    // Without TLS the client encrypts the password with the public key of MySQL.
    allowPublicKeyRetrieval: true,
  }
  const prisma = new PrismaClient({ adapter: new PrismaMariaDb(pool, { useTextProtocol }), errorFormat: 'minimal' })
  const database = fromPrisma(prisma, { schema: door.schema })
  await door.createTables(database)
  return {
    ...door,
    prisma,
    database,
    root: prisma as Prisma.TransactionClient,
    begin: (work: (transaction: Prisma.TransactionClient) => Promise<void>) => prisma.$transaction(work, { timeout: 60_000 }),
    async run(handle: Prisma.TransactionClient, text: string, parameters: unknown[]) {
      if (/^(?:select|show)/i.test(text)) return await handle.$queryRawUnsafe<Record<string, unknown>[]>(text, ...parameters)
      await handle.$executeRawUnsafe(text, ...parameters)
      return []
    },
    async [Symbol.asyncDispose]() {
      await prisma.$disconnect()
      await door.close()
    },
  }
}

// The complete suites run on mysql2 by default; on this client they run only in `make proof`.
testMysqlConformance(
  'Prisma',
  openPrisma,
  (world, client: Prisma.TransactionClient, text, values) => world.run(client, text, values),
  depthOfOtherClients,
)
if (isMariadb) testMysqlAdapter('Prisma', openPrisma, { prepares: true })
// On MySQL, Prisma works with the text protocol only.
if (isProof || !isMariadb) testMysqlAdapter('Prisma with texts', (options) => openPrisma({ ...options, useTextProtocol: true }))

describe('fromPrisma()', () => {
  if (!isMariadb) {
    it('rejects a client that prepares every statement, as MySQL cannot prepare a SAVEPOINT', async () => {
      await using world = await openPrisma({ max: 1, useTextProtocol: false })
      const { database, prisma } = world
      const outbox = sqlOutbox(database, settings)
      const append = (transaction: Prisma.TransactionClient) =>
        outbox.append(transaction, [{ destination: 'events', message: marshal(event('e-1'), jsonMarshaler) }])
      const expected = { code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('useTextProtocol') }
      const written = database.write((transaction) => transaction.order.create({ data: { id: '1' } }), settings)
      expect(await failureOf(written)).toMatchObject({ ...expected, cause: { errno: 1295 } })
      expect(await failureOf(prisma.$transaction(append))).toMatchObject(expected)
      expect([await world.orders(), await world.outbox()]).toEqual([0, 0])
    })
  }

  it('lets a repository in Prisma take part in the transaction, and use the client elsewhere', async () => {
    await using world = await openPrisma()
    const { database } = world
    const repository = {
      async save(id: string, note: string) {
        await database.executor().order.create({ data: { id, note } })
      },
      async noteOf(id: string) {
        return (await database.executor().order.findUnique({ where: { id } }))?.note
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

  it('sends nothing before an operation is awaited, and tracks nested transactions of Prisma', async () => {
    await using world = await openPrisma()
    let kept: Prisma.TransactionClient | undefined
    await world.database.write(async (transaction) => {
      transaction.order.create({ data: { id: 'never' } })
      void transaction.order.create({ data: { id: '1' } }).then(() => {})
      expect(await transaction.$executeRaw`INSERT INTO orders (id) VALUES (${'2'})`).toBe(1)
      expect(await transaction.$queryRaw(Prisma.sql`SELECT id FROM orders WHERE id = ${'2'}`)).toEqual([{ id: '2' }])
      const undone = transaction.$transaction(async (inner) => {
        await inner.order.create({ data: { id: '3' } })
        throw new Error('undone')
      })
      expect((await failureOf(undone)).message).toBe('undone')
      await transaction.$transaction(async (inner) => {
        kept = inner
        await inner.order.create({ data: { id: '4' } })
      })
      const created = await transaction.$transaction(['5', '6'].map((id) => transaction.order.create({ data: { id } })))
      expect(created.map(({ id }) => id)).toEqual(['5', '6'])
    }, settings)
    expect(await world.orders()).toBe(5)
    await failureOf(Promise.resolve(kept?.order.findMany()))
  })

  it('works with an extended client whose extension uses the transaction', async () => {
    await using world = await openPrisma()
    const extended = world.prisma.$extends({
      query: {
        order: {
          async create({ args, query }) {
            const created = await query(args)
            await database.executor().$executeRaw`INSERT INTO orders (id) VALUES (${`copy of ${args.data.id}`})`
            return created
          },
        },
      },
    })
    const database = fromPrisma(extended, { schema: world.schema })
    const failed = database.write(async (transaction) => {
      await transaction.order.create({ data: { id: '1' } })
      expect(await transaction.order.count()).toBe(2)
      throw new Error('failed')
    }, settings)
    expect((await failureOf(failed)).message).toBe('failed')
    expect(await world.orders()).toBe(0)
    await database.write((transaction) => transaction.order.create({ data: { id: '1' } }), settings)
    expect(await world.orders()).toBe(2)
  })

  it('sends none of the statements started together with one that lost a deadlock', async () => {
    await using world = await openPrisma()
    await world.query("INSERT INTO orders (id) VALUES ('a'), ('b')")
    let later: Promise<unknown> = Promise.resolve()
    const rejected = world.database.write(
      async (transaction) => {
        const losing = loseDeadlock(world.schema, async (sql) => {
          const update = transaction.$executeRawUnsafe(sql).then((count) => count)
          // This statement waits in the queue for the statement that loses the deadlock.
          if (sql.includes("'b'")) later = failureOf(transaction.order.create({ data: { id: 'later' } }))
          return await update
        })
        await failureOf(losing)
        await later
      },
      { ...settings, retries: 0 },
    )
    expect((await failureOf(rejected)).code).toBe('ACKORD_TRANSACTION_ABORTED')
    expect(await world.orders()).toBe(2)
  })
})
