import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it, vi } from 'vitest'
import { type HttpSourceOptions, httpSource } from '../../src/index.ts'
import { binaryRequest, never, open, pull } from '../support/world.ts'

function setup(options: HttpSourceOptions = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  return { runtime, logger, source: httpSource({ runtime, logger, ...options }) }
}

const attributes = { specversion: '1.0', id: 'a', type: 'test.event', source: '/test' }
const structured = (event: object) =>
  new Request('http://test/events', {
    method: 'POST',
    body: JSON.stringify(event),
    headers: { 'content-type': 'application/cloudevents+json' },
  })
const batch = (events: readonly object[]) =>
  new Request('http://test/events', {
    method: 'POST',
    body: JSON.stringify(events),
    headers: { 'content-type': 'application/cloudevents-batch+json' },
  })
const sized = (id: string, size: number) => binaryRequest(id, { body: new Uint8Array(size) })

/** A request whose body the test sends step by step. */
function slowRequest(id: string) {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
    },
  })
  return {
    request: binaryRequest(id, { body, duplex: 'half' }),
    async send(size: number) {
      controller?.enqueue(new Uint8Array(size))
      await settlePromises()
    },
    end: () => controller?.close(),
  }
}

describe('ids and attributes', () => {
  it.each<[string, object, HttpSourceOptions]>([
    ['an id of 1,025 bytes', { ...attributes, id: 'x'.repeat(1025) }, {}],
    ['an id of 513 letters of two bytes', { ...attributes, id: 'é'.repeat(513) }, {}],
    ['attributes of more than 65,536 bytes', { ...attributes, subject: 'x'.repeat(65_500) }, {}],
    ['attributes whose names are long', { ...attributes, ['x'.repeat(65_500)]: true }, {}],
    ['an id that is longer than maxIdSize', { ...attributes, id: 'abc' }, { maxIdSize: 2 }],
    ['attributes that are longer than maxAttributesSize', attributes, { maxAttributesSize: 10 }],
  ])('%s are answered with 400, briefly', async (_name, event, options) => {
    const { source } = setup(options)
    void open(source).next()
    for (const request of [structured(event), batch([attributes, event])]) {
      const response = await source.handler(request)
      expect(response.status).toBe(400)
      expect((await response.text()).length).toBeLessThan(600)
    }
  })

  it('up to the limits are accepted', async () => {
    const { source } = setup()
    const messages = open(source)
    const answering = source.handler(structured({ ...attributes, id: 'x'.repeat(1024), subject: 's'.repeat(64_000) }))
    await (await pull(messages)).ack()
    expect((await answering).status).toBe(200)
  })

  it('that the option `attributes` returns are bounded too', async () => {
    const { source } = setup({ attributes: () => ({ ...attributes, id: 'x'.repeat(1025) }) })
    void open(source).next()
    expect((await source.handler(sized('a', 1))).status).toBe(400)
  })

  it('with invalid names are quoted on one line, and truncated', async () => {
    const { source, logger } = setup({ maxAttributesSize: 2_000_000 })
    void open(source).next()
    const response = await source.handler(structured({ ...attributes, [`evil\n${'x'.repeat(900_000)}`]: {} }))
    const text = await response.text()
    expect([response.status, text.trimEnd().includes('\n')]).toEqual([400, false])
    expect(text.length).toBeLessThan(600)
    expect(JSON.stringify(logger.lines).length).toBeLessThan(5000)
    const { err } = (logger.lines[0]?.fields ?? {}) as { err?: Error }
    expect(err?.message).not.toContain('\n')
  })

  it('take no memory in the counts of deliveries, however long an id may be', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage: () => void = runInNewContext('gc')
    const { source } = setup({ maxIdSize: 1_100_000, maxAttributesSize: 1_100_000, maxBodySize: 2_000_000 })
    const counts: (number | undefined)[] = []
    void (async () => {
      for await (const message of source.messages({ signal: never })) {
        counts.push(message.deliveryCount)
        await message.nack(new Error('later'))
      }
    })()
    await settlePromises()
    const send = async (index: number) => {
      const response = await source.handler(structured({ ...attributes, id: String(index).padEnd(1_000_000, 'x') }))
      expect(response.status).toBe(500)
    }
    await send(0)
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    for (let index = 1; index <= 60; index += 1) await send(index)
    collectGarbage()
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000)
    await send(60)
    expect(counts.slice(-2)).toEqual([1, 2])
  })
})

