import { silentLogger } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { connect } from '@nats-io/transport-node'
import { startNats } from '../../scripts/servers/index.mjs'
import type { CarrierKind } from './carrier.ts'

export const natsCarrier: CarrierKind = {
  name: 'NATS JetStream',
  fault: 'is killed',
  async open(destination) {
    const server = await startNats()
    const patient = { servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 50, reconnectJitter: 0 }
    const [consuming, publishing] = await Promise.all([connect(patient), connect(patient)])
    const publisher = natsPublisher(publishing)
    const declare = { stream: { subjects: [destination] }, consumer: { ackWait: 2000 } }
    const source = natsSource(consuming, { stream: destination, consumer: 'billing', declare, logger: silentLogger })
    return {
      publisher,
      source,
      async crash() {
        await server.kill()
        await server.restart()
      },
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]()
        await publisher[Symbol.asyncDispose]()
        await Promise.all([consuming.close(), publishing.close()])
        await server.stop()
      },
    }
  },
}
