import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { silentLogger } from '@ackord/core'
import { DataTypes, type InferAttributes, type InferCreationAttributes, type Model, Sequelize, type Transaction } from 'sequelize'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { transactionMiddleware } from '../../../src/index.ts'
import { fromSequelize } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema, postgresUrl, startOptions } from '../../support/own-schema.ts'
import { failureOf, handle } from '../../support/world.ts'

interface Order extends Model<InferAttributes<Order>, InferCreationAttributes<Order>> {
  id: string
  note?: string | null
}

interface Handle {
  readonly transaction?: Transaction
}

const settings = { logger: silentLogger }

async function openSequelize({ max = 10 }: { readonly max?: number } = {}) {
  const own = await openSchema({ client: 'Sequelize' })
  const { schema } = own
  const sequelize = new Sequelize(postgresUrl, {
    dialectOptions: { options: startOptions(schema) },
    pool: { max },
    logging: false,
  })
  const columns = { id: { type: DataTypes.TEXT, primaryKey: true }, note: DataTypes.TEXT }
  const orders = sequelize.define<Order>('orders', columns, { timestamps: false })
  const database = fromSequelize(sequelize, { schema })
  await own.createTables(database)
  return {
    ...own,
    sequelize,
    model: orders,
    database,
    root: database.executor(),
    begin: (work: (transaction: Handle) => Promise<void>) => sequelize.transaction((transaction) => work({ transaction })),
    async openSession() {
      let transaction: Transaction | undefined
      return {
        async begin() {
          transaction = await sequelize.transaction()
          return { transaction }
        },
        commit: async () => transaction?.commit(),
        async [Symbol.asyncDispose]() {},
      }
    },
    async run(handle: Handle, text: string, bind: unknown[]): Promise<Record<string, unknown>[]> {
      const [rows] = await sequelize.query(text, { bind, ...handle })
      return rows as Record<string, unknown>[]
    },
    async [Symbol.asyncDispose]() {
      await sequelize.close()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('Sequelize', openSequelize, depthOfOtherClients)
testAdapter('Sequelize', openSequelize)

describe('fromSequelize()', () => {
  it('lets a repository in Sequelize take part in the transaction, and use the pool elsewhere', async () => {
    await using world = await openSequelize()
    const { database, model } = world
    const repository = {
      async save(id: string, note: string) {
        await model.create({ id, note }, { ...database.executor() })
      },
      async noteOf(id: string) {
        return (await model.findOne({ where: { id }, ...database.executor() }))?.note
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

  it('tracks every way to create a query: of models, of their instances, in bulk, raw, of the schema, nested', async () => {
    await using world = await openSequelize()
    const { database, model, sequelize } = world
    let kept: Handle = {}
    await database.write(async (handle) => {
      kept = handle
      await model.bulkCreate([{ id: '1' }, { id: '2' }], { ...handle })
      const [order] = await model.findOrCreate({ where: { id: '3' }, ...handle })
      await order.update({ note: 'changed' }, { ...handle })
      await model.upsert({ id: '3', note: 'again' }, { ...handle })
      await sequelize.getQueryInterface().createTable('made', { id: DataTypes.TEXT }, { ...handle })
      await sequelize.transaction({ ...handle }, (transaction) => model.create({ id: '4' }, { transaction }))
      const undone = sequelize.transaction({ ...handle }, async (transaction) => {
        await model.create({ id: '5' }, { transaction })
        throw new Error('undone')
      })
      expect((await failureOf(undone)).message).toBe('undone')
      expect(await model.count({ ...handle })).toBe(4)
    }, settings)
    expect(await world.query('SELECT id, note FROM orders ORDER BY id')).toEqual([
      { id: '1', note: null },
      { id: '2', note: null },
      { id: '3', note: 'again' },
      { id: '4', note: null },
    ])
    const late = [
      () => model.create({ id: 'late' }, { ...kept }),
      () => model.findAll({ ...kept }),
      () => sequelize.query('SELECT 1', { ...kept }),
      () => sequelize.transaction({ ...kept }, async () => {}),
    ]
    for (const query of late) expect((await failureOf(query())).code).toBe('ACKORD_SCOPE_ENDED')
    expect(await world.orders()).toBe(4)
  })

  it('lets a handler retry a savepoint of Sequelize, and commits once', async () => {
    await using world = await openSequelize()
    const { database, model, sequelize } = world
    let attempts = 0
    const attempt = (transaction: Transaction) => {
      attempts += 1
      // The first attempt violates the primary key.
      return model.create({ id: attempts === 1 ? 'before' : 'after' }, { transaction })
    }
    await database.write(async (handle) => {
      await model.create({ id: 'before' }, { ...handle })
      await sequelize.transaction({ ...handle }, attempt).catch(() => sequelize.transaction({ ...handle }, attempt))
    }, settings)
    expect([attempts, await world.orders()]).toEqual([2, 2])
  })

  it('rejects commit() and rollback(), and unsupported clients', async () => {
    await using world = await openSequelize()
    await world.database.write(async ({ transaction }) => {
      expect((await failureOf(Promise.resolve(transaction?.commit()))).code).toBe('ACKORD_TRANSACTION_REQUIRED')
      expect((await failureOf(Promise.resolve(transaction?.rollback()))).code).toBe('ACKORD_TRANSACTION_REQUIRED')
    }, settings)
    expect(() => fromSequelize({} as Sequelize)).toThrow(/fromSequelize\(sequelize\)\.transaction/)
    expect(() => fromSequelize(Object.assign(Object.create(world.sequelize), { getDialect: () => 'mysql' }))).toThrow(/'postgres'/)
    expect(() => fromSequelize(new Sequelize(postgresUrl, { native: true, logging: false }))).toThrow(/must not have native: true/)
  })

  it('is the same database however often it is wrapped', async () => {
    await using world = await openSequelize()
    const again = fromSequelize(world.sequelize, { schema: world.schema })
    await world.database.write(async ({ transaction }) => expect(again.executor().transaction).toBe(transaction), settings)
  })

  it('lets models find the transaction through CLS, tracked, and never outside it', async () => {
    await using world = await openSequelize()
    using _ = useNamespace()
    const { database, model, sequelize } = world
    let forgotten: (() => Promise<unknown>) | undefined
    await database.write(async () => {
      forgotten = AsyncLocalStorage.bind(() => model.create({ id: 'late' }))
      await model.create({ id: '1' })
      await failureOf(
        database.write(async () => {
          await model.create({ id: '2' })
          throw new Error('undone')
        }, settings),
      )
      void sequelize.query("INSERT INTO orders VALUES ('3')")
    }, settings)
    expect((await failureOf(Promise.resolve(forgotten?.()))).code).toBe('ACKORD_SCOPE_ENDED')
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: '1' }, { id: '3' }])
  })

  it('keeps hooks, and a query that they delay, inside the transaction', async () => {
    await using world = await openSequelize()
    const { database, model, sequelize } = world
    let seen = 0
    sequelize.addHook('beforeQuery', async () => {
      seen += 1
      await setImmediate()
    })
    await database.write(async (handle) => {
      await Promise.all(['1', '2', '3'].map((id) => model.create({ id }, { ...handle })))
    }, settings)
    // Sequelize itself sends BEGIN and COMMIT.
    expect([seen, await world.orders()]).toEqual([5, 3])
  })
})

/** Installs a namespace like those of `cls-hooked` until the test ends. */
function useNamespace(): Disposable {
  const storage = new AsyncLocalStorage<Map<string, unknown>>()
  Sequelize.useCLS({
    run: (work: () => void) => storage.run(new Map(storage.getStore()), work),
    bind: (work: () => void) => AsyncLocalStorage.bind(work),
    get: (name: string) => storage.getStore()?.get(name),
    set: (name: string, value: unknown) => storage.getStore()?.set(name, value),
  })
  return {
    [Symbol.dispose]() {
      Object.assign(Sequelize, { _cls: undefined })
    },
  }
}
