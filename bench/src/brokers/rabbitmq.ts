import { silentLogger } from '@ackord/core'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { type ConfirmChannel, connect } from 'amqplib'
import { ackordContestant, type Contest, type Contestant, prefetch } from './contest.ts'

const url = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** amqplib used directly, with confirms and acks, against the same client through the library. */
export async function rabbitmqContest(): Promise<Contest> {
  const [consuming, publishing] = await Promise.all([connect(url, { recovery: true }), connect(url, { recovery: true })])
  const setup = await publishing.createConfirmChannel()
  const [bareQueue, queue] = [`bench-bare-${process.pid}`, `bench-${process.pid}`]
  for (const name of [bareQueue, queue]) await setup.assertQueue(name, { durable: true })
  const publisher = rabbitmqPublisher(publishing, { logger: silentLogger })
  const source = rabbitmqSource(consuming, { queue, prefetch, logger: silentLogger })
  return {
    bare: byHand(setup, bareQueue, () => consuming.createChannel()),
    ackord: ackordContestant(publisher, source, queue),
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]()
      await publisher[Symbol.asyncDispose]()
      for (const name of [bareQueue, queue]) await setup.deleteQueue(name)
      await Promise.all([consuming.close(), publishing.close()])
    },
  }
}

type Channel = Awaited<ReturnType<Awaited<ReturnType<typeof connect>>['createChannel']>>

function byHand(publishing: ConfirmChannel, queue: string, createChannel: () => Promise<Channel>): Contestant {
  return {
    async publish(messages) {
      await Promise.all(
        messages.map(
          ({ data, attributes: { id, type, source, specversion, time, datacontenttype } }) =>
            new Promise<void>((resolve, reject) => {
              const headers = {
                'cloudEvents:id': id,
                'cloudEvents:type': type,
                'cloudEvents:source': source,
                'cloudEvents:specversion': specversion,
                'cloudEvents:time': time,
              }
              const options = { headers, contentType: datacontenttype, messageId: id, type, persistent: true, mandatory: true }
              publishing.publish(
                '',
                queue,
                Buffer.from(data.buffer, data.byteOffset, data.byteLength),
                options as object,
                (error: unknown) => (error === null || error === undefined ? resolve() : reject(error)),
              )
            }),
        ),
      )
    },
    async consume(count) {
      const channel = await createChannel()
      await channel.prefetch(prefetch)
      let done = 0
      await new Promise<void>((resolve, reject) => {
        channel
          .consume(queue, (message) => {
            if (message === null || done === count) return
            if (message.properties.headers?.['cloudEvents:id'] === undefined) throw new Error('The message is not the published one.')
            channel.ack(message)
            done += 1
            if (done === count) resolve()
          })
          .catch(reject)
      })
      await channel.close()
      return done
    },
  }
}
