import { publishAll, silentLogger } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { startFaultProxy } from '@ackord/testkit'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { ownName } from '../../../scripts/test-run.mjs'
import { eventsName } from '../names.ts'
import type { FaultBrokerKind } from './broker.ts'

const url = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'

export const natsBroker: FaultBrokerKind = {
  name: 'NATS JetStream',
  async open() {
    const name = `faults-${ownName()}`
    const [input, output] = [`${name}-commands`, `${name}-events`]
    const proxy = await startFaultProxy(url)
    const patient = { maxReconnectAttempts: -1, reconnectTimeWait: 20, reconnectJitter: 0 }
    // Pings detect a half-open connection.
    const faulty = { servers: proxy.url, pingInterval: 500, maxPingOut: 2, ...patient }
    const [consuming, publishing, door] = await Promise.all([connect(faulty), connect(faulty), connect({ servers: url, ...patient })])
    const manager = await jetstreamManager(door)
    await manager.streams.add({ name: input, subjects: [input] })
    await manager.streams.add({ name: output, subjects: [output] })
    const sender = natsPublisher(door)
    const publisher = natsPublisher(publishing, { timeout: 1000, subject: (name) => (name === eventsName ? output : name) })
    const source = natsSource(consuming, {
      stream: input,
      consumer: 'orders',
      declare: { consumer: { ackWait: 2000 } },
      prefetch: 8,
      logger: silentLogger,
      backoff: () => 20,
    })
    const published: string[] = []

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => bytes.includes(moment === 'ack' ? '+ACK' : `PUB ${output}`),
      // JetStream removes the duplicates itself, so the inbox only sees redeliveries.
      send: (commands) => publishAll(sender, input, commands),
      async published() {
        const { state } = await manager.streams.info(output)
        while (published.length < state.last_seq) {
          const event = await manager.streams.getMessage(output, { seq: published.length + 1 })
          published.push(event?.header.get('ce-id') ?? '')
        }
        return [...published]
      },
      async waiting() {
        const { num_pending: ahead, num_ack_pending: inHand } = await manager.consumers.info(input, 'orders')
        return ahead + inHand
      },
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        for (const stream of [input, output]) await manager.streams.delete(stream)
        await Promise.all([consuming, publishing, door].map((connection) => connection.close()))
        await proxy[Symbol.asyncDispose]()
      },
    }
  },
}
