import { silentLogger } from '@ackord/core'
import { DataSource, type EntityManager, EntitySchema } from 'typeorm'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { transactionMiddleware } from '../../../src/index.ts'
import { fromTypeorm } from '../../../src/mysql/index.ts'
import { failureOf, handle } from '../../support/world.ts'
import { type OpenOptions, testMysqlAdapter } from '../support/mysql-adapter.ts'
import { testMysqlConformance } from '../support/mysql-conformance.ts'
import { openDoor, poolOptions } from '../support/mysql-world.ts'

interface Order {
  id: string
  note?: string | null
}

const orders = new EntitySchema<Order>({
  name: 'Order',
  tableName: 'orders',
  columns: { id: { type: 'varchar', primary: true }, note: { type: 'varchar', nullable: true } },
})
const settings = { logger: silentLogger }

async function openTypeorm({ max = 10, port, restricted = false }: OpenOptions = {}) {
  const door = await openDoor({ client: 'TypeORM', restricted })
  const { host = '', user = '', password = '', port: usual = 0 } = poolOptions(door.schema, max, door.server)
  const dataSource = new DataSource({
    type: 'mariadb',
    host,
    port: port ?? usual,
    username: user,
    password,
    database: door.schema,
    poolSize: max,
    entities: [orders],
    logging: false,
  })
  await dataSource.initialize()
  const database = fromTypeorm(dataSource, { schema: door.schema })
  await door.createTables(database)
  return {
    ...door,
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
      await door.close()
    },
  }
}

// The complete suites run on mysql2 by default; on this client they run only in `make proof`.
testMysqlConformance(
  'TypeORM',
  openTypeorm,
  (world, manager: EntityManager, text, values) => world.run(manager, text, values),
  depthOfOtherClients,
)
testMysqlAdapter('TypeORM', openTypeorm)

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

  it('tracks query builders and nested transactions of TypeORM, and rejects schema changes', async () => {
    await using world = await openTypeorm()
    let kept: EntityManager | undefined
    await world.database.write(async (manager) => {
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
      expect((await failureOf(manager.clear(orders))).code).toBe('ACKORD_TRANSACTION_REQUIRED')
    }, settings)
    expect(await world.orders()).toBe(3)
    expect((await failureOf(Promise.resolve(kept?.getRepository(orders).save({ id: 'late' })))).code).toBe('ACKORD_SCOPE_ENDED')
  })
})
