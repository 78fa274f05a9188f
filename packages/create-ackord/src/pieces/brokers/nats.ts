import type { BrokerPiece, PieceContext } from '../piece.ts'
import { connectedBroker } from './connected-broker.ts'

export function nats({ prefix }: PieceContext): BrokerPiece {
  return {
    ...connectedBroker({ file: 'nats', kind: 'Subject' }),
    title: 'NATS JetStream',
    dependencies: ['@ackord/nats', '@nats-io/jetstream', '@nats-io/transport-node'],
    files: { 'src/adapters/nats.ts': adapter },
    settings: [
      { constant: 'brokerUrl', variable: 'NATS_URL', value: 'nats://127.0.0.1:4222', meaning: 'NATS, with JetStream.' },
      { constant: 'stream', value: prefix, meaning: 'The stream of all subjects below.' },
      {
        constant: 'ordersSubject',
        value: `${prefix}.orders`,
        meaning: 'The subject of this service: commands, and events of other services.',
      },
      { constant: 'deadLetterSubject', value: `${prefix}.dead`, meaning: 'The subject of messages that could not be handled.' },
      { constant: 'eventsSubject', value: `${prefix}.order-events`, meaning: 'The subject of the events of this service.' },
    ],
    servers: {
      nats: `image: nats:2
command: ["--jetstream", "--store_dir", "/data"]
ports: ["127.0.0.1:4222:4222"]`,
    },
    note: `JetStream itself drops a message that is sent twice within two minutes. The inbox recognises the others, such as a message whose ack was lost.`,
  }
}

const adapter = `import { natsPublisher, natsSource } from '@ackord/nats'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { brokerUrl, deadLetterSubject, eventsSubject, ordersSubject, stream } from '../settings.ts'

/** Connects to NATS and creates the stream. */
export async function connectBroker() {
  const connection = await connect({ servers: brokerUrl, maxReconnectAttempts: -1 })
  const { streams } = await jetstreamManager(connection)
  await streams.add({ name: stream, subjects: [ordersSubject, deadLetterSubject, eventsSubject] })
  const publisher = natsPublisher(connection)
  const read = (consumer: string, filter: string) => ({ stream, consumer, declare: { consumer: { filter } } })
  return {
    publisher,
    /** The messages for this service. */
    messages: () =>
      natsSource(connection, {
        ...read('orders', ordersSubject),
        deadLetter: { publisher, destination: deadLetterSubject },
      }),
    /** The events of this service, as another service would read them. */
    events: () => natsSource(connection, read('send', eventsSubject)),
    close: () => connection.close(),
  }
}
`
