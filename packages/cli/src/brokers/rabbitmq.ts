import type { Logger } from '@ackord/core'
import { declareTopology, rabbitmqDeadLetters, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { connect, type RecoveringChannelModel } from 'amqplib'
import type { ServiceUrl } from '../settings/urls.ts'
import type { Broker } from './broker.ts'

const connectTimeout = 5000

/** A destination is a queue, which must exist. */
export async function openRabbitmq({ text, address }: ServiceUrl, logger: Logger): Promise<Broker> {
  const outgoing = await connectOnce(text)
  const publisher = rabbitmqPublisher(outgoing, { logger })
  // RabbitMQ throttles connections that publish a lot, and acks on the same connection would be delayed.
  let incoming: Promise<RecoveringChannelModel> | undefined

  return {
    address,
    publisher,
    source(topic) {
      incoming ??= connectOnce(text)
      return lateSource(incoming, topic, logger)
    },
    createTopic: (topic) => declareTopology(outgoing, { queues: { [topic]: { type: 'classic' } } }),
    async removeTopic(topic) {
      const channel = await outgoing.createChannel()
      await channel.deleteQueue(topic)
      await channel.close()
    },
    deadLetters: (queue, { deliveryLimit }) => rabbitmqDeadLetters(outgoing, queue, { publisher, logger, deliveryLimit }),
    async problemOf(destination) {
      const channel = await outgoing.createChannel()
      channel.on('error', () => {})
      try {
        await channel.checkQueue(destination)
        await channel.close()
        return undefined
      } catch {
        // RabbitMQ has closed the channel.
        return `There is no queue '${destination}', or access to it is denied. Declare it, or map the destination to an existing queue: --map ${destination}=queue`
      }
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await outgoing.close()
      await (await incoming)?.close()
    },
  }
}

async function connectOnce(url: string): Promise<RecoveringChannelModel> {
  const connection = await connect(url, { timeout: connectTimeout, recovery: { initialMaxRetries: 0 } })
  // The source and the publisher log connection errors themselves.
  connection.on('error', () => {})
  return connection
}

/** A source on a connection that is still being opened. */
function lateSource(connecting: Promise<RecoveringChannelModel>, queue: string, logger: Logger): ReturnType<Broker['source']> {
  const opening = connecting.then((connection) => rabbitmqSource(connection, { queue, logger }))
  // The reader gets the error.
  opening.catch(() => {})
  return {
    async *messages(options) {
      yield* (await opening).messages(options)
    },
    async [Symbol.asyncDispose]() {
      await (await opening.catch(() => undefined))?.[Symbol.asyncDispose]()
    },
  }
}
