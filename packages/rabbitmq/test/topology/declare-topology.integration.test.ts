import { publishAll } from '@ackord/core'
import { connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import { serverVersion } from '../../src/client.ts'
import { declareTopology, type RabbitmqTopology } from '../../src/index.ts'
import { FakeConnection } from '../support/fake-connection.ts'
import { event, open, openWorld, pull, rabbitmqUrl, type World } from '../support/world.ts'

describe('declareTopology', () => {
  it('creates exchanges, queues and bindings, through which messages arrive', async () => {
    await using world = await openWorld()
    const { exchange, queue, topology } = named(world)

    await declareTopology(world.connection, topology)

    const publisher = world.publisher({ route: (destination, { type = '' }) => ({ exchange: destination, routingKey: type }) })
    await publishAll(publisher, exchange, [event('a')])
    const message = await pull(open(world.source(queue)))
    expect([message.id, message.deliveryCount]).toEqual(['a', 1])
  })

  it('knows the server version from the client, whether or not the connection recovers', async () => {
    await using world = await openWorld()
    const channel = await world.connection.createChannel()
    const plain = await connect(rabbitmqUrl)
    const channelOfPlain = await plain.createChannel()
    expect(serverVersion(channel).major).toBeGreaterThanOrEqual(3)
    expect(serverVersion(channelOfPlain)).toEqual(serverVersion(channel))
    await plain.close()
    await channel.close()
  })

  it('changes nothing that exists, however often and concurrently it is called, and leaves no channel open', async () => {
    await using world = await openWorld()
    const { queue, topology } = named(world)
    await declareTopology(world.connection, topology)
    await world.fill(queue, ['a'])

    await Promise.all(Array.from({ length: 5 }, () => declareTopology(world.connection, topology)))

    expect(await world.ready(queue)).toBe(1)
    expect(world.openChannels()).toBe(0)
  })

  it('reports what exists with other properties, and does not change it', async () => {
    await using world = await openWorld()
    const { queue, topology } = named(world)
    await world.admin.assertQueue(queue, { durable: true })
    await world.fill(queue, ['a'])

    await expect(declareTopology(world.connection, topology)).rejects.toMatchObject({
      message: `Cannot declare queue '${queue}': it exists with other properties. Delete it, or declare it as it is.`,
      retryable: false,
    })

    expect(await world.ready(queue)).toBe(1)
    expect(world.openChannels()).toBe(0)
  })

  it('leaves no channel open when the client cannot encode it', async () => {
    await using world = await openWorld()
    const topology = { queues: { [world.name()]: { arguments: { 'x-odd': () => 'a function' } } } }

    await expect(declareTopology(world.connection, topology)).rejects.toThrow('Cannot declare queue')

    expect(world.openChannels()).toBe(0)
  })

  it('reports what is missing for a binding', async () => {
    await using world = await openWorld()
    const { exchange, queue } = named(world)
    const topology = { exchanges: { [exchange]: {} }, bindings: [{ exchange, queue, routingKey: '#' }] }

    await expect(declareTopology(world.connection, topology)).rejects.toThrow(
      `Cannot declare the binding of queue '${queue}' to exchange '${exchange}': one of the two does not exist. Declare it too.`,
    )
  })

  it.each([
    ['topology', undefined],
    ['queue', { queue: {} }],
    ['exchanges', { exchanges: { '': {} } }],
    ['type', { exchanges: { a: { type: 'x-delayed' } } }],
    ['durable', { exchanges: { a: { durable: 'no' } } }],
    ['declare.type', { queues: { a: { type: 'stream' } } }],
    ['queue', { bindings: [{ exchange: 'a' }] }],
    ['routingKey', { bindings: [{ exchange: 'a', queue: 'b', routingKey: 7 }] }],
    ['key', { bindings: [{ exchange: 'a', queue: 'b', key: 'x' }] }],
  ])('refuses a wrong %s before anything is sent: %o', async (name, wrong) => {
    const connection = new FakeConnection()

    await expect(declareTopology(connection as never, wrong as RabbitmqTopology)).rejects.toMatchObject({
      code: 'ACKORD_INVALID_OPTION',
      message: expect.stringContaining(name),
    })
    expect(connection.channels).toEqual([])
  })
})

function named(world: World): { readonly exchange: string; readonly queue: string; readonly topology: RabbitmqTopology } {
  const [exchange, queue] = [world.name(), world.name()]
  const topology = {
    exchanges: { [exchange]: { type: 'topic' } },
    queues: { [queue]: {} },
    bindings: [{ exchange, queue, routingKey: 'test.*' }],
  } as const
  return { exchange, queue, topology }
}
