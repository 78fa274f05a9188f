import type { Database } from '@ackord/sql'
import type { Order, Orders } from '../domain/order.ts'

/** The part of a client that the adapter needs. pg's pool and PGlite both have it. */
interface Queryable {
  query(text: string, parameters: unknown[]): Promise<unknown>
}

/** The adapter for the database. `executor()` is the transaction of the current message. */
export class PostgresOrders implements Orders {
  readonly #database: Database<Queryable>

  constructor(database: Database<Queryable>) {
    this.#database = database
  }

  async save(order: Order): Promise<void> {
    const { id, customer, total } = order
    await this.#database.executor().query('INSERT INTO orders (id, customer, total) VALUES ($1, $2, $3)', [id, customer, total])
  }
}
