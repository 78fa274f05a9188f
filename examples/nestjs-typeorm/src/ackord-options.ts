import type { AckordSqlOptions } from '@ackord/nestjs'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { createSchema } from '@ackord/sql'
import { fromTypeorm } from '@ackord/sql/mysql'
import { connect } from 'amqplib'
import { DataSource, type EntityManager } from 'typeorm'
import { Order, Stock } from './entities.ts'

/** TypeORM and RabbitMQ: messages come from the queue `deliveries`, and events go to the queue `order-events`. */
export async function ackordOptions(): Promise<AckordSqlOptions<EntityManager>> {
  const databaseUrl = process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test'
  const brokerUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'
  const prefix = process.env['QUEUE_PREFIX'] ?? ''
  const [deliveries, rejected, events] = [`${prefix}deliveries`, `${prefix}deliveries.dead`, `${prefix}order-events`]
  // `synchronize` creates the tables of the entities. A real service has its own migrations, also for `createSchema()`.
  const dataSource = new DataSource({ type: 'mariadb', url: databaseUrl, entities: [Order, Stock], synchronize: true })
  await dataSource.initialize()
  const database = fromTypeorm(dataSource)
  await createSchema(database)
  const connection = await connect(brokerUrl, { recovery: true })
  await declareTopology(connection, { queues: { [deliveries]: {}, [rejected]: {}, [events]: {} } })
  const publisher = rabbitmqPublisher(connection)
  return {
    database,
    consumer: 'stock',
    source: rabbitmqSource(connection, { queue: deliveries, deadLetter: { publisher, destination: rejected } }),
    publisher,
    destination: events,
    eventSource: '/orders',
    async onClose() {
      await connection.close()
      await dataSource.destroy()
    },
  }
}
