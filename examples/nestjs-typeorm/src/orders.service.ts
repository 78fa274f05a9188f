import { randomUUID } from 'node:crypto'
import { defineEvent, jsonMarshaler, marshal } from '@ackord/core'
import type { Database, SqlOutbox } from '@ackord/sql'
import { ConflictException, Inject, Injectable } from '@nestjs/common'
import { type EntityManager, MoreThanOrEqual } from 'typeorm'
import { Order } from './order.entity.ts'
import { databaseToken, outboxToken, type Settings, settingsToken } from './settings.ts'
import { Stock } from './stock.entity.ts'

const orderPlaced = defineEvent<Order>('order.placed')

@Injectable()
export class OrdersService {
  readonly #database: Database<EntityManager>
  readonly #outbox: SqlOutbox<EntityManager>
  readonly #settings: Settings

  constructor(
    @Inject(databaseToken) database: Database<EntityManager>,
    @Inject(outboxToken) outbox: SqlOutbox<EntityManager>,
    @Inject(settingsToken) settings: Settings,
  ) {
    this.#database = database
    this.#outbox = outbox
    this.#settings = settings
  }

  /** The order, its event and the reservation are committed together or not at all. `false`: the order was placed before, and nothing was changed. */
  async place(order: Order): Promise<boolean> {
    const { id, product, quantity } = order
    return await this.#database.write(async (manager) => {
      const placed = await manager.createQueryBuilder().insert().into(Order).values({ id, product, quantity }).orIgnore().execute()
      if (placed.raw.affectedRows === 0) return false
      const event = orderPlaced({ id, product, quantity }, { id: randomUUID(), source: '/orders', time: new Date(), partitionkey: id })
      await this.#outbox.append(manager, [{ destination: this.#settings.queue, message: marshal(event, jsonMarshaler) }])
      const reserved = await manager.decrement(Stock, { product, available: MoreThanOrEqual(quantity) }, 'available', quantity)
      // All writes above are rolled back, including the event.
      if (reserved.affected === 0) throw new ConflictException(`There are not ${quantity} of '${product}'.`)
      return true
    })
  }
}
