import { type Attributes, eventHandler, Message, Router, systemRuntime } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { headers } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { event, natsUrl, never, numbered, open, openWorld, pull, pullMany, until, type World } from '../support/world.ts'

describe('a message in flight', () => {
  it('is not delivered to others while progress is reported, however long it takes', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['slow'])
    const signs = watchVerdicts(world, stream)
    const messages = open(world.source(stream, { declare: { consumer: { ackWait: 300 } } }))
    const message = await pull(messages)

    // Three progress reports per ack_wait: without them the message would have been redelivered twice by now.
    await until(() => signs.filter((sign) => sign === '+WPI').length >= 7)

    expect(await message.ack()).toBe(true)
    await until(() => signs.includes('+ACK'))
    expect(await world.manager.consumers.info(stream, 'billing')).toMatchObject({ num_ack_pending: 0, num_redelivered: 0 })
  })

  it('whose iteration was left still has its progress reported, until it is settled', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['slow'])
    const signs = watchVerdicts(world, stream)
    const messages = open(world.source(stream, { declare: { consumer: { ackWait: 300 } } }))
    const message = await pull(messages)
    await messages.return?.()

    const before = signs.length
    await until(() => signs.length >= before + 4)
    await message.ack()
    await until(() => signs.includes('+ACK'))

    expect(await world.manager.consumers.info(stream, 'billing')).toMatchObject({ num_ack_pending: 0, num_redelivered: 0 })
  })

  it('whose iteration was left and that is acked is acked in JetStream once the source is disposed', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['slow'])
    const connection = await world.another()
    const source = world.source(stream, {}, connection)
    const messages = open(source)
    const message = await pull(messages)
    await messages.return?.()

    await message.ack()
    await source[Symbol.asyncDispose]()
    await connection.close()

    expect(await world.manager.consumers.info(stream, 'billing')).toMatchObject({ num_ack_pending: 0, ack_floor: { stream_seq: 1 } })
  })

  it('is acked with the others of its turn, in one write', async () => {
    let writes = 0
    await using proxy = await startFaultProxy(natsUrl, (bytes) => {
      if (bytes.includes('+ACK')) writes += 1
      return 'pass'
    })
    await using world = await openWorld({ url: proxy.url })
    const stream = await world.stream()
    await world.fill(stream, numbered(50))
    const messages = await pullMany(open(world.source(stream)), 50)

    expect(await Promise.all(messages.map((message) => message.ack()))).toEqual(messages.map(() => true))
    await until(async () => (await world.manager.consumers.info(stream, 'billing')).num_ack_pending === 0)

    // A read from a socket may contain only part of a write.
    expect(writes).toBeLessThan(10)
  })

  it('that is rejected is terminated in JetStream, which distinguishes it from an ack', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    const signs = watchVerdicts(world, stream)
    await world.fill(stream, ['bad'])
    const message = await pull(open(world.source(stream, { deadLetter: 'discard' })))

    await message.reject(new Error('no'))

    await until(() => signs.includes('+TERM'))
  })
})

