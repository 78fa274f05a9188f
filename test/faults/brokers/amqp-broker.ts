import { amqpPublisher, amqpSource } from '@ackord/amqp'
import { publishAll, silentLogger } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { connect } from 'amqplib'
import { closeConnection, open } from '../../../packages/amqp/test/support/world.ts'
import { startRabbitmq4 } from '../../../scripts/servers/index.mjs'
import { ownName } from '../../../scripts/test-run.mjs'
import { eventsName } from '../names.ts'
import type { FaultBrokerKind } from './broker.ts'

/** The descriptors of the frames of AMQP 1.0: transfer and disposition. */
const frames = { publish: Buffer.from([0x00, 0x53, 0x14]), ack: Buffer.from([0x00, 0x53, 0x15]) }

export const amqpBroker: FaultBrokerKind = {
  name: 'AMQP 1.0',
  async open() {
    const name = `faults-${ownName()}`
    const [input, output] = [`${name}.commands`, `${name}.events`]
    // It detects a half-open connection within this time, and the client does not: what the server sends still arrives.
    const server = await startRabbitmq4({ heartbeat: 4 })
    const { url } = server
    const proxy = await startFaultProxy(url)
    const [consuming, publishing] = [open(proxy.url), open(proxy.url)]
    const direct = open(url)
    const door = await connect(url)
    const channel = await door.createChannel()
    for (const queue of [input, output]) await channel.assertQueue(queue, { expires: 600_000, arguments: { 'x-queue-type': 'quorum' } })
    const sender = amqpPublisher(direct, { logger: silentLogger })
    const publisher = amqpPublisher(publishing, {
      logger: silentLogger,
      address: (destination) => (destination === eventsName ? output : destination),
      unroutable: 'destination',
      connectTimeout: 500,
    })
    const source = amqpSource(consuming, { address: input, prefetch: 8, logger: silentLogger, backoff: () => 20, settleTimeout: 2000 })
    const published: string[] = []

    return {
      source,
      publisher,
      proxy: () => proxy,
      recognise: (moment) => (bytes) => bytes.includes(frames[moment]),
      send: (commands) => publishAll(sender, input, commands),
      async published() {
        for (let event = await channel.get(output, { noAck: true }); event !== false; event = await channel.get(output, { noAck: true })) {
          published.push(String(event.properties.messageId))
        }
        return [...published]
      },
      waiting: async () => (await channel.checkQueue(input)).messageCount,
      async [Symbol.asyncDispose]() {
        proxy.judge()
        await source[Symbol.asyncDispose]()
        for (const each of [publisher, sender]) await each[Symbol.asyncDispose]()
        await Promise.all([consuming, publishing, direct].map(closeConnection))
        await door.close()
        await proxy[Symbol.asyncDispose]()
        await server.stop()
      },
    }
  },
}
