/** The class that tests of handlers use as the store. It needs `Order` and `Orders`, and `MemoryStore` of the testkit. */
export const memoryOrders: string = `/** The port on a database in memory, so that these tests need no server. */
class MemoryOrders implements Orders {
  readonly #store: MemoryStore

  constructor(store: MemoryStore) {
    this.#store = store
  }

  async add(order: Order): Promise<boolean> {
    const table = this.#store.executor()
    if (table.get(order.id) !== undefined) return false
    table.set(order.id, { ...order, paid: false })
    return true
  }

  async markPaid(id: string): Promise<boolean> {
    const table = this.#store.executor()
    const order = table.get(id) as Order | undefined
    if (order === undefined) return false
    table.set(id, { ...order, paid: true })
    return true
  }
}`
