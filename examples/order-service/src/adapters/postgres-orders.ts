import type { Database } from '@ackord/sql'
import type { Order, Orders } from '../domain/order.ts'

/** What the adapter needs of a client: pg's pool and PGlite have it. */
interface Queryable {
  query(text: string, parameters: unknown[]): Promise<unknown>
}

/** Knows the database, and that `executor()` is the transaction of the message that is being handled. */
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
