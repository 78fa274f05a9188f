import { silentLogger } from '@ackord/core'
import { PrismaPg } from '@prisma/adapter-pg'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { transactionMiddleware } from '../../../src/index.ts'
import { fromPrisma } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema, postgresUrl, startOptions } from '../../support/own-schema.ts'
import { failureOf, handle } from '../../support/world.ts'
import { Prisma, PrismaClient } from './prisma/generated/client.ts'

const settings = { logger: silentLogger }

async function openPrisma({ max = 10 }: { readonly max?: number } = {}) {
  const own = await openSchema({ client: 'Prisma' })
  const { schema } = own
  const pool = { connectionString: postgresUrl, max, options: startOptions(schema) }
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { schema }), errorFormat: 'minimal' })
  const database = fromPrisma(prisma, { schema })
  await own.createTables(database)
  return {
    ...own,
    prisma,
    database,
    root: prisma as Prisma.TransactionClient,
    begin: (work: (transaction: Prisma.TransactionClient) => Promise<void>) => prisma.$transaction(work, { timeout: 60_000 }),
    async run(handle: Prisma.TransactionClient, text: string, parameters: unknown[]) {
      if (/^select (?!lose)/i.test(text)) return await handle.$queryRawUnsafe<Record<string, unknown>[]>(text, ...parameters)
      await handle.$executeRawUnsafe(text, ...parameters)
      return []
    },
    async [Symbol.asyncDispose]() {
      await prisma.$disconnect()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('Prisma', openPrisma, depthOfOtherClients)
testAdapter('Prisma', openPrisma)

describe('fromPrisma()', () => {
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

  it('sends nothing before an operation is awaited, and each operation once', async () => {
    await using world = await openPrisma()
    await world.database.write(async (transaction) => {
      transaction.order.create({ data: { id: 'never' } })
      const operation = transaction.order.create({ data: { id: '1' } })
      expect([(await operation).id, (await operation).id]).toEqual(['1', '1'])
      void transaction.order.create({ data: { id: '2' } }).then(() => {})
      expect(await transaction.$executeRaw`INSERT INTO orders VALUES (${'3'})`).toBe(1)
      expect(await transaction.$queryRaw(Prisma.sql`SELECT id FROM orders WHERE id = ${'3'}`)).toEqual([{ id: '3' }])
    }, settings)
    expect(await world.orders()).toBe(3)
  })

  it('tracks nested transactions of Prisma', async () => {
    await using world = await openPrisma()
    const { database } = world
    let kept: Prisma.TransactionClient | undefined
    await database.write(async (transaction) => {
      const undone = transaction.$transaction(async (inner) => {
        await inner.order.create({ data: { id: '1' } })
        throw new Error('undone')
      })
      expect((await failureOf(undone)).message).toBe('undone')
      await transaction.$transaction(async (inner) => {
        kept = inner
        await inner.order.create({ data: { id: '2' } })
      })
      const created = await transaction.$transaction(['3', '4'].map((id) => transaction.order.create({ data: { id } })))
      expect(created.map(({ id }) => id)).toEqual(['3', '4'])
    }, settings)
    expect(await world.orders()).toBe(3)
    await failureOf(Promise.resolve(kept?.order.findMany()))
  })

  it('works with an extended client whose extension uses the transaction', async () => {
    await using world = await openPrisma()
    const { prisma, schema } = world
    const extended = prisma.$extends({
      query: {
        order: {
          async create({ args, query }) {
            const created = await query(args)
            await database.executor().$executeRaw`INSERT INTO orders VALUES (${`copy of ${args.data.id}`})`
            return created
          },
        },
      },
    })
    const database = fromPrisma(extended, { schema })
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

  it('rejects unsupported clients', () => {
    expect(() => fromPrisma({} as PrismaClient)).toThrow(/fromPrisma\(prisma\)\.\$transaction/)
  })
})
