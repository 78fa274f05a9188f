import type { Logger } from '@ackord/core'
import { natsDeadLetters, natsPublisher, natsSource } from '@ackord/nats'
import { JetStreamApiError, type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { ServiceUrl } from '../settings/urls.ts'
import type { Broker } from './broker.ts'

const connectTimeout = 5000

/** A destination is a subject, which a JetStream stream must capture. */
export async function openNats(url: ServiceUrl, logger: Logger): Promise<Broker> {
  const { hosts, user = '', password, scheme } = url
  const credentials = password === undefined ? { token: user } : { user, pass: password }
  const connection = await connect({
    servers: [...hosts],
    ...(user !== '' && credentials),
    ...(scheme === 'tls' && { tls: {} }),
    timeout: connectTimeout,
    maxReconnectAttempts: -1,
    name: 'ackord',
  })
  const publisher = natsPublisher(connection)
  let managing: Promise<JetStreamManager> | undefined
  const manager = () => {
    managing ??= jetstreamManager(connection)
    return managing
  }

  return {
    address: url.address,
    publisher,
    source: (topic) => natsSource(connection, { stream: topic, consumer: 'demo', declare: { consumer: {} }, logger }),
    async createTopic(topic) {
      const { streams } = await manager()
      await streams.add({ name: topic, subjects: [topic, repeats(topic)] })
    },
    repeatTopic: repeats,
    async removeTopic(topic) {
      const { streams } = await manager()
      await streams.delete(topic).catch((error: unknown) => {
        if (!isMissing(error)) throw error
      })
    },
    deadLetters: async (subject) => natsDeadLetters(connection, await manager(), subject, { logger }),
    async problemOf(destination) {
      const { streams } = await manager()
      const found = await streams.find(destination).then(
        () => true,
        () => false,
      )
      if (found) return undefined
      return `No stream captures the subject '${destination}'. Create one, or map the destination to a subject that has one: --map ${destination}=subject`
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
      await connection.close()
    },
  }
}

function repeats(topic: string): string {
  return `${topic}.again`
}

const streamNotFound = 10_059

function isMissing(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === streamNotFound
}
