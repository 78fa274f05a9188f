import { randomBytes } from 'node:crypto'
import { deterministicIds, jsonMarshaler, Message, marshal, publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { sqlOutbox } from '../../../src/index.ts'
import { nodeKind } from '../support/sqlite-world.ts'
import { batchSize, consumer } from './crash-names.ts'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** The service on a SQLite file and RabbitMQ. */
export function crashWorld(service: string): OpenCrashWorld {
  return async () => {
    const world = await nodeKind.open({ withReader: true })
    // No primary key, so that a command that is applied twice leaves two rows.
    world.client.exec('DROP TABLE orders; CREATE TABLE orders (id TEXT NOT NULL) STRICT')
    const outbox = sqlOutbox(world.database, { logger: silentLogger })
    const connection = await connect(rabbitmqUrl)
    const channel = await connection.createChannel()
    const publisher = rabbitmqPublisher(connection)
    const name = `ackord_sqlite_${randomBytes(6).toString('hex')}`
    const input = `${name}.commands`
    const output = `${name}.events`
    // The broker deletes the queues of an interrupted test run after ten minutes.
    for (const queue of [input, output]) await channel.assertQueue(queue, { expires: 600_000, arguments: { 'x-queue-type': 'quorum' } })
    const published: string[] = []
    const idsIn = (table: string) => world.query(`SELECT id FROM ${table}`).map(({ id }) => String(id))

    return {
      batchSize,
      program: {
        file: service,
        environment: {
          ...process.env,
          CRASH_SQLITE: world.path,
          CRASH_RABBITMQ: rabbitmqUrl,
          CRASH_INPUT: input,
          CRASH_OUTPUT: output,
        },
      },
      async send(ids) {
        await publishAll(publisher, input, ids.map(placeOrder))
      },
      eventOf: (id) => deterministicIds(consumer, '/shop', id)('order.placed'),
      async observe() {
        // Read before the events: the events of settled records are already at the broker, and are read below.
        const { destinations } = await outbox.stats()
        const sum = (state: 'ready' | 'waiting' | 'leased' | 'parked') => destinations.reduce((total, one) => total + one[state], 0)
        const { messageCount } = await channel.checkQueue(input)
        for (let event = await channel.get(output, { noAck: true }); event !== false; event = await channel.get(output, { noAck: true })) {
          published.push(String(event.properties.messageId))
        }
        return {
          applied: idsIn('orders'),
          inbox: idsIn('ackord_inbox'),
          published: [...published],
          waiting: messageCount,
          outbox: { ready: sum('ready'), waiting: sum('waiting'), leased: sum('leased'), parked: sum('parked') },
        }
      },
      async knowsOf(services) {
        return (await channel.checkQueue(input)).consumerCount === services
      },
      async [Symbol.asyncDispose]() {
        for (const queue of [input, output]) await channel.deleteQueue(queue)
        await connection.close()
        await world[Symbol.asyncDispose]()
      },
    }
  }
}

function placeOrder(id: string) {
  const attributes = { id, type: 'order.place', source: '/shop', specversion: '1.0' }
  return marshal(new Message({ id }, attributes), jsonMarshaler)
}
