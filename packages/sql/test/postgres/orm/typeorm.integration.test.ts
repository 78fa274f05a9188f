import { silentLogger } from '@ackord/core'
import { DataSource, type EntityManager, EntitySchema } from 'typeorm'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { transactionMiddleware } from '../../../src/index.ts'
import { fromTypeorm } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema, postgresUrl, startOptions } from '../../support/own-schema.ts'
import { failureOf, handle } from '../../support/world.ts'

interface Order {
  id: string
  note?: string | null
}

const orders = new EntitySchema<Order>({
  name: 'Order',
  tableName: 'orders',
  columns: { id: { type: 'text', primary: true }, note: { type: 'text', nullable: true } },
})
const settings = { logger: silentLogger }

/** `native`: uses the client that TypeORM prefers if the package pg-native is installed. */
async function openTypeorm({ max = 10, native = false }: { readonly max?: number; readonly native?: boolean } = {}) {
  const own = await openSchema({ client: native ? 'TypeORM on pg native' : 'TypeORM' })
  const { schema } = own
  const extra = { max, options: startOptions(schema) }
  const driver = native ? {} : { nativeDriver: false }
  const dataSource = new DataSource({ type: 'postgres', url: postgresUrl, extra, schema, entities: [orders], logging: false, ...driver })
  await dataSource.initialize()
  const database = fromTypeorm(dataSource, { schema })
  await own.createTables(database)
  return {
    ...own,
    dataSource,
    database,
    root: dataSource.manager,
    begin: (work: (transaction: EntityManager) => Promise<void>) => dataSource.transaction(work),
    async openSession() {
      const runner = dataSource.createQueryRunner()
      return {
        begin: () => runner.startTransaction().then(() => runner.manager),
        commit: () => runner.commitTransaction(),
        [Symbol.asyncDispose]: () => runner.release(),
      }
    },
    async run(manager: EntityManager, text: string, parameters: unknown[]): Promise<Record<string, unknown>[]> {
      return await manager.query(text, parameters)
    },
    async [Symbol.asyncDispose]() {
      await dataSource.destroy()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('TypeORM', openTypeorm, depthOfOtherClients)
testConformance('TypeORM on pg native', () => openTypeorm({ native: true }), depthOfOtherClients)
testAdapter('TypeORM', openTypeorm)

describe('fromTypeorm()', () => {
  it('lets a repository in TypeORM take part in the transaction, and use the data source elsewhere', async () => {
    await using world = await openTypeorm()
    const { database } = world
    const repository = {
      async save(id: string, note: string) {
        await database.executor().getRepository(orders).save({ id, note })
      },
      async noteOf(id: string) {
        return (await database.executor().findOneBy(orders, { id }))?.note
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

  it('tracks query builders, repositories and nested transactions of TypeORM', async () => {
    await using world = await openTypeorm()
    const { database } = world
    let kept: EntityManager | undefined
    await database.write(async (manager) => {
      kept = manager
      await manager
        .createQueryBuilder()
        .insert()
        .into(orders)
        .values([{ id: '1' }, { id: '2' }])
        .execute()
      await manager.transaction((inner) => inner.insert(orders, { id: '3' }))
      const undone = manager.transaction(async (inner) => {
        await inner.insert(orders, { id: '4' })
        throw new Error('undone')
      })
      expect((await failureOf(undone)).message).toBe('undone')
      expect(await manager.count(orders)).toBe(3)
      const ending = Promise.resolve(manager.queryRunner?.commitTransaction())
      expect((await failureOf(ending)).code).toBe('ACKORD_TRANSACTION_REQUIRED')
    }, settings)
    expect(await world.orders()).toBe(3)
    expect((await failureOf(Promise.resolve(kept?.getRepository(orders).save({ id: 'late' })))).code).toBe('ACKORD_SCOPE_ENDED')
    expect((await failureOf(Promise.resolve(kept?.createQueryBuilder(orders, 'orders').getMany()))).code).toBe('ACKORD_SCOPE_ENDED')
  })

  it('rejects unsupported clients', () => {
    expect(() => fromTypeorm({} as DataSource)).toThrow(/fromTypeorm\(dataSource\)\.transaction/)
  })
})
