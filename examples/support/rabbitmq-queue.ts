import { type Channel, connect, type GetMessage } from 'amqplib'

export const rabbitmqUrl: string = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** A channel for a test. Removes what the test has created. */
export interface RabbitmqChannel extends AsyncDisposable {
  readonly channel: Channel
  /** Takes all messages from the queue. */
  drain(queue: string): Promise<readonly GetMessage[]>
}

export async function openRabbitmq(remove: (channel: Channel) => Promise<unknown>): Promise<RabbitmqChannel> {
  const connection = await connect(rabbitmqUrl)
  const channel = await connection.createChannel()
  return {
    channel,
    async drain(queue) {
      const messages: GetMessage[] = []
      for (;;) {
        const message = await channel.get(queue, { noAck: true })
        if (message === false) return messages
        messages.push(message)
      }
    },
    async [Symbol.asyncDispose]() {
      await remove(channel)
      await connection.close()
    },
  }
}
