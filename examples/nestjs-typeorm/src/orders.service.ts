import { defineEvent, RejectError } from '@ackord/core'
import { InjectDatabase, InjectOutbox, OnEvent } from '@ackord/nestjs'
import type { Database, SqlOutbox } from '@ackord/sql'
import { ConflictException, Injectable } from '@nestjs/common'
import { type EntityManager, MoreThanOrEqual } from 'typeorm'
import { Order, Stock } from './entities.ts'

type Goods = Pick<Order, 'product' | 'quantity'>

const orderPlaced = defineEvent<Order>('order.placed')
const goodsDelivered = defineEvent<Goods>('goods.delivered')
const stockAdded = defineEvent<Goods>('stock.added')

@Injectable()
export class OrdersService {
  readonly #database: Database<EntityManager>
  readonly #outbox: SqlOutbox<EntityManager>

  constructor(@InjectDatabase() database: Database<EntityManager>, @InjectOutbox() outbox: SqlOutbox<EntityManager>) {
    this.#database = database
    this.#outbox = outbox
  }

  /** The order, its event and the reservation are committed together or not at all. `false`: the order was placed before, and nothing was changed. */
  async place({ id, product, quantity }: Order): Promise<boolean> {
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

  /** Runs in the transaction of the message, with the inbox: a delivery that is reported twice is counted once. */
  @OnEvent(goodsDelivered)
  async addStock({ product, quantity }: Goods) {
    const added = await this.#database.executor().increment(Stock, { product }, 'available', quantity)
    if (added.affected === 0) throw new RejectError(`There is no product '${product}'.`)
    return [stockAdded({ product, quantity }, { partitionkey: product })]
  }
}
