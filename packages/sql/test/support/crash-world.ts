import { deterministicIds, jsonMarshaler, Message, marshal, publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { type Database, sqlOutbox } from '../../src/index.ts'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** A database with the tables and an order for each command. */
export interface CrashDatabase<Handle> extends AsyncDisposable {
  readonly schema: string
  readonly database: Database<Handle>
  query(text: string): Promise<readonly Record<string, unknown>[]>
}

export interface CrashWorldOptions {
  /** The program of the service, and what it is told beside the broker and its queues. */
  readonly service: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** As the service has them. */
  readonly consumer: string
  readonly batchSize: number
  readonly patience?: number | undefined
}

/** A database and RabbitMQ, and on them the service. */
export function crashWorldOn<Handle>(open: () => Promise<CrashDatabase<Handle>>, options: CrashWorldOptions): OpenCrashWorld {
  const { service, environment, consumer, batchSize, patience } = options
  return async () => {
    const world = await open()
    const { schema, database } = world
    const outbox = sqlOutbox(database, { logger: silentLogger })
    const connection = await connect(rabbitmqUrl)
    const channel = await connection.createChannel()
    const publisher = rabbitmqPublisher(connection)
    const input = `${schema}.commands`
    const output = `${schema}.events`
    // A test run that is cut off leaves no queue behind for long.
    for (const queue of [input, output]) await channel.assertQueue(queue, { expires: 600_000, arguments: { 'x-queue-type': 'quorum' } })
    const published: string[] = []

    return {
      patience,
      batchSize,
      program: {
        file: service,
        environment: {
          ...process.env,
          ...environment,
          CRASH_RABBITMQ: rabbitmqUrl,
          CRASH_SCHEMA: schema,
          CRASH_INPUT: input,
          CRASH_OUTPUT: output,
        },
      },
      async send(ids) {
        await publishAll(publisher, input, ids.map(placeOrder))
      },
      eventOf: (id) => deterministicIds(consumer, '/shop', id)('order.placed'),
      async observe() {
        // Before the events: what is settled by now is at the broker, and is read below.
        const { destinations } = await outbox.stats()
        const sum = (state: 'ready' | 'waiting' | 'leased' | 'parked') => destinations.reduce((total, one) => total + one[state], 0)
        const { messageCount } = await channel.checkQueue(input)
        for (let event = await channel.get(output, { noAck: true }); event !== false; event = await channel.get(output, { noAck: true })) {
          published.push(String(event.properties.messageId))
        }
        return {
          applied: await idsIn('orders'),
          inbox: await idsIn('ackord_inbox'),
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

    async function idsIn(table: string): Promise<string[]> {
      return (await world.query(`SELECT id FROM ${table}`)).map(({ id }) => String(id))
    }
  }
}

function placeOrder(id: string) {
  const attributes = { id, type: 'order.place', source: '/shop', specversion: '1.0' }
  return marshal(new Message({ id }, attributes), jsonMarshaler)
}
