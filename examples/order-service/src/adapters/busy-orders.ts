import type { Order, Orders } from '../domain/order.ts'

/** Simulates a database that is sometimes busy: every tenth order fails at first, after its write. */
export class BusyOrders implements Orders {
  readonly #orders: Orders
  readonly #tried = new Set<string>()

  constructor(orders: Orders) {
    this.#orders = orders
  }

  async save(order: Order): Promise<void> {
    await this.#orders.save(order)
    if (this.#tried.has(order.id) || Number(order.id.slice(2)) % 10 !== 0) return
    this.#tried.add(order.id)
    throw new Error('The database is busy.')
  }
}
