import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { consoleLogger, type Logger, Router } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { Relay } from '@ackord/outbox'
import { sqlOutbox, transactional } from '@ackord/sql'
import { serve } from '@hono/node-server'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { createApp } from './app.ts'
import { createTables, openDatabase, openKysely } from './database.ts'
import { placeOrderOn } from './orders.ts'
import { shippingHandler } from './shipping.ts'

export interface Settings {
  readonly databaseUrl: string
  readonly brokerUrl: string
  /** The name of the JetStream stream; its subjects begin with it. */
  readonly stream: string
  readonly port: number
  readonly host: string
  readonly logger?: Logger
}

export interface Service {
  readonly url: string
  /** Answers open requests, finishes handling and publishing, and closes all connections. Unpublished records stay in the outbox. */
  stop(): Promise<void>
}

export async function startService({ databaseUrl, brokerUrl, stream, host, port, logger = consoleLogger }: Settings): Promise<Service> {
  const db = openKysely(databaseUrl)
  const database = openDatabase(db)
  await createTables(db, database)
  const connection = await connect({ servers: brokerUrl, maxReconnectAttempts: -1 })
  const { streams } = await jetstreamManager(connection)
  await streams.add({ name: stream, subjects: [`${stream}.>`] })

  const filter = `${stream}.orders`
  const outbox = sqlOutbox(database, { source: '/orders', destination: filter, logger })
  const publisher = natsPublisher(connection)
  const relay = new Relay(outbox, { publisher, logger }).start()

  const source = natsSource(connection, { stream, consumer: 'shipping', declare: { consumer: { filter } }, logger })
  const router = new Router({ concurrency: 8, logger })
    .use(
      transactional(database, {
        transaction: { logger },
        inbox: { consumer: 'shipping' },
        outbox: { destination: `${stream}.shipments` },
      }),
    )
    .handle(shippingHandler(database))
  const consumer = router.run(source).catch((error: unknown) => logger.error({ err: error }, 'The consumer has ended.'))

  const server = serve({ fetch: createApp(placeOrderOn(database, outbox)).fetch, hostname: host, port })
  if (!server.listening) await once(server, 'listening')

  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      await closed
      await router.stop()
      await consumer
      await relay.stop()
      await source[Symbol.asyncDispose]()
      await publisher[Symbol.asyncDispose]()
      await connection.close()
      await db.destroy()
    },
  }
}
