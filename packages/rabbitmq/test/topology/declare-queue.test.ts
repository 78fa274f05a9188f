import { isDeepStrictEqual } from 'node:util'
import { recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { serverVersion } from '../../src/client.ts'
import { rabbitmqSource } from '../../src/index.ts'
import { declareTopology, queueDeclaration, queueDeclarer, type TopologyConnection } from '../../src/topology/declare-topology.ts'
import type { RabbitmqQueueOptions } from '../../src/topology/topology.ts'
import { type FakeChannel, FakeConnection } from '../support/fake-connection.ts'

/** The arguments with which a queue is declared at a server of this version. */
async function declared(version: string | undefined, options: RabbitmqQueueOptions): Promise<Record<string, unknown>> {
  let found: Record<string, unknown> = {}
  const channel = {
    connection: { serverProperties: { version } },
    async assertQueue(_: string, given: { readonly arguments: Record<string, unknown> }) {
      found = given.arguments
    },
  }
  await queueDeclarer('orders', queueDeclaration(options))(channel)
  return found
}

describe('the delivery limit of a queue that is declared', () => {
  it.each(['4.0.1', '4.2.0', '10.0.0'])('is removed from a quorum queue on %s, which would drop messages', async (version) => {
    expect(await declared(version, {})).toEqual({ 'x-queue-type': 'quorum', 'x-delivery-limit': -1 })
  })

  it.each(['3.10.8', '3.13.7', undefined])('is not spoken of on %s, which may refuse it', async (version) => {
    expect(await declared(version, {})).toEqual({ 'x-queue-type': 'quorum' })
  })

  it('is set as configured, and not at all on a classic queue', async () => {
    expect(await declared('4.0.1', { arguments: { 'x-delivery-limit': 50 } })).toEqual({ 'x-queue-type': 'quorum', 'x-delivery-limit': 50 })
    expect(await declared('4.0.1', { type: 'classic' })).toEqual({ 'x-queue-type': 'classic' })
  })

  it('does not depend on a client that knows the version of its server', () => {
    expect(serverVersion({})).toEqual({ major: 0, minor: 0 })
  })
})

describe('a queue that was created before the server was upgraded to 4', () => {
  it('is consumed, and a warning reports that it has a limit', async () => {
    const connection = new UpgradedConnection({ 'x-queue-type': 'quorum' })
    const [runtime, logger, stop] = [new VirtualRuntime(), recordingLogger(), new AbortController()]
    const source = rabbitmqSource(connection, { queue: 'orders', declare: {}, runtime, logger, backoff: () => 7 })
    const pulling = source.messages({ signal: stop.signal })[Symbol.asyncIterator]().next()
    await settlePromises()
    await runtime.advance(7)
    connection.last.deliver('a')

    expect(await pulling).toMatchObject({ done: false, value: { id: 'a' } })
    expect(connection.channels.map(({ closed }) => closed)).toEqual([true, false])
    expect(logger.lines[0]).toMatchObject({ level: 'warn', fields: { err: { message: expect.stringContaining('x-delivery-limit') } } })
    stop.abort()
  })

  it('is part of a topology', async () => {
    const connection = new UpgradedConnection({ 'x-queue-type': 'quorum' })
    await declareTopology(connection, { queues: { orders: {}, invoices: {} } })

    expect(connection.channels.every(({ closed }) => closed)).toBe(true)
  })

  it('is an error if there are other differences', async () => {
    const connection = new UpgradedConnection({ 'x-queue-type': 'classic' })
    const source = rabbitmqSource(connection, { queue: 'orders', declare: {}, logger: recordingLogger(), backoff: () => 0 })

    await expect(source.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      cause: { code: 406 },
    })
    await expect(declareTopology(connection, { queues: { orders: {} } })).rejects.toThrow('it exists with other properties')
    expect(connection.channels.every(({ closed }) => closed)).toBe(true)
  })
})

type TopologyChannel = Awaited<ReturnType<TopologyConnection['createChannel']>>

/** RabbitMQ 4 with existing queues that have these arguments, compared as the server does. */
class UpgradedConnection extends FakeConnection {
  readonly #arguments: Record<string, unknown>

  constructor(existing: Record<string, unknown>) {
    super()
    this.#arguments = existing
  }

  override async createChannel(): Promise<FakeChannel & TopologyChannel> {
    const channel = await super.createChannel()
    const assertQueue = async (_: string, given: { readonly arguments: Record<string, unknown> }) => {
      if (isDeepStrictEqual(given.arguments, this.#arguments)) return
      const error = Object.assign(new Error('PRECONDITION_FAILED - inequivalent arg'), { code: 406 })
      channel.lose(error)
      throw error
    }
    const more = { connection: { serverProperties: { version: '4.1.0' } }, assertExchange: async () => {}, bindQueue: async () => {} }
    return Object.assign(channel, { ...more, assertQueue })
  }
}
