import { RejectError } from '@ackord/core'
import type { Order, Orders } from './order.ts'

/** An adapter that keeps orders in memory and behaves like a busy database: some calls fail and work when tried again. */
export class UnreliableOrders implements Orders {
  readonly saved = new Map<string, Order>()
  readonly #tries = new Map<string, number>()

  async save(order: Order): Promise<void> {
    if (order.total < 0) throw new RejectError(`Order ${order.id} has a negative total.`)
    const tries = (this.#tries.get(order.id) ?? 0) + 1
    this.#tries.set(order.id, tries)
    if (Number(order.id.slice(2)) % 10 === 0 && tries === 1) throw new Error('The database is busy.')
    this.saved.set(order.id, order)
  }
}