describe('the memory of requests', () => {
  it('is limited in bytes: requests that do not fit are answered with 503 until there is room', async () => {
    const { source } = setup({ maxBodySize: 10_000, maxPendingBytes: 20_000 })
    const messages = open(source)
    const first = source.handler(sized('a', 10_000))
    const message = await pull(messages)
    const second = await source.handler(sized('b', 10_000))
    expect([second.status, second.headers.get('retry-after')]).toEqual([503, '5'])
    await message.ack()
    expect((await first).status).toBe(200)
    const third = source.handler(sized('c', 10_000))
    await (await pull(messages)).ack()
    expect((await third).status).toBe(200)
  })

  it('counts the events of a batch, not only its bytes', async () => {
    const { source } = setup({ maxPendingBytes: 2_000_000 })
    const messages = open(source)
    const events = (count: number) => Array.from({ length: count }, (_, index) => ({ ...attributes, id: String(index) }))
    // The batch fits alone, but not beside another one.
    const first = source.handler(batch(events(2000)))
    await settlePromises()
    expect((await source.handler(batch(events(2000)))).status).toBe(503)
    const small = source.handler(sized('small', 1))
    for (let index = 0; index < 2001; index += 1) await (await pull(messages)).ack()
    expect([(await first).status, (await small).status]).toEqual([200, 200])
    // This batch never fits.
    expect((await source.handler(batch(events(3000)))).status).toBe(413)
  })

  it('is not reserved for the rest of a batch once one of its events cannot be read', async () => {
    const { source } = setup()
    void open(source).next()
    const request = batch(Array.from({ length: 10_000 }, () => ({})))
    const parse = vi.spyOn(JSON, 'parse')
    try {
      expect((await source.handler(request)).status).toBe(400)
      expect(parse.mock.calls.length).toBeLessThan(10)
    } finally {
      parse.mockRestore()
    }
  })

  it('is free again whatever the outcome of a request', async () => {
    const { source, runtime } = setup({
      maxBodySize: 10_000,
      maxPendingBytes: 20_000,
      bodyTimeout: 1000,
      settleTimeout: 1000,
      maxRequests: 5,
    })
    const messages = open(source)
    for (let round = 0; round < 5; round += 1) {
      const slow = slowRequest('slow')
      const late = source.handler(slow.request)
      await slow.send(9000)
      await runtime.advance(1000)
      expect((await late).status).toBe(408)
      expect((await source.handler(sized('large', 10_001))).status).toBe(413)
      expect((await source.handler(new Request('http://test', { method: 'POST', body: 'x'.repeat(9000) }))).status).toBe(415)
      expect((await source.handler(structured({ ...attributes, id: 5, data: 'x'.repeat(9000) }))).status).toBe(400)
      const nacked = source.handler(sized('nacked', 10_000))
      await (await pull(messages)).nack(new Error('later'))
      expect((await nacked).status).toBe(500)
      const forgotten = source.handler(sized('forgotten', 10_000))
      await pull(messages)
      await runtime.advance(1000)
      expect((await forgotten).status).toBe(504)
    }
  })

  it('of accepted messages is reserved until they are settled', async () => {
    const { source } = setup({ respond: 'accepted', maxBodySize: 10_000, maxPendingBytes: 20_000 })
    const messages = open(source)
    expect((await source.handler(sized('a', 10_000))).status).toBe(202)
    expect((await source.handler(sized('b', 10_000))).status).toBe(503)
    await (await pull(messages)).ack()
    expect((await source.handler(sized('c', 10_000))).status).toBe(202)
  })
})

