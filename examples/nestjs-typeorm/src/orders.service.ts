import { defineEvent } from '@ackord/core'
import type { Database, SqlOutbox } from '@ackord/sql'
import { ConflictException, Inject, Injectable } from '@nestjs/common'
import { type EntityManager, MoreThanOrEqual } from 'typeorm'
import { Order } from './order.entity.ts'
import { databaseToken, outboxToken } from './settings.ts'
import { Stock } from './stock.entity.ts'

const orderPlaced = defineEvent<Order>('order.placed')

@Injectable()
export class OrdersService {
  readonly #database: Database<EntityManager>
  readonly #outbox: SqlOutbox<EntityManager>

  constructor(@Inject(databaseToken) database: Database<EntityManager>, @Inject(outboxToken) outbox: SqlOutbox<EntityManager>) {
    this.#database = database
    this.#outbox = outbox
  }

  /** The order, its event and the reservation are committed together or not at all. `false`: the order was placed before, and nothing was changed. */
  async place(order: Order): Promise<boolean> {
    const { id, product, quantity } = order
    return await this.#database.write(async (manager) => {
      const placed = await manager.createQueryBuilder().insert().into(Order).values({ id, product, quantity }).orIgnore().execute()
      if (placed.raw.affectedRows === 0) return false
      await this.#outbox.append(manager, orderPlaced({ id, product, quantity }, { partitionkey: id }))
      const reserved = await manager.decrement(Stock, { product, available: MoreThanOrEqual(quantity) }, 'available', quantity)
      // All writes above are rolled back, including the event.
      if (reserved.affected === 0) throw new ConflictException(`There are not ${quantity} of '${product}'.`)
      return true
    })
  }
}
