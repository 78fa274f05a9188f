import { Message, type Publisher } from '@ackord/core'
import { type RabbitmqMessage, readMessage } from '@ackord/rabbitmq'
import type { Channel, ChannelModel, GetMessage } from 'amqplib'
import { CommandError, exitCode } from '../output/errors.ts'
import type { DeadLetterQueue, DeadLetterQueueOptions, StoredLetter } from './dead-letter-queue.ts'

/** Half of the limit that quorum queues of RabbitMQ 4 have by default. */
const manyDeliveries = 10

/**
 * The letters of a queue are fetched one by one and stay unacked until they are removed. Closing the channel returns the others to their places. Other
 * consumers do not see them meanwhile.
 */
export async function openRabbitmqLetters(
  connection: Pick<ChannelModel, 'createChannel'>,
  publisher: Publisher,
  queue: string,
  { warn }: DeadLetterQueueOptions,
): Promise<DeadLetterQueue> {
  const channel = await connection.createChannel()
  // The call that fails rejects with the same reason.
  channel.on('error', () => {})
  const { messageCount: count } = await checkQueue(channel, queue)
  const fetched = new Map<string, GetMessage>()
  let warned = false

  function letterOf(native: GetMessage, number: number): StoredLetter {
    const position = `#${number}`
    fetched.set(position, { ...native, content: Buffer.alloc(0) })
    const { headers = {} } = native.properties
    if (!warned && Number(headers['x-delivery-count'] ?? 0) >= manyDeliveries) {
      warned = true
      warn(
        `Letters in '${queue}' were delivered ${manyDeliveries} times or more, and looking at them counts as a delivery. A quorum queue with a delivery limit drops them when it is reached; declareTopology() creates queues without one.`,
      )
    }
    const moved = { origin: text(headers['x-first-death-queue']), reason: text(headers['x-first-death-reason']) }
    try {
      const { data, attributes } = readMessage(native as RabbitmqMessage, queue)
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
        if (native !== undefined) channel.ack(native)
        fetched.delete(position)
      }
      // RabbitMQ does not answer an ack. It handles what a channel sends in order, so its next answer says that it has the acks.
      await channel.checkQueue(queue)
    },
    async [Symbol.asyncDispose]() {
      await channel.close().catch(() => {})
    },
  }
}

async function checkQueue(channel: Channel, queue: string): Promise<{ readonly messageCount: number }> {
  try {
    return await channel.checkQueue(queue)
  } catch (cause) {
    throw new CommandError(`There is no queue '${queue}', or access to it is denied.`, {
      exitCode: exitCode.failed,
      hint: 'Check --from, or --dead-letters of the dashboard.',
      cause,
    })
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
