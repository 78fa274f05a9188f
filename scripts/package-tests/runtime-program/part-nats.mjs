// @ts-check
import { randomUUID } from 'node:crypto'
import { silentLogger } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { testBroker } from './brokers.mjs'

/** @param {import('./checks.mjs').Checks} checks */
export async function register(checks) {
  const servers = process.env['NATS_URL'] ?? ''
  const admin = await connect({ servers })
  const manager = await jetstreamManager(admin)
  const name = () => `${process.env['NAME']}-${randomUUID()}`

  /** @returns {Promise<import('@ackord/testkit/suites').BrokerWorld>} */
  async function open() {
    const connection = await connect({ servers })
    /** @type {string[]} */
    const streams = []
    /** @type {AsyncDisposable[]} */
    const opened = []
    const keep = (/** @type {any} */ part) => {
      opened.push(part)
      return part
    }
    return {
      // NATS accepts one megabyte including headers.
      largest: 1_000_000,
      tooLarge: 1_048_577,
      async topic() {
        const stream = name()
        streams.push(stream)
        await manager.streams.add({ name: stream, subjects: [stream, `${stream}.>`] })
        return {
          destination: stream,
          source: ({ group = 'billing', deadLetter, prefetch } = {}) =>
            keep(
              natsSource(connection, {
                stream,
                consumer: group,
                declare: {},
                deadLetter,
                prefetch,
                backoff: () => 5,
                logger: silentLogger,
              }),
            ),
        }
      },
      publisher: () => keep(natsPublisher(connection)),
      missing: name,
      async [Symbol.asyncDispose]() {
        for (const each of opened) await each[Symbol.asyncDispose]()
        for (const stream of streams) await manager.streams.delete(stream).catch(() => false)
        await connection.close()
      },
    }
  }

  testBroker(checks, 'NATS with @nats-io/transport-node', open, {
    competing: true,
    settlesEach: true,
    delay: true,
    deliveryCount: true,
    groups: true,
    replay: true,
    names: true,
    origin: true,
    declared: true,
    sizeLimit: true,
    dropsRepeats: true,
  })
  return () => admin.close()
}
