import { rootContext, silentLogger } from '@ackord/core'
import { EntitySchema, RequestContext, TransactionPropagation, UniqueConstraintViolationException, ValidationError } from '@mikro-orm/core'
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { describe, expect, it } from 'vitest'
import { depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { transactional, transactionMiddleware } from '../../../src/index.ts'
import { fromMikroOrm } from '../../../src/postgres/index.ts'
import { testAdapter } from '../../support/adapter-suite.ts'
import { testConformance } from '../../support/conformance.ts'
import { openSchema, postgresUrl, startOptions } from '../../support/own-schema.ts'
import { command, failureOf, handle } from '../../support/world.ts'

interface Order {
  id: string
  note?: string | null
}

const orders = new EntitySchema<Order>({
  name: 'Order',
  tableName: 'orders',
  properties: { id: { type: 'text', primary: true }, note: { type: 'text', nullable: true } },
})
const settings = { logger: silentLogger }

async function openMikroOrm({ max = 10 }: { readonly max?: number } = {}) {
  const own = await openSchema({ client: 'MikroORM' })
  const { schema } = own
  const orm = await MikroORM.init({
    clientUrl: postgresUrl,
    schema,
    entities: [orders],
    pool: { min: 0, max },
    driverOptions: { connection: { options: startOptions(schema) } },
  })
  const database = fromMikroOrm(orm, { schema })
  await own.createTables(database)
  return {
    ...own,
    orm,
    database,
    root: orm.em,
    begin: (work: (transaction: typeof orm.em) => Promise<void>) => orm.em.transactional(work),
    async openSession() {
      const manager = orm.em.fork()
      return {
        begin: () => manager.begin().then(() => manager),
        commit: () => manager.commit(),
        async [Symbol.asyncDispose]() {},
      }
    },
    async run(manager: typeof orm.em, text: string, parameters: unknown[]): Promise<Record<string, unknown>[]> {
      return await manager.execute(text.replaceAll(/\$\d/g, '?'), parameters)
    },
    async [Symbol.asyncDispose]() {
      await orm.close()
      await own[Symbol.asyncDispose]()
    },
  }
}

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('MikroORM', openMikroOrm, depthOfOtherClients)
testAdapter('MikroORM', openMikroOrm)

describe('fromMikroOrm()', () => {
  it('lets a repository in MikroORM take part in the transaction, and use a fork elsewhere', async () => {
    await using world = await openMikroOrm()
    const { database, orm } = world
    const repository = {
      async save(id: string, note: string) {
        const manager = database.executor()
        manager.create(orders, { id, note }, { persist: true })
        await manager.flush()
      },
      async noteOf(id: string) {
        return (await database.executor().getRepository(orders).findOne({ id }))?.note
      },
    }
    // The request context that a web framework would create.
    const noteOf = (id: string) => RequestContext.create(orm.em, () => repository.noteOf(id))
    const transaction = transactionMiddleware(database, settings)
    const failed = handle(transaction, async () => {
      await repository.save('1', 'rolled back')
      expect(await repository.noteOf('1')).toBe('rolled back')
      throw new Error('failed')
    })
    expect((await failureOf(failed)).message).toBe('failed')
    expect(await noteOf('1')).toBeUndefined()
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
    expect([await noteOf('1'), await noteOf('2')]).toEqual(['committed', undefined])
  })

  it('flushes unflushed changes of the handler: new, changed and removed entities', async () => {
    await using world = await openMikroOrm()
    const { database } = world
    await world.query("INSERT INTO orders VALUES ('1', 'old'), ('2', 'old')")
    await database.write(async (manager) => {
      manager.create(orders, { id: '3', note: 'new' }, { persist: true })
      const order = await manager.findOneOrFail(orders, '1')
      order.note = 'changed'
      manager.remove(manager.getReference(orders, '2'))
    }, settings)
    expect(await world.query('SELECT id, note FROM orders ORDER BY id')).toEqual([
      { id: '1', note: 'changed' },
      { id: '3', note: 'new' },
    ])
  })

  it('fails, and commits nothing, when the flush fails', async () => {
    await using world = await openMikroOrm()
    await world.query("INSERT INTO orders VALUES ('1')")
    const taken = world.database.write(async (manager) => {
      await manager.insert(orders, { id: '2' })
      manager.create(orders, { id: '1' }, { persist: true })
    }, settings)
    expect(await failureOf(taken)).toBeInstanceOf(UniqueConstraintViolationException)
    const invalid = world.database.write(async (manager) => void manager.create(orders, {} as Order, { persist: true }), settings)
    expect(await failureOf(invalid)).toBeInstanceOf(ValidationError)
    expect(await world.orders()).toBe(1)
  })

  it('flushes a nested transaction of the library with it, and drops the changes of one that failed', async () => {
    await using world = await openMikroOrm()
    const { database } = world
    await database.write(async () => {
      await database.write(async (inner) => void inner.create(orders, { id: '1' }, { persist: true }), settings)
      const undone = database.write(async (inner) => {
        inner.create(orders, { id: '2' }, { persist: true })
        throw new Error('undone')
      }, settings)
      expect((await failureOf(undone)).message).toBe('undone')
      const taken = database.write(async (inner) => void inner.create(orders, { id: '1' }, { persist: true }), settings)
      expect(await failureOf(taken)).toBeInstanceOf(UniqueConstraintViolationException)
      await database.executor().insert(orders, { id: '3' })
    }, settings)
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: '1' }, { id: '3' }])
  })

  it('prevents a message of a group from overwriting unflushed changes of the previous one', async () => {
    await using world = await openMikroOrm()
    const { database } = world
    await world.query("INSERT INTO orders VALUES ('1', '')")
    const process = transactional(database, {
      inbox: { consumer: 'orders' },
      outbox: { destination: 'events' },
      transaction: settings,
      groupCommit: { size: 8, groups: 1 },
    })(async () => {
      const order = await database.executor().findOneOrFail(orders, '1')
      order.note += '.'
      return []
    })
    const deliver = (id: string) => process(command(id).message, command(id).message.context(rootContext()))
    await Promise.all(['1', '2', '3', '4', '5'].map(deliver))
    expect(await world.query('SELECT note FROM orders')).toEqual([{ note: '.....' }])
  })

  it('uses a separate identity map for each message', async () => {
    await using world = await openMikroOrm()
    const { database } = world
    await world.query("INSERT INTO orders VALUES ('1', 'old')")
    const find = () => database.executor().findOneOrFail(orders, '1')
    await database.write(async () => {
      const order = await find()
      expect(await find()).toBe(order)
      await database.write(async () => expect(await find()).not.toBe(order), settings)
    }, settings)
  })

  it('tracks query builders, repositories and nested transactions of MikroORM', async () => {
    await using world = await openMikroOrm()
    const { database } = world
    let kept: EntityManager | undefined
    await database.write(async (manager) => {
      kept = manager
      await manager.createQueryBuilder(orders).insert([{ id: '1' }, { id: '2' }])
      await manager.transactional(async (inner) => void inner.create(orders, { id: '3' }, { persist: true }))
      const undone = manager.transactional(async (inner) => {
        await inner.insert(orders, { id: '4' })
        throw new Error('undone')
      })
      expect((await failureOf(undone)).message).toBe('undone')
      expect(await manager.count(orders)).toBe(3)
      void manager.transactional((inner) => inner.insert(orders, { id: '5' }))
    }, settings)
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }, { id: '5' }])
    const late = [
      () => kept?.insert(orders, { id: 'late' }),
      () => kept?.getRepository(orders).findAll(),
      () => kept?.createQueryBuilder(orders).getResult(),
      () => kept?.fork({ keepTransactionContext: true }).insert(orders, { id: 'late' }),
      () => kept?.transactional((inner) => inner.insert(orders, { id: 'late' })),
    ]
    for (const query of late) expect((await failureOf(Promise.resolve(query()))).code).toBe('ACKORD_SCOPE_ENDED')
    expect(await world.orders()).toBe(4)
  })

  it('undoes an un-awaited nested transaction of MikroORM that failed', async () => {
    await using world = await openMikroOrm()
    await world.database.write(async (manager) => {
      await manager.insert(orders, { id: '2' })
      const forgotten = manager.transactional(async (inner) => {
        await inner.insert(orders, { id: '1' })
        await inner.insert(orders, { id: '1' })
      })
      forgotten.catch(() => {})
    }, settings)
    expect(await world.query('SELECT id FROM orders')).toEqual([{ id: '2' }])
  })

  it('lets a handler retry a nested transaction of MikroORM, and commits once', async () => {
    await using world = await openMikroOrm()
    let attempts = 0
    const attempt = async (manager: EntityManager) => {
      attempts += 1
      // The first attempt violates the primary key.
      manager.create(orders, { id: attempts === 1 ? 'before' : 'after' }, { persist: true })
    }
    await world.database.write(async (manager) => {
      await manager.insert(orders, { id: 'before' })
      await manager.transactional(attempt).catch(() => manager.transactional(attempt))
    }, settings)
    expect([attempts, await world.orders()]).toEqual([2, 2])
  })

  it('allows explicit queries outside the transaction', async () => {
    await using world = await openMikroOrm()
    const failed = world.database.write(async (manager) => {
      await manager.fork().insert(orders, { id: 'of a fork' })
      await manager.transactional((inner) => inner.insert(orders, { id: 'of another' }), {
        propagation: TransactionPropagation.REQUIRES_NEW,
      })
      await manager.insert(orders, { id: 'inside' })
      await manager.transactional(() => world.orm.em.insert(orders, { id: 'nested' }))
      throw new Error('failed')
    }, settings)
    expect((await failureOf(failed)).message).toBe('failed')
    expect(await world.query('SELECT id FROM orders ORDER BY id')).toEqual([{ id: 'of a fork' }, { id: 'of another' }])
  })

  it('rejects begin(), commit() and rollback(), and unsupported clients', async () => {
    await using world = await openMikroOrm()
    await world.database.write(async (manager) => {
      for (const end of [() => manager.begin(), () => manager.commit(), () => manager.rollback()]) {
        expect((await failureOf(end())).code).toBe('ACKORD_TRANSACTION_REQUIRED')
      }
      await manager.insert(orders, { id: '1' })
    }, settings)
    expect(await world.orders()).toBe(1)
    expect(() => fromMikroOrm({} as MikroORM)).toThrow(/fromMikroOrm\(orm\)\.em\.fork/)
  })

  it('reports disabled transactions', async () => {
    await using own = await openSchema()
    const { schema } = own
    const orm = await MikroORM.init({ clientUrl: postgresUrl, schema, entities: [orders], disableTransactions: true })
    expect((await failureOf(fromMikroOrm(orm, { schema }).write(async () => {}, settings))).message).toMatch(/disableTransactions/)
    await orm.close()
  })
})
