import 'reflect-metadata'
import { jsonMarshaler, type Logger, type Message, marshal, publishAll } from '@ackord/core'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { type Database, sqlOutbox } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import { type INestMicroservice, Module, type ModuleMetadata } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ClientsModule } from '@nestjs/microservices'
import { connect } from 'amqplib'
import { ownName } from '../../../../scripts/test-run.mjs'
import { openSchema } from '../../../sql/test/support/own-schema.ts'
import { AckordClient, AckordTransport, type AckordTransportOptions } from '../../src/microservice/index.ts'

export const clientToken = 'CLIENT'
export const databaseToken = 'DATABASE'

export type Handle = Pick<ReturnType<Awaited<ReturnType<typeof openSchema>>['createPool']>, 'query'>

export interface WorldOptions extends Pick<ModuleMetadata, 'controllers' | 'providers'> {
  /** Called before the application listens. */
  readonly configure?: (app: INestMicroservice) => void
  readonly transport?: AckordTransportOptions
}

/** A microservice on PostgreSQL and RabbitMQ, whose handlers are those of the controllers. */
export async function openWorld({ controllers = [], providers = [], configure = () => {}, transport = {} }: WorldOptions) {
  const own = await openSchema()
  const pool = own.createPool()
  const database: Database<Handle> = fromPg(pool)
  await own.createTables(database)
  const name = `ackord-test-${ownName()}`
  const [queue, dead, events] = [name, `${name}.dead`, `${name}.events`]
  const url = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
  const connection = await connect(url)
  await declareTopology(connection, { queues: { [queue]: {}, [dead]: {}, [events]: {} } })
  const publisher = rabbitmqPublisher(connection)
  const logged: { readonly text: string; readonly err: Error | undefined }[] = []
  const log = (fields: object, text: string) => void logged.push({ text, err: (fields as { err?: Error }).err })
  const logger: Logger = { debug() {}, info() {}, warn: log, error: log }
  const outbox = sqlOutbox(database, { source: '/orders', destination: events })

  @Module({
    imports: [
      ClientsModule.registerAsync([
        { name: clientToken, useFactory: () => ({ customClass: AckordClient, options: { database, outbox } }) },
      ]),
    ],
    controllers,
    providers: [{ provide: databaseToken, useValue: database }, ...providers],
  })
  class AppModule {}

  const strategy = new AckordTransport(
    (handlers) =>
      createService({
        database,
        consumer: 'orders',
        source: rabbitmqSource(connection, { queue, deadLetter: { publisher, destination: dead } }),
        handlers,
        publisher: rabbitmqPublisher(connection),
        destination: events,
        logger,
      }),
    transport,
  )
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false, abortOnError: false })
  configure(app)
  const channel = await connection.createChannel()

  return {
    ...own,
    app,
    module: AppModule,
    database,
    strategy,
    logged,
    client: app.get<AckordClient<Handle>>(clientToken),
    send: (...messages: readonly Message[]) =>
      publishAll(
        publisher,
        queue,
        messages.map((message) => marshal(message, jsonMarshaler)),
      ),
    /** Waits until that many messages are in the queue of events, or of dead letters, and returns their types and data. */
    async receive(from: 'events' | 'dead', count: number) {
      const received: { readonly type: unknown; readonly data: unknown }[] = []
      while (received.length < count) {
        const message = await channel.get(from === 'events' ? events : dead, { noAck: true })
        if (message !== false) received.push({ type: message.properties.type, data: JSON.parse(message.content.toString()) })
      }
      return received
    },
    /** Waits until that many messages are in the inbox. */
    async handled(count: number) {
      while ((await own.inbox()) < count);
    },
    async [Symbol.asyncDispose]() {
      await app.close()
      for (const each of [queue, dead, events]) await channel.deleteQueue(each)
      await publisher.close()
      await connection.close()
      await pool.end()
      await own[Symbol.asyncDispose]()
    },
  }
}
