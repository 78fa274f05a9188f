import { defineEvent, MemoryBroker, silentLogger } from '@ackord/core'
import type { Database, SqlOutbox } from '@ackord/sql'
import { type ArgumentsHost, Catch, type ExceptionFilter, Inject, Injectable, UseFilters } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { describe, expect, it } from 'vitest'
import { AckordModule, InjectDatabase, InjectOutbox, OnCommand } from '../../src/index.ts'
import { assertHandledOnce, assertPublished, deliver } from '../../src/testing/index.ts'
import { type OrmWorld, onEachOrm } from '../support/orm-worlds.ts'

const placeOrder = defineEvent<{ id: string; fails?: boolean }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')
const orderCounted = defineEvent<{ id: string }>('order.counted')

/** Answers every error, as filters for HTTP do. */
@Catch()
class AnswerFilter implements ExceptionFilter {
  catch(error: Error, _host: ArgumentsHost) {
    return { status: 'error', message: error.message }
  }
}

async function openApplication<Handle>({ database, insert }: Pick<OrmWorld<Handle>, 'database' | 'insert'>) {
  /** A service as applications have them: it neither knows of messages nor begins transactions. */
  @Injectable()
  class Orders {
    @InjectDatabase() readonly database!: Database<Handle>
    @InjectOutbox() readonly outbox!: SqlOutbox<Handle>

    async place(id: string) {
      await insert(this.database.executor(), id)
      await this.outbox.append(this.database.executor(), orderCounted({ id }))
    }
  }

  @Injectable()
  class Handlers {
    @Inject(Orders) readonly orders!: Orders

    @UseFilters(AnswerFilter)
    @OnCommand(placeOrder)
    async place({ id, fails = false }: { id: string; fails?: boolean }) {
      await this.orders.place(id)
      if (fails) throw new Error('No stock.')
      return [orderPlaced({ id })]
    }
  }

  const source = new MemoryBroker({ logger: silentLogger }).source('orders')
  const options = { database, consumer: 'orders', source, destination: 'order-events', eventSource: '/orders', logger: silentLogger }
  const module = await Test.createTestingModule({ imports: [AckordModule.forRoot(options)], providers: [Orders, Handlers] }).compile()
  module.useLogger(false)
  return Object.assign(module, { [Symbol.asyncDispose]: () => module.close() })
}

onEachOrm((name, open) => {
  describe(`handlers of an application with ${name}`, () => {
    it('commit writes, events and the inbox together, once, and roll all of them back when a filter answers their error', async () => {
      await using world = await open()
      await using module = await openApplication(world)

      await expect(deliver(module, placeOrder({ id: 'o-1', fails: true }, { id: 'm-1' }))).rejects.toThrow('No stock.')
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([0, 0, 0])

      await assertHandledOnce(module, placeOrder({ id: 'o-1' }, { id: 'm-1' }), { state: () => world.orders() })
      expect([await world.orders(), await world.inbox(), await world.outbox()]).toEqual([1, 1, 2])
      await assertPublished(module, {
        type: 'order.placed',
        data: { id: 'o-1' },
        destination: 'order-events',
        attributes: { source: '/orders' },
      })
      await assertPublished(module, { type: 'order.counted', data: { id: 'o-1' } })
    })
  })
})
