import { randomUUID } from 'node:crypto'
import { silentLogger } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { AckPolicy, type JetStreamClient, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { ackordContestant, type Contest, type Contestant, prefetch } from './contest.ts'

const url = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'

/** The JetStream client used directly, with confirmed publishes, against the same client through the library. */
export async function natsContest(): Promise<Contest> {
  const connection = await connect({ servers: url })
  const manager = await jetstreamManager(connection)
  const [bareName, name] = [`bench-bare-${process.pid}`, `bench-${process.pid}`]
  for (const stream of [bareName, name]) {
    await manager.streams.add({ name: stream, subjects: [`${stream}.orders`] })
    await manager.consumers.add(stream, { durable_name: 'bench', ack_policy: AckPolicy.Explicit, max_ack_pending: 10 * prefetch })
  }
  const publisher = natsPublisher(connection)
  const source = natsSource(connection, { stream: name, consumer: 'bench', prefetch, logger: silentLogger })
  return {
    bare: byHand(jetstream(connection), bareName, () => connection.flush()),
    ackord: withFreshIds(ackordContestant(publisher, source, `${name}.orders`)),
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]()
      await publisher[Symbol.asyncDispose]()
      for (const stream of [bareName, name]) await manager.streams.delete(stream)
      await connection.close()
    },
  }
}

/** Gives each message a new id, because JetStream drops duplicates. */
function withFreshIds(side: Contestant): Contestant {
  return {
    publish: (messages) => side.publish(messages.map((message) => message.withAttributes({ id: randomUUID() }))),
    consume: (count) => side.consume(count),
  }
}

function byHand(client: JetStreamClient, stream: string, flush: () => Promise<void>): Contestant {
  return {
    async publish(messages) {
      await Promise.all(
        messages.map(({ data, attributes: { type, source, specversion, time, datacontenttype } }) => {
          const id = randomUUID()
          const given = headers()
          given.set('ce-id', id)
          given.set('ce-type', String(type))
          given.set('ce-source', String(source))
          given.set('ce-specversion', String(specversion))
          given.set('ce-time', String(time))
          given.set('content-type', String(datacontenttype))
          return client.publish(`${stream}.orders`, data, { headers: given, msgID: id })
        }),
      )
    },
    async consume(count) {
      const consumer = await client.consumers.get(stream, 'bench')
      const messages = await consumer.consume({ max_messages: prefetch })
      let done = 0
      for await (const message of messages) {
        if (message.headers?.get('ce-id') === '') throw new Error('The message is not the published one.')
        message.ack()
        done += 1
        if (done === count) break
      }
      await flush()
      return done
    },
  }
}
