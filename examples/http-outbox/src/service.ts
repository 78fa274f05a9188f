import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { consoleLogger, type Logger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { declareTopology, rabbitmqPublisher } from '@ackord/rabbitmq'
import { createSchema, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { connect } from 'amqplib'
import pg from 'pg'
import { orderServer } from './order-server.ts'
import { placeOrder } from './place-order.ts'

export interface Settings {
  readonly databaseUrl: string
  readonly brokerUrl: string
  readonly queue: string
  readonly host: string
  readonly port: number
  readonly logger?: Logger
}

export interface Service {
  readonly url: string
  /** Answers open requests, finishes publishing, and closes all connections. Unpublished records stay in the outbox. */
  stop(): Promise<void>
}

export async function startService({ databaseUrl, brokerUrl, queue, host, port, logger = consoleLogger }: Settings): Promise<Service> {
  const pool = new pg.Pool({ connectionString: databaseUrl })
  const database = fromPg(pool, { logger })
  await createSchema(database)
  await pool.query(`
    CREATE TABLE IF NOT EXISTS stock (product text PRIMARY KEY, available integer NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, product text NOT NULL, quantity integer NOT NULL);
  `)
  const connection = await connect(brokerUrl, { recovery: true })
  await declareTopology(connection, { queues: { [queue]: {} } })

  // As a separate process: ackord relay --from postgres://… --to amqp://…
  const outbox = sqlOutbox(database, { source: '/orders', destination: queue, logger })
  const publisher = rabbitmqPublisher(connection, { logger })
  const relay = new Relay(outbox, { publisher, pollInterval: 100, maxPollInterval: 1000, logger }).start()

  const server = orderServer(async (order) => {
    const isNew = await placeOrder(order, { pool, outbox })
    // Ackord does not see this COMMIT, because the transaction is not its own. Without the call, the relay finds the event at its next poll.
    if (isNew) relay.wake()
    return isNew
  })
  server.listen(port, host)
  await once(server, 'listening')

  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      await closed
      await relay.stop()
      await publisher[Symbol.asyncDispose]()
      await connection.close()
      await pool.end()
    },
  }
}
