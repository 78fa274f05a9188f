import { AckordError, type Logger, Message, type Publisher } from '@ackord/core'
import {
  type DeadLetterQueue,
  type DeadLetters,
  type DeadLettersOptions,
  deadLetterPort,
  PartPorts,
  type StoredLetter,
} from '@ackord/core/broker'
import { checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { RabbitmqChannel, RabbitmqConnection, RabbitmqMessage } from './client.ts'
import { rabbitmqPublisher } from './publisher/rabbitmq-publisher.ts'
import { readMessage } from './source/read-message.ts'

/** A channel of amqplib that also looks through queues. */
export interface DeadLetterChannel extends RabbitmqChannel {
  checkQueue(queue: string): Promise<{ readonly messageCount: number }>
  get(queue: string): Promise<RabbitmqMessage | false>
}

export interface DeadLetterConnection extends RabbitmqConnection {
  createChannel(): Promise<DeadLetterChannel>
}

/**
 * The dead letters in a queue, for the dashboard: `createDashboard({ deadLetters: { orders: rabbitmqDeadLetters(connection, 'orders.dead') } })`. Each look at letters counts as a
 * delivery, and hides them from other consumers meanwhile.
 */
export function rabbitmqDeadLetters(connection: DeadLetterConnection, queue: string, options: DeadLettersOptions = {}): DeadLetters {
  const { publisher, logger: givenLogger, ...unknown } = options
  rejectUnknownOptions('rabbitmqDeadLetters()', unknown)
  checkName('queue', queue)
  const { logger } = new PartPorts({ logger: givenLogger })
  return deadLetterPort({ open: () => openQueue(connection, publisher, queue, logger), logger })
}

/** Half of the limit that quorum queues of RabbitMQ 4 have by default. */
const manyDeliveries = 10

/**
 * The letters of a queue are fetched one by one and stay unacked until they are removed. Closing the channel returns the others to their places. Other
 * consumers do not see them meanwhile.
 */
async function openQueue(
  connection: DeadLetterConnection,
  givenPublisher: Publisher | undefined,
  queue: string,
  logger: Logger,
): Promise<DeadLetterQueue> {
  const channel = await connection.createChannel()
  // The call that fails rejects with the same reason.
  channel.on('error', () => {})
  const { messageCount: count } = await checkQueue(channel, queue)
  const publisher = givenPublisher ?? rabbitmqPublisher(connection, { logger })
  const fetched = new Map<string, RabbitmqMessage>()
  let warned = false

  function letterOf(native: RabbitmqMessage, number: number): StoredLetter {
    const position = `#${number}`
    fetched.set(position, { ...native, content: Buffer.alloc(0) })
    const { headers = {} } = native.properties
    if (!warned && Number(headers['x-delivery-count'] ?? 0) >= manyDeliveries) {
      warned = true
      logger.warn(
        { queue },
        `Letters in '${queue}' were delivered ${manyDeliveries} times or more, and looking at them counts as a delivery. A quorum queue with a delivery limit drops them when it is reached; declareTopology() creates queues without one.`,
      )
    }
    const moved = { origin: text(headers['x-first-death-queue']), reason: text(headers['x-first-death-reason']) }
    try {
      const { data, attributes } = readMessage(native, queue)
      return { position, message: new Message(data, attributes), ...moved }
    } catch (error) {
      const attributes = { datacontenttype: text(native.properties.contentType) }
      return { position, message: new Message(new Uint8Array(native.content), attributes), problem: String(error), ...moved }
    }
  }

  return {
    count,
    publisher,
    undeletable: 0,
    async *letters(signal) {
      for (let number = 1; number <= count && !signal.aborted; number += 1) {
        const native = await channel.get(queue)
        // Another consumer has taken the rest.
        if (native === false) return
        yield letterOf(native, number)
      }
    },
    async remove(letters) {
      for (const { position } of letters) {
        const native = fetched.get(position)
        if (native !== undefined) channel.ack(native, false)
        fetched.delete(position)
      }
      // RabbitMQ does not answer an ack. It handles what a channel sends in order, so its next answer says that it has the acks.
      await channel.checkQueue(queue)
    },
    async [Symbol.asyncDispose]() {
      if (givenPublisher === undefined) await publisher[Symbol.asyncDispose]?.()
      await channel.close().catch(() => {})
    },
  }
}

async function checkQueue(channel: DeadLetterChannel, queue: string): Promise<{ readonly messageCount: number }> {
  try {
    return await channel.checkQueue(queue)
  } catch (cause) {
    throw new AckordError('ACKORD_SOURCE_FAILED', `There is no queue '${queue}', or access to it is denied.`, { cause })
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
