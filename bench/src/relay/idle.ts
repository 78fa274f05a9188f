import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { type Order, sqlOutbox } from '@ackord/sql'
import { fromPg, pgNotifications } from '@ackord/sql/postgres'
import pg from 'pg'
import { postgresUrl, type RelayWorld } from './world.ts'

/** The number of statements that an idle relay with notifications sends in a minute, over all its connections. */
export async function idleStatements(world: RelayWorld, order: Order): Promise<number> {
  const pool = world.createPool()
  let statements = 0
  pool.on('connect', (client) => count(client))
  const listen = () => {
    const client = new pg.Client(postgresUrl)
    count(client)
    return client
  }
  function count(client: pg.ClientBase): void {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown
    client.query = ((...given: unknown[]) => {
      statements += 1
      return query(...given)
    }) as typeof client.query
  }
  const outbox = sqlOutbox(fromPg(pool, { order }), { logger: silentLogger, notifications: pgNotifications(listen) })
  const relay = new Relay(outbox, { publisher: { publish: async () => [] }, logger: silentLogger }).start()
  const pass = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))
  try {
    // Waits until the poll interval has reached its maximum.
    await pass(25_000)
    statements = 0
    await pass(60_000)
    return statements
  } finally {
    await relay.stop()
    await pool.end()
  }
}
