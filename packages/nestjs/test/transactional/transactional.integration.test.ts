import { afterCommit, currentContext, rootContext } from '@ackord/core'
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { DataSource } from 'typeorm'
import { describe, expect, it } from 'vitest'
import { ClsPluginAckord } from '../../src/transactional/index.ts'
import { openWorld, orderPlaced } from './transactional-world.ts'

const nothing = { orders: [], events: [] }

describe('a @Transactional() method', () => {
  it('commits its writes together with the events it stores', async () => {
    await using world = await openWorld()
    await world.service.place('o-1')
    expect(await world.stored()).toEqual({ orders: ['o-1'], events: ['o-1'] })
  })

  it('rolls back its writes and the events it stored when it throws', async () => {
    await using world = await openWorld()
    await expect(world.service.place('o-1', { fails: true })).rejects.toThrow('The order o-1 is refused.')
    expect(await world.stored()).toEqual(nothing)
  })

  it('is a transaction of the database: callbacks run after its commit, and none after its rollback', async () => {
    await using world = await openWorld()
    const { host } = world.service
    const seen: unknown[] = []
    const work = (fails: boolean) =>
      host.withTransaction(async () => {
        await world.service.insert('o-1')
        afterCommit(currentContext() ?? rootContext(), async () => void seen.push(await world.orders()))
        if (fails) throw new Error('refused')
      })
    await expect(work(true)).rejects.toThrow('refused')
    expect(seen).toEqual([])
    await work(false)
    expect(seen).toEqual([1])
  })

  it('takes part in the transaction of database.write() that calls it', async () => {
    await using world = await openWorld()
    const failing = world.database.write(async () => {
      await world.service.place('o-1')
      throw new Error('too late')
    })
    await expect(failing).rejects.toThrow('too late')
    expect(await world.stored()).toEqual(nothing)
  })

  it('runs with the settings of its decorator', async () => {
    await using world = await openWorld()
    expect(await world.service.isolation()).toEqual([{ transaction_isolation: 'serializable' }])
  })

  it('rejects settings that the database does not have', async () => {
    await using world = await openWorld()
    const settings = { isolationLevel: 'SERIALIZABLE' } as object
    await expect(world.service.host.withTransaction(settings, async () => {})).rejects.toThrow("write() has no option 'isolationLevel'")
  })
})

describe('outside of a transaction', () => {
  it('TransactionHost.tx is the pool', async () => {
    await using world = await openWorld()
    await world.service.insert('o-1')
    expect(world.service.host.isTransactionActive()).toBe(false)
    expect(world.service.host.tx).toBe(world.dataSource.manager)
    expect(await world.orders()).toBe(1)
  })
})

describe('in a message handler', () => {
  it('TransactionHost.tx is the transaction of the message, which is rolled back when the handler fails', async () => {
    await using world = await openWorld()
    const { host } = world.service
    const deliveries = await world.handle('o-1', async (delivery) => {
      expect(host.isTransactionActive()).toBe(true)
      expect(host.tx).toBe(world.database.transaction())
      await world.service.insert(`o-${delivery}`)
      if (delivery === 1) throw new Error('try again')
    })
    expect(deliveries).toBe(2)
    expect(await world.stored()).toEqual({ orders: ['o-2'], events: [] })
    expect(await world.inbox()).toBe(1)
  })

  it('a @Transactional() method is rolled back with the message', async () => {
    await using world = await openWorld()
    await world.handle('o-1', async (delivery) => {
      await world.service.place(`o-${delivery}`)
      expect(await world.orders()).toBe(0)
      if (delivery === 1) throw new Error('try again')
    })
    expect(await world.stored()).toEqual({ orders: ['o-2'], events: ['o-2'] })
  })

  it('a method with propagation Mandatory runs, and one with Never does not', async () => {
    await using world = await openWorld()
    const seen: unknown[] = []
    await world.handle('o-1', async () => {
      await world.service.placeInside('o-1')
      await expect(async () => await world.service.placeAlone('o-2')).rejects.toThrow('an existing transaction is already active')
      seen.push('refused')
    })
    expect(seen).toEqual(['refused'])
    expect(await world.stored()).toEqual({ orders: ['o-1'], events: ['o-1'] })
    await expect(async () => await world.service.placeInside('o-3')).rejects.toThrow('no existing transaction is active')
  })

  it('a failed method with propagation Nested is undone, and the rest of the message is committed', async () => {
    await using world = await openWorld()
    await world.handle('o-1', async () => {
      await world.service.place('o-1')
      await world.service.placeNested('o-2', { fails: true }).catch(() => {})
      await world.service.placeNested('o-3')
    })
    expect(await world.stored()).toEqual({ orders: ['o-1', 'o-3'], events: ['o-1', 'o-3'] })
  })

  it('a method with propagation RequiresNew is committed even if the message is rolled back', async () => {
    await using world = await openWorld()
    await world.handle('o-1', async (delivery) => {
      await world.service.place(`message-${delivery}`)
      await world.service.placeSeparately(`separate-${delivery}`)
      if (delivery === 1) throw new Error('try again')
    })
    const ids = ['message-2', 'separate-1', 'separate-2']
    expect(await world.stored()).toEqual({ orders: ids, events: ids })
  })

  it('a method with propagation NotSupported runs outside of the transaction, which goes on afterwards', async () => {
    await using world = await openWorld()
    await world.handle('o-1', async (delivery) => {
      await world.service.insertOutside(`outside-${delivery}`)
      await world.service.place(`message-${delivery}`)
      if (delivery === 1) throw new Error('try again')
    })
    expect(await world.stored()).toEqual({ orders: ['message-2', 'outside-1', 'outside-2'], events: ['message-2'] })
  })
})

describe('with the adapter for TypeORM in place of the plugin', () => {
  it('append() stores events in the transaction that TransactionHost.tx names, and they are rolled back with it', async () => {
    const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })
    await using world = await openWorld((imports) => new ClsPluginTransactional({ imports, adapter }))
    const host = world.app.get<TransactionHost<TransactionalAdapterTypeOrm>>(TransactionHost)
    const place = (id: string, fails: boolean) =>
      host.withTransaction(async () => {
        await world.service.insert(id)
        await world.outbox.append(host.tx, orderPlaced({ id }))
        if (fails) throw new Error('refused')
      })
    await expect(place('o-1', true)).rejects.toThrow('refused')
    await place('o-2', false)
    expect(await world.stored()).toEqual({ orders: ['o-2'], events: ['o-2'] })
  })
})

describe('ClsPluginAckord', () => {
  it('rejects an unknown option', () => {
    const options = { databaseToken: 'database', adapter: 1 }
    expect(() => new ClsPluginAckord(options)).toThrow("ClsPluginAckord has no option 'adapter'")
  })
})
