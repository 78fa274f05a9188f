import type { BrokerPiece, PieceContext } from '../piece.ts'
import { connectedBroker } from './connected-broker.ts'

export function rabbitmq({ prefix }: PieceContext): BrokerPiece {
  return {
    ...connectedBroker({ file: 'rabbitmq', kind: 'Queue' }),
    title: 'RabbitMQ',
    dependencies: ['@ackord/rabbitmq', 'amqplib'],
    files: { 'src/adapters/rabbitmq.ts': adapter },
    settings: [
      { constant: 'brokerUrl', variable: 'RABBITMQ_URL', value: 'amqp://guest:guest@127.0.0.1:5672', meaning: 'RabbitMQ.' },
      { constant: 'ordersQueue', value: `${prefix}.orders`, meaning: 'The queue of this service: commands, and events of other services.' },
      { constant: 'deadLetterQueue', value: `${prefix}.orders.dead`, meaning: 'The queue of messages that could not be handled.' },
      { constant: 'eventsQueue', value: `${prefix}.order-events`, meaning: 'The queue of the events of this service.' },
    ],
    servers: {
      rabbitmq: `image: rabbitmq:4-management
ports: ["127.0.0.1:5672:5672", "127.0.0.1:15672:15672"]
healthcheck:
  test: rabbitmq-diagnostics --quiet check_port_connectivity
  interval: 2s
  timeout: 10s
  retries: 60`,
    },
  }
}

const adapter = `import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { connect } from 'amqplib'
import { brokerUrl, deadLetterQueue, eventsQueue, ordersQueue } from '../settings.ts'

/** Connects to RabbitMQ and declares the queues. */
export async function connectBroker() {
  // Two connections, because RabbitMQ may block a connection that publishes, and acks would wait with it.
  const [consuming, publishing] = await Promise.all([
    connect(brokerUrl, { recovery: { initialMaxRetries: 0 } }), // a wrong URL fails at once
    connect(brokerUrl, { recovery: { initialMaxRetries: 0 } }),
  ])
  await declareTopology(publishing, { queues: { [ordersQueue]: {}, [deadLetterQueue]: {}, [eventsQueue]: {} } })
  const publisher = rabbitmqPublisher(publishing)
  return {
    publisher,
    /** The messages for this service. */
    messages: () =>
      rabbitmqSource(consuming, { queue: ordersQueue, deadLetter: { publisher, destination: deadLetterQueue } }),
    /** The events of this service, as another service would read them. */
    events: () => rabbitmqSource(consuming, { queue: eventsQueue }),
    close: () => Promise.all([consuming.close(), publishing.close()]),
  }
}
`
