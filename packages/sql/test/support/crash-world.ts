import { deterministicIds, jsonMarshaler, Message, marshal, publishAll, silentLogger } from '@ackord/core'
import { rabbitmqPublisher } from '@ackord/rabbitmq'
import type { OpenCrashWorld } from '@ackord/testkit/suites'
import { connect } from 'amqplib'
import { type Database, type OutboxMode, sqlOutbox } from '../../src/index.ts'

const rabbitmqUrl = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** A database with Ackord's tables and a table with an order for each command. */
export interface CrashDatabase<Handle> extends AsyncDisposable {
  readonly schema: string
  readonly database: Database<Handle>
  query(text: string): Promise<readonly Record<string, unknown>[]>
}

export interface CrashWorldOptions {
  /** The program of the service, and its environment in addition to the broker and the queues. */
  readonly service: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The consumer and the batch size of the service. */
  readonly consumer: string
  readonly batchSize: number
  readonly patience?: number | undefined
  /** The mode of its outbox. Default: `table`. */
  readonly mode?: OutboxMode | undefined
}

/** The service on a database and RabbitMQ. */
export function crashWorldOn<Handle>(open: () => Promise<CrashDatabase<Handle>>, options: CrashWorldOptions): OpenCrashWorld {
  const { service, environment, consumer, batchSize, patience, mode } = options
  return async () => {
    const world = await open()
    const { schema, database } = world
    const outbox = sqlOutbox(database, { mode, logger: silentLogger })
    const connection = await connect(rabbitmqUrl)
    const channel = await connection.createChannel()
    const publisher = rabbitmqPublisher(connection)
    const input = `${schema}.commands`
    const output = `${schema}.events`
    // The broker deletes the queues of an interrupted test run after ten minutes.
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
        // Read before the events: the events of settled records are already at the broker, and are read below.
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