describe('bodies that arrive slowly', () => {
  it('do not count as requests', async () => {
    const { source } = setup({ maxRequests: 1 })
    const messages = open(source)
    const slow = Array.from({ length: 5 }, (_, index) => slowRequest(`slow-${index}`))
    const answers = slow.map(({ request }) => source.handler(request))
    for (const { send } of slow) await send(10)
    const quick = source.handler(sized('quick', 10))
    const message = await pull(messages)
    expect(message.id).toBe('quick')
    await message.ack()
    expect((await quick).status).toBe(200)
    slow[0]?.end()
    await (await pull(messages)).ack()
    expect((await answers[0])?.status).toBe(200)
  })

  it('make room for others, the oldest first', async () => {
    const { source } = setup({ maxBodySize: 10_000, maxPendingBytes: 20_000 })
    const messages = open(source)
    const [oldest, younger] = [slowRequest('oldest'), slowRequest('younger')]
    const first = source.handler(oldest.request)
    await oldest.send(9000)
    const second = source.handler(younger.request)
    await younger.send(9000)
    const quick = source.handler(sized('quick', 9000))
    await (await pull(messages)).ack()
    expect((await quick).status).toBe(200)
    const response = await first
    expect([response.status, response.headers.get('connection')]).toEqual([503, 'close'])
    younger.end()
    await (await pull(messages)).ack()
    expect((await second).status).toBe(200)
  })

  it('use no more memory if they arrive in many small chunks', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage: () => void = runInNewContext('gc')
    const { source } = setup()
    const messages = open(source)
    const pieces = 50_000
    let sent = 0
    let end = () => {}
    const whole = new Promise<void>((resolve) => {
      end = resolve
    })
    let allRead = () => {}
    const arrived = new Promise<void>((resolve) => {
      allRead = resolve
    })
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          sent += 1
          if (sent <= pieces) controller.enqueue(Uint8Array.of(sent % 256))
          else {
            allRead()
            await whole
            controller.close()
          }
        },
      },
      { highWaterMark: 0 },
    )
    const request = binaryRequest('pieces', { body, duplex: 'half' })
    collectGarbage()
    const before = process.memoryUsage()
    const answer = source.handler(request)
    await arrived
    collectGarbage()
    const after = process.memoryUsage()
    expect(after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers).toBeLessThan(3_000_000)
    end()
    const message = await pull(messages)
    expect(Buffer.from(message.data)).toEqual(Buffer.from(Array.from({ length: pieces }, (_, index) => (index + 1) % 256)))
    await message.ack()
    expect((await answer).status).toBe(200)
  })

  it('are at most ten times as many as requests', async () => {
    const { source } = setup({ maxRequests: 1 })
    void open(source).next()
    const statuses: number[] = []
    for (let index = 0; index < 12; index += 1) {
      const slow = slowRequest(`slow-${index}`)
      void source.handler(slow.request).then(({ status }) => statuses.push(status))
      await slow.send(1)
    }
    expect(statuses).toEqual([503, 503])
  })
})

describe('the options', () => {
  it.each([
    ['maxPendingBytes', { maxPendingBytes: 100, maxBodySize: 200 }],
    ['maxPendingBytes', { maxPendingBytes: 0 }],
    ['maxIdSize', { maxIdSize: -1 }],
    ['maxAttributesSize', { maxAttributesSize: 1.5 }],
  ])('are validated: %s', (name, options) => {
    expect(() => httpSource(options)).toThrow(new RegExp(`^${name} must be`))
  })

  it('give large bodies room by themselves', () => {
    expect(() => httpSource({ maxBodySize: 500_000_000 })).not.toThrow()
  })
})
