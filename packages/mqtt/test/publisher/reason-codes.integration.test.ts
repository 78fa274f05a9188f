import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startMosquitto } from '../../../../scripts/servers/index.mjs'
import { event, never, numbered, open, openWorld } from '../support/world.ts'

let server: Awaited<ReturnType<typeof startMosquitto>>

/** `admin` may do everything; `guest` may publish to `open` only, and read nothing. */
beforeAll(async () => {
  server = await startMosquitto({
    users: { admin: 'a', guest: 'g' },
    access: ['user admin', 'topic readwrite #', 'topic read $SYS/#', 'user guest', 'topic write open/#'],
    settings: ['max_packet_size 2000', 'max_inflight_messages 3'],
  })
})

afterAll(() => server.stop())

const asGuest = () => ({ url: server.url.replace('admin:a', 'guest:g'), server: server.url })

describe('a broker that refuses messages', () => {
  it.each([1, 2] as const)('because of missing permissions: the destination is at fault, with QoS %i', async (qos) => {
    await using world = await openWorld(asGuest())
    await world.declare(world.name(), 'open/a')
    const publisher = world.publisher({ qos, mandatory: qos === 1 })

    const [closed, other] = await publisher.publish('closed/a', [event('a'), event('b')], { signal: never })

    expect([closed, other]).toMatchObject([
      { ok: false, scope: 'destination' },
      { ok: false, scope: 'destination' },
    ])
    expect(closed).toMatchObject({ error: { message: "The user is not allowed to publish to 'closed/a'." } })
    expect(await publisher.publish('open/a', [event('a')], { signal: never })).toEqual([{ ok: true }])
  })

  it('because of their size: only the large message fails, permanently, and it is not sent', async () => {
    await using world = await openWorld({ server: server.url })
    const topic = world.name()
    await world.declare(world.name(), topic)
    const large = event('large', { note: 'x'.repeat(2000) })

    const results = await world.publisher().publish(topic, [event('a'), large, event('b')], { signal: never })

    expect(results).toMatchObject([{ ok: true }, { ok: false, permanent: true }, { ok: true }])
    expect(results[1]).toMatchObject({ error: { message: expect.stringContaining("the broker's maximum packet size is 2000") } })
  })

  it('at the connection: the publisher reports the credentials, and the source ends', async () => {
    await using world = await openWorld({ server: server.url, url: server.url.replace('admin:a', 'admin:wrong') })
    const publishing = world.publisher()
    const reading = open(world.source('orders'))

    await expect(reading.next()).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining('Check user and password'),
    })
    expect(await publishing.publish('orders', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('Check user and password') } },
    ])
  })
})

describe('a topic without subscriptions', () => {
  it.each([
    ['the destination by default', {}, { scope: 'destination' }],
    ['the record if asked', { unroutable: 'record' }, { scope: 'record' }],
    ['the record with a function for topics', { topic: (name: string) => `${name}/a` }, { scope: 'record' }],
  ] as const)('is a failure of %s', async (_title, options, expected) => {
    await using world = await openWorld({ server: server.url })

    const results = await world.publisher(options).publish(world.name(), [event('a')], { signal: never })

    expect(results).toMatchObject([{ ok: false, ...expected, error: { message: expect.stringContaining('has no subscription') } }])
  })

  it('is no failure if the message may be dropped', async () => {
    await using world = await openWorld({ server: server.url })

    expect(await world.publisher({ mandatory: false }).publish(world.name(), [event('a')], { signal: never })).toEqual([{ ok: true }])
  })

  it('of the broker itself is a failure', async () => {
    await using world = await openWorld({ server: server.url })

    const [result] = await world.publisher().publish('$SYS/orders', [event('a')], { signal: never })

    expect(result).toMatchObject({ ok: false, scope: 'destination' })
  })
})

it.each([1, 2] as const)('no more messages are in flight than the broker accepts, with QoS %i', async (qos) => {
  await using world = await openWorld({ server: server.url })
  const topic = world.name()
  await world.declare(world.name(), topic)
  const client = world.client()
  let [inFlight, most] = [0, 0]
  client.on('packetsend', ({ cmd }) => {
    if (cmd === 'publish') inFlight += 1
    most = Math.max(most, inFlight)
  })
  client.on('packetreceive', ({ cmd }) => {
    if (cmd === 'puback' || cmd === 'pubcomp') inFlight -= 1
  })

  const results = await world.publisher({ qos }, client).publish(
    topic,
    numbered(50).map((id) => event(id)),
    { signal: never },
  )

  expect(results.every(({ ok }) => ok)).toBe(true)
  expect(most).toBe(3)
})

it('a client that is ended fails messages at once, and says so', async () => {
  await using world = await openWorld({ server: server.url })
  const client = world.client({ clean: true })
  const publisher = world.publisher({}, client)
  await client.endAsync()

  const [result] = await publisher.publish('orders', [event('a')], { signal: never })

  expect(result).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('The client is closed') } })
})