describe('a stream or consumer', () => {
  it('that is missing is an error that says what to do', async () => {
    await using world = await openWorld()
    const stream = await world.stream()

    await expect(pull(open(world.source(world.name(), { declare: undefined })))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining('the stream does not exist. Create it'),
    })
    await expect(pull(open(world.source(stream, { declare: undefined })))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining('the consumer does not exist. Create it, or have the source do so with declare: {}.'),
    })
  })

  it('is created as declared, and used unchanged afterwards', async () => {
    await using world = await openWorld()
    const stream = world.name()
    const declare = {
      stream: { subjects: [`${stream}.*`], retention: 'workqueue', duplicateWindow: 5000 },
      consumer: { filter: `${stream}.orders`, ackWait: 1500, maxAckPending: 7 },
    } as const
    const source = world.source(stream, { declare })
    const next = pull(open(source))
    await until(async () => (await world.publisher().publish(`${stream}.orders`, [event('a')], { signal: never }))[0]?.ok === true)
    const message = await next
    await message.ack()
    await source[Symbol.asyncDispose]()

    expect(message.id).toBe('a')
    expect((await world.manager.streams.info(stream)).config).toMatchObject({ retention: 'workqueue', duplicate_window: 5e9 })
    expect((await world.manager.consumers.info(stream, 'billing')).config).toMatchObject({
      ack_policy: 'explicit',
      ack_wait: 1.5e9,
      max_ack_pending: 7,
      filter_subject: `${stream}.orders`,
    })
    await world.fill(`${stream}.orders`, ['b'])
    expect((await pull(open(world.source(stream, { declare })))).id).toBe('b')
  })

  it('that exists with other settings is an error, and is not changed', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', ack_wait: 9e9 })

    await expect(pull(open(world.source(stream, { declare: { consumer: { ackWait: 1000 } } })))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining("exists with ack_wait 9000000000, and 'declare' says 1000000000"),
    })
    expect((await world.manager.consumers.info(stream, 'billing')).config.ack_wait).toBe(9e9)
  })

  it('that cannot be acked message by message is an error', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'all' })

    await expect(pull(open(world.source(stream, { declare: undefined })))).rejects.toMatchObject({
      message: expect.stringContaining("its ack_policy is 'all', and must be 'explicit'"),
    })
  })

  it('that limits requests is read within its limits', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, numbered(30))
    const limits = { max_batch: 10, max_expires: 1e9 }
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', ...limits })
    const messages = open(world.source(stream, { declare: undefined }))

    expect((await pullMany(messages, 30)).map(({ id }) => id)).toEqual(numbered(30))
    expect(world.logger.at('warn')).toEqual([])
  })

  it('that limits requests to fewer messages than order needs is an error', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    const limits = { max_batch: 10, max_ack_pending: 20 }
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', ...limits })

    await expect(pull(open(world.source(stream, { declare: undefined, order: 'perKey' })))).rejects.toMatchObject({
      code: 'ACKORD_SOURCE_FAILED',
      message: expect.stringContaining('its max_batch is 10, and order needs twice its max_ack_pending, which is 20'),
    })
  })

  it('that is deleted and created again is read again, with one log entry for each', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['a'])
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit' })
    const messages = open(world.source(stream, { declare: undefined }))
    await (await pull(messages)).ack()

    const next = pull(messages)
    await world.manager.consumers.delete(stream, 'billing')
    await until(() => world.logger.at('warn').length === 1)
    await world.manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', deliver_policy: 'new' })
    await until(() => world.logger.at('info').length === 1)
    await world.fill(stream, ['b'])

    expect((await next).id).toBe('b')
    expect(world.logger.at('warn')).toHaveLength(1)
  })
})

describe('order', () => {
  it('per subject yields one message of each at a time', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(`${stream}.a`, ['a1', 'a2'])
    await world.fill(`${stream}.b`, ['b1', 'b2'])
    const messages = open(world.source(stream, { order: 'perSubject' }))

    const first = await pullMany(messages, 2)
    expect(first.map(({ id }) => id).sort()).toEqual(['a1', 'b1'])
    for (const message of first) await message.ack()
    expect((await pullMany(messages, 2)).map(({ id }) => id).sort()).toEqual(['a2', 'b2'])
  })

  it('has one reader: the second waits, and continues when the first has left', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, numbered(3))
    const [first, second] = [
      world.source(stream, { order: 'perSubject' }),
      world.source(stream, { order: 'perSubject' }, await world.another()),
    ]
    const message = await pull(open(first))
    const next = pull(open(second))
    await until(() => world.logger.at('info').length === 1)

    expect(world.logger.at('info')[0]?.text).toContain('Another source reads the consumer in order')
    await message.ack()
    await first[Symbol.asyncDispose]()
    expect((await next).id).toBe('m1')
  })

  it('is kept although another client reads: messages behind one of theirs are not yielded before it', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    const messages = open(world.source(stream, { order: 'perSubject', declare: { consumer: { ackWait: 1000 } } }))
    await world.fill(stream, ['m0'])
    await (await pull(messages)).ack()

    // Another program requests messages of the same consumer, and crashes with the message that it gets.
    const stolen: (string | undefined)[] = []
    const thief = world.admin.subscribe(`thief.${stream}`, { callback: (_error, { reply }) => void stolen.push(reply) })
    const body = JSON.stringify({ batch: 1, expires: 1e9 })
    const steal = () => world.admin.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.billing`, body, { reply: `thief.${stream}` })
    const seen: (string | undefined)[] = []
    for (let number = 1; number < 10; number += 2) {
      steal()
      await world.admin.flush()
      await world.fill(stream, [`m${number}`, `m${number + 1}`])
      for (let count = 0; count < 2; count += 1) {
        const message = await pull(messages)
        seen.push(message.id)
        await message.ack()
      }
    }
    thief.unsubscribe()

    expect(seen).toEqual(numbered(11).slice(1))
    expect(stolen.length).toBeGreaterThan(0)
  }, 60_000)
})

describe('a foreign message', () => {
  it('is read by its subject and stream', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    const own = headers()
    own.append('Nats-Msg-Id', 'f-1')
    own.append('Content-Type', 'text/plain')
    own.append('traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')
    await world.admin.request(`${stream}.invoice`, 'hello', { timeout: 5000, headers: own })
    await world.admin.request(`${stream}.invoice`, 'bare', { timeout: 5000 })

    const [first, second] = await pullMany(open(world.source(stream)), 2)

    expect(first?.attributes).toEqual({
      id: 'f-1',
      type: `${stream}.invoice`,
      source: stream,
      time: expect.stringMatching(/^\d{4}-/),
      datacontenttype: 'text/plain',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    })
    expect(second?.attributes).toEqual({ id: `${stream}:2`, type: `${stream}.invoice`, source: stream, time: expect.any(String) })
  })

  it('is read by the configured function', async () => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.admin.request(stream, 'hello', { timeout: 5000 })
    const source = world.source(stream, { attributes: ({ subject, sequence }) => ({ id: `nr-${sequence}`, type: subject }) })

    expect((await pull(open(source))).attributes).toEqual({ id: 'nr-1', type: stream })
  })

  it.each(['none', 'perKey'] as const)('for which that function returns nothing is rejected, with order %s', async (order) => {
    await using world = await openWorld()
    const stream = await world.stream()
    await world.fill(stream, ['a', 'b'])
    // A JavaScript caller may return anything.
    const nothing = undefined as unknown as Attributes
    const source = world.source(stream, {
      order,
      deadLetter: 'discard',
      attributes: ({ sequence }) => (sequence === 1 ? nothing : { id: `nr-${sequence}` }),
    })

    expect((await pull(open(source))).id).toBe('nr-2')
    expect(world.logger.at('error').map(({ text }) => text)).toContain('A message cannot be read and is rejected.')
    expect(world.logger.at('warn')).toEqual([])
  })

  it('that cannot be read goes to the dead letter, and the next one arrives', async () => {
    await using world = await openWorld()
    const [stream, dead] = [await world.stream(), await world.stream()]
    const structured = headers()
    structured.append('content-type', 'application/cloudevents+json; charset=utf-8')
    await world.admin.request(stream, '{', { timeout: 5000, headers: structured })
    await world.admin.request(stream, '{"specversion":"1.0","id":"s","data":{"a":1}}', { timeout: 5000, headers: structured })
    const source = world.source(stream, { deadLetter: { publisher: world.publisher(), destination: dead } })

    const message = await pull(open(source))
    const letter = await pull(open(world.source(dead)))

    expect(message.attributes).toEqual({ specversion: '1.0', id: 's' })
    expect(new TextDecoder().decode(letter.data)).toBe('{')
  })
})

it('a poison message is dead-lettered after maxDeliveries, in the same stream too, and the others are handled', async () => {
  await using world = await openWorld()
  const stream = await world.stream()
  const source = world.source(stream, {
    declare: { consumer: { filter: `${stream}.orders` } },
    deadLetter: { publisher: world.publisher(), destination: `${stream}.dead` },
  })
  const handled: (string | undefined)[] = []
  const router = new Router({ maxDeliveries: 3, redeliveryDelay: () => 5, logger: world.logger }).handle(
    eventHandler({ type: 'test.event', source: '/router' }, async (_data, context) => {
      void context
      return []
    }),
  )
  router.use((next) => async (message, context) => {
    handled.push(message.id)
    if (message.id === 'poison') throw new Error('always')
    return await next(message, context)
  })
  await world.fill(`${stream}.orders`, ['poison', ...numbered(10)])
  const running = router.run(source)
  const letters = open(world.source(stream, { consumer: 'operators', declare: { consumer: { filter: `${stream}.dead` } } }))

  const letter = await pull(letters)
  await until(async () => (await world.manager.consumers.info(stream, 'billing')).num_ack_pending === 0)
  await router.stop()
  await running

  expect(letter.id).toBe('poison')
  expect(handled.filter((id) => id === 'poison')).toHaveLength(3)
  expect(new Set(handled)).toEqual(new Set(['poison', ...numbered(10)]))
})

it('a message that is rejected again after a replay has a second dead letter, also within the duplicate window', async () => {
  await using world = await openWorld()
  const stream = await world.stream()
  let rejections = 0
  const source = world.source(stream, {
    declare: { consumer: { filter: stream } },
    deadLetter: { publisher: world.publisher(), destination: `${stream}.dead` },
    runtime: { ...systemRuntime, now: () => Date.now() + rejections },
  })
  const messages = open(source)
  const replays = world.publisher({ deduplicate: false })
  for (const reason of ['first', 'second']) {
    await replays.publish(stream, [event('m')], { signal: never })
    rejections += 1
    await (await pull(messages)).reject(new Error(reason))
  }
  const letters = open(world.source(stream, { consumer: 'operators', declare: { consumer: { filter: `${stream}.dead` } } }))

  const reasons = (await pullMany(letters, 2)).map(({ attributes }) => attributes['deadletterreason'])

  expect(reasons).toEqual(['first', 'second'])
})

it('published messages have the headers of the CloudEvents binding', async () => {
  await using world = await openWorld()
  const stream = await world.stream()
  const attributes = { id: 'a', source: '/orders', type: 'order.placed', subject: 'Müller & Söhne', datacontenttype: 'application/json' }
  await world
    .publisher({ expectedStream: stream })
    .publish(stream, [new Message(new TextEncoder().encode('{}'), attributes)], { signal: never })

  const stored = await world.manager.streams.getMessage(stream, { seq: 1 })

  expect(Object.fromEntries(stored?.header ?? [])).toEqual({
    'ce-id': ['a'],
    'ce-source': ['/orders'],
    'ce-type': ['order.placed'],
    'ce-subject': ['M%C3%BCller%20&%20S%C3%B6hne'],
    'ce-datacontenttype': ['application/json'],
    'Nats-Msg-Id': [`${stream} /orders a`],
    'Nats-Expected-Stream': [stream],
  })
})

it('a publisher that expects another stream blames the destination', async () => {
  await using world = await openWorld()
  const stream = await world.stream()

  expect(await world.publisher({ expectedStream: 'other' }).publish(stream, [event('a')], { signal: never })).toMatchObject([
    { ok: false, scope: 'destination', error: { message: expect.stringContaining('belongs to another stream') } },
  ])
})

/** The verdicts and progress reports that JetStream receives for the stream. */
function watchVerdicts(world: World, stream: string): string[] {
  const verdicts: string[] = []
  world.admin.subscribe(`$JS.ACK.${stream}.>`, { callback: (_error, message) => void verdicts.push(message.string()) })
  return verdicts
}
