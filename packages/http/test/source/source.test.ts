import { eventHandler, MemoryBroker, RejectError, Router, silentLogger } from '@ackord/core'
import { recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { sign, signingKeys } from '../../src/cloudevents/signature.ts'
import { type HttpSourceOptions, httpSource } from '../../src/index.ts'
import { binaryRequest, open, pull, secretOf, text } from '../support/world.ts'

function setup(options: HttpSourceOptions = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  return { runtime, logger, source: httpSource({ runtime, logger, ...options }) }
}

const structured = (body: string | Uint8Array, contentType = 'application/cloudevents+json') =>
  new Request('http://test/events', { method: 'POST', body, headers: { 'content-type': contentType } })
const batch = (...events: readonly object[]) => structured(JSON.stringify(events), 'application/cloudevents-batch+json')
const made = (id: string) => ({ specversion: '1.0', id, type: 'test.event', source: '/test', data: { id } })

/** A body that the test sends step by step. */
function slowBody(): { readonly stream: ReadableStream<Uint8Array>; readonly send: (size: number) => void; readonly end: () => void } {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const stream = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
    },
  })
  return { stream, send: (size) => controller?.enqueue(new Uint8Array(size)), end: () => controller?.close() }
}

describe('a request', () => {
  it('is answered with 200 when its message is acked, not before', async () => {
    const { source, runtime } = setup()
    const messages = open(source)
    const pulling = pull(messages)
    let answered = false
    const answering = source.handler(binaryRequest('a', { body: 'bytes', headers: { 'ce-subject': 'f%C3%BCr%0A' } })).finally(() => {
      answered = true
    })
    const message = await pulling
    await settlePromises()
    expect(answered).toBe(false)

    expect(await message.ack()).toBe(true)

    expect((await answering).status).toBe(200)
    expect(message.attributes).toEqual({
      id: 'a',
      type: 'test.event',
      source: '/test',
      specversion: '1.0',
      subject: 'für\n',
      datacontenttype: 'application/json',
    })
    expect(text(message)).toBe('bytes')
    expect(runtime.timers).toBe(0)
  })

  it('is answered with 500 when its message is nacked, and says when to retry', async () => {
    const { source } = setup()
    const messages = open(source)
    const first = source.handler(binaryRequest('a')).then(({ status, headers }) => [status, headers.get('retry-after')])
    await (await pull(messages)).nack(new Error('later'), { retryAfter: 1500 })
    const second = source.handler(binaryRequest('a')).then(({ status, headers }) => [status, headers.get('retry-after')])
    await (await pull(messages)).nack()

    expect([await first, await second]).toEqual([
      [500, '2'],
      [500, null],
    ])
  })

  it('does not reveal why its message failed', async () => {
    const { source } = setup()
    const messages = open(source)
    const answering = source.handler(binaryRequest('a'))
    await (await pull(messages)).nack(new Error('password hunter2 is wrong'))

    expect(await (await answering).text()).not.toContain('hunter2')
  })

  it('is answered with 504 when its message takes too long; a late verdict is refused', async () => {
    const { source, runtime } = setup({ settleTimeout: 5000 })
    const messages = open(source)
    const [first, second] = [source.handler(binaryRequest('a')), source.handler(binaryRequest('b'))]
    const inHand = await pull(messages)
    await runtime.advance(5000)

    expect([(await first).status, (await second).status]).toEqual([504, 504])
    await expect(inHand.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    // Messages that were not read by then are not handled any more: they are sent again.
    const again = source.handler(binaryRequest('c'))
    const next = await pull(messages)
    expect(next.id).toBe('c')
    await next.ack()
    expect((await again).status).toBe(200)
  })

  it('continues when its client disconnects; the verdict is refused', async () => {
    const { source, runtime } = setup({ maxRequests: 1 })
    const messages = open(source)
    const client = new AbortController()
    const answering = source.handler(binaryRequest('a', { signal: client.signal }))
    await settlePromises()
    client.abort()
    await answering
    // The request still counts.
    expect((await source.handler(binaryRequest('b'))).status).toBe(503)

    const message = await pull(messages)
    expect(message.id).toBe('a')
    await expect(message.ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
    const next = source.handler(binaryRequest('b'))
    await (await pull(messages)).ack()
    expect((await next).status).toBe(200)
    expect(runtime.timers).toBe(0)
  })

  it('counts how often its message was received here', async () => {
    const { source } = setup()
    const messages = open(source)
    const counts: (number | undefined)[] = []
    for (const verdict of ['nack', 'nack', 'ack', 'nack'] as const) {
      const answering = source.handler(binaryRequest('a'))
      const message = await pull(messages)
      counts.push(message.deliveryCount)
      await message[verdict]()
      await answering
    }

    expect(counts).toEqual([1, 2, 3, 1])
  })
})

describe('requests that are not accepted', () => {
  const refused = async (request: Request, options: HttpSourceOptions = {}) => {
    const { source, runtime } = setup(options)
    const stop = new AbortController()
    const pulled = open(source, stop.signal).next()
    const response = await source.handler(request)
    stop.abort()
    // No message was yielded, and no timer is left.
    expect(await pulled).toEqual({ value: undefined, done: true })
    expect(runtime.timers).toBe(0)
    return response
  }

  it.each(['GET', 'PUT', 'DELETE', 'OPTIONS', 'HEAD'])('%s: 405', async (method) => {
    const response = await refused(new Request('http://test/events', { method }))

    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  })

  it.each([
    ['plain JSON', structured('{}', 'application/json')],
    ['no content type', new Request('http://test/', { method: 'POST', body: new Uint8Array([1]) })],
    ['another format of CloudEvents', structured('{}', 'application/cloudevents+xml')],
    ['another batch format', structured('{}', 'application/cloudevents-batch+avro')],
    ['another charset', structured('{}', 'application/cloudevents+json; charset=utf-16')],
    ['compressed', binaryRequest('a', { headers: { 'content-encoding': 'gzip' } })],
  ])('%s: 415', async (_title, request) => {
    expect((await refused(request)).status).toBe(415)
  })

  it.each([
    ['no JSON', structured('{'), 'not valid JSON'],
    ['no object', structured('[]'), 'not an object'],
    ['not UTF-8', structured(new Uint8Array([0xff])), 'UTF-8'],
    ['an empty body', structured(''), 'not valid JSON'],
    ['attributes that are missing', structured('{"specversion":"1.0","id":"a"}'), "'type', 'source'"],
    ['an attribute of a wrong type', structured('{"specversion":"1.0","id":7,"type":"t","source":"/s"}'), "'id'"],
    ['an old version', structured('{"specversion":"0.3","id":"a","type":"t","source":"/s"}'), 'specversion'],
    [
      'headers that are missing',
      new Request('http://test/', { method: 'POST', body: '{}', headers: { 'ce-id': 'a' } }),
      "'type', 'source'",
    ],
    ['an empty id', binaryRequest(''), "'id'"],
    ['a wrong time', binaryRequest('a', { headers: { 'ce-time': 'yesterday' } }), "'time'"],
    ['a batch that is no array', structured('{}', 'application/cloudevents-batch+json'), 'not an array'],
    ['a batch with one that is wrong', batch(made('a'), { id: 'b' }), "'type'"],
    ['a batch that is no JSON', structured('[{]', 'application/cloudevents-batch+json'), 'not JSON'],
  ])('%s: 400, with the reason', async (_title, request, reason) => {
    const response = await refused(request)

    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(reason)])
  })

  it('too large by its declared or actual length: 413', async () => {
    const said = await refused(binaryRequest('a', { headers: { 'content-length': '1001' } }), { maxBodySize: 1000 })
    const { stream, send } = slowBody()
    const coming = refused(binaryRequest('a', { body: stream, duplex: 'half', headers: { 'content-length': '5' } }), { maxBodySize: 1000 })
    send(600)
    send(600)

    expect([said.status, (await coming).status]).toEqual([413, 413])
  })

  it('exactly as large as allowed are accepted', async () => {
    const { source } = setup({ maxBodySize: 1000 })
    const messages = open(source)
    const answering = source.handler(binaryRequest('a', { body: new Uint8Array(1000) }))
    await (await pull(messages)).ack()

    expect((await answering).status).toBe(200)
  })

  it('too slow: 408', async () => {
    const { source, runtime } = setup({ bodyTimeout: 2000 })
    void open(source).next()
    const { stream, send } = slowBody()
    const answering = source.handler(binaryRequest('a', { body: stream, duplex: 'half' }))
    send(1)
    await runtime.advance(1999)
    send(1)
    await runtime.advance(1)

    const response = await answering
    expect([response.status, response.headers.get('connection')]).toEqual([408, 'close'])
    expect(runtime.timers).toBe(0)
  })

  it('incomplete: 400', async () => {
    const stream = new ReadableStream({ pull: (controller) => controller.error(new Error('reset')) })

    expect((await refused(binaryRequest('a', { body: stream, duplex: 'half' }))).status).toBe(400)
  })

  it('before and after an iteration: 503', async () => {
    const { source } = setup()
    const before = await source.handler(binaryRequest('a'))
    const messages = open(source)
    const pulled = messages.next()
    await messages.return?.()
    await pulled
    const after = await source.handler(binaryRequest('a'))

    for (const response of [before, after]) expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5'])
  })

  it('more than maxRequests: 503', async () => {
    const { source } = setup({ maxRequests: 2 })
    const messages = open(source)
    const first = messages.next()
    const taken = [source.handler(binaryRequest('a')), source.handler(binaryRequest('b'))]
    const third = await source.handler(binaryRequest('c'))
    await (await first).value.ack()
    await taken[0]
    const fourth = source.handler(binaryRequest('d'))
    await (await pull(messages)).ack()
    await (await pull(messages)).ack()

    expect(third.status).toBe(503)
    expect([(await taken[1])?.status, (await fourth).status]).toEqual([200, 200])
  })

  it('whose body other code has read: 500, and the log explains it', async () => {
    const { source, logger } = setup()
    void open(source).next()
    const request = binaryRequest('a')
    await request.text()

    expect((await source.handler(request)).status).toBe(500)
    expect(logger.at('error')).toMatchObject([{ fields: { err: { message: expect.stringContaining('before any body parser') } } }])
  })
})

describe('structured events', () => {
  it('keep their bytes, including numbers past 2^53, alone and in a batch', async () => {
    const { source } = setup()
    const messages = open(source)
    const body = '{"specversion":"1.0","id":"a","type":"t","source":"/s","note":"},{[\\"","data":{"n":9007199254740993}}'
    const bodies = [
      structured(body),
      structured(` [ ${body} , ${body.replace('"a"', '"b"')} ] `, 'Application/CloudEvents-Batch+JSON; charset=UTF-8'),
    ]
    const answers = bodies.map((request) => source.handler(request))
    const seen: unknown[] = []
    for (let count = 0; count < 3; count += 1) {
      const message = await pull(messages)
      seen.push([message.id, message.attributes['note'], text(message)])
      await message.ack()
    }

    expect(seen).toEqual(['a', 'a', 'b'].map((id) => [id, '},{["', '{"n":9007199254740993}']))
    for (const answer of answers) expect((await answer).status).toBe(200)
  })
})

describe('a batch', () => {
  it('is answered once all of it is settled: 200 if all are acked', async () => {
    const { source } = setup()
    const messages = open(source)
    let answered = false
    const answering = source.handler(batch(made('a'), made('b'))).finally(() => {
      answered = true
    })
    await (await pull(messages)).ack()
    await settlePromises()
    expect(answered).toBe(false)
    await (await pull(messages)).ack()

    expect((await answering).status).toBe(200)
  })

  it('is answered with 500 if one is nacked, with the longest pause', async () => {
    const { source } = setup()
    const messages = open(source)
    const answering = source.handler(batch(made('a'), made('b'), made('c')))
    await (await pull(messages)).nack(new Error('x'), { retryAfter: 9000 })
    await (await pull(messages)).ack()
    await (await pull(messages)).nack(new Error('x'), { retryAfter: 2000 })

    const response = await answering
    expect([response.status, response.headers.get('retry-after')]).toEqual([500, '9'])
  })

  it.each([
    ['plain text', 'x'.repeat(14 * 1024 * 1024)],
    ['escapes', '\n"'.repeat(4 * 1024 * 1024)],
    ['backslashes', '\\'.repeat(8 * 1024 * 1024)],
  ])('with a text of many megabytes is read: %s', async (_kind, long) => {
    const { source } = setup({ maxBodySize: 64 * 1024 * 1024 })
    const messages = open(source)
    const answering = source.handler(batch(made('a'), { ...made('b'), data: { text: long } }, made('c')))
    for (const id of ['a', 'b', 'c']) {
      const message = await pull(messages)
      expect(message.id).toBe(id)
      if (id === 'b') expect(message.data.byteLength).toBe(JSON.stringify({ text: long }).length)
      await message.ack()
    }
    expect((await answering).status).toBe(200)
  })

  it('that is empty succeeds', async () => {
    const { source, runtime } = setup()
    void open(source).next()

    expect((await source.handler(batch())).status).toBe(200)
    expect(runtime.timers).toBe(0)
  })

  it('is answered with 503 if a part of it was released', async () => {
    const { source } = setup()
    const messages = open(source)
    const answering = source.handler(batch(made('a'), made('b')))
    const first = await pull(messages)
    await messages.return?.()
    await first.ack()

    expect((await answering).status).toBe(503)
  })
})

describe('rejected messages', () => {
  it('go to the dead letter, then the request is answered with 200', async () => {
    const broker = new MemoryBroker()
    const { source } = setup({ deadLetter: { publisher: broker, destination: 'dead' } })
    const messages = open(source)
    const answering = source.handler(binaryRequest('a'))
    await (await pull(messages)).reject(new RejectError('never'))

    expect((await answering).status).toBe(200)
    const letter = await pull(open(broker.source('dead')))
    expect(letter.attributes).toMatchObject({ id: 'a', deadletterreason: 'never' })
  })

  it('without a dead letter are sent again: 500', async () => {
    const { source, logger } = setup()
    const messages = open(source)
    const answering = source.handler(binaryRequest('a'))
    await (await pull(messages)).reject(new RejectError('never'))

    const response = await answering
    expect([response.status, Number(response.headers.get('retry-after')) > 0]).toEqual([500, true])
    expect(logger.at('warn')).toHaveLength(1)
  })

  it('include messages that fail too often', async () => {
    const broker = new MemoryBroker()
    const source = httpSource({ logger: silentLogger, deadLetter: { publisher: broker, destination: 'dead' } })
    const router = new Router({ maxDeliveries: 3, logger: silentLogger })
    router.handle(eventHandler({ type: 'test.event' }, () => Promise.reject(new Error('poison'))))
    const stop = new AbortController()
    const running = router.run(source, { signal: stop.signal })
    const statuses: number[] = []
    while (statuses.at(-1) !== 200 && statuses.length < 10) statuses.push((await source.handler(binaryRequest('a'))).status)
    stop.abort()
    await running

    expect(statuses.filter((status) => status !== 503)).toEqual([500, 500, 200])
    expect((await pull(open(broker.source('dead')))).attributes).toMatchObject({ id: 'a', deadlettercode: 'ACKORD_MAX_DELIVERIES' })
  })
})

describe('verification', () => {
  const secret = secretOf('one')

  it('rejects all others: 401', async () => {
    const { source } = setup({ verify: secret })
    void open(source).next()

    expect((await source.handler(binaryRequest('a'))).status).toBe(401)
  })

  it('by a function: only true grants access', async () => {
    const answers = [true, false, undefined, 'yes']
    const { source, logger } = setup({
      verify: ({ headers, body }) => {
        if (headers.get('ce-id') === 'throws') throw new Error('broken')
        return (body.byteLength === 2 ? answers[Number(headers.get('ce-id'))] : false) as boolean
      },
    })
    const messages = open(source)
    const genuine = source.handler(binaryRequest('0'))
    await (await pull(messages)).ack()

    expect((await genuine).status).toBe(200)
    for (const id of ['1', '2', '3']) expect((await source.handler(binaryRequest(id))).status).toBe(401)
    expect((await source.handler(binaryRequest('throws'))).status).toBe(500)
    expect(logger.at('error')).toHaveLength(1)
  })

  it('by a function that does not answer in time: 503, and the request no longer counts', async () => {
    const { source, runtime, logger } = setup({ verify: () => new Promise(() => {}), bodyTimeout: 2000, maxRequests: 1 })
    void open(source).next()
    for (const id of ['a', 'b']) {
      const answering = source.handler(binaryRequest(id))
      await runtime.advance(1999)
      expect((await source.handler(binaryRequest('more'))).status).toBe(503)
      await runtime.advance(1)
      const response = await answering
      expect([response.status, await response.text()]).toEqual([503, expect.stringContaining('verified')])
    }
    expect(logger.at('warn')).toHaveLength(2)
    expect(runtime.timers).toBe(0)
  })

  it('ends with its client', async () => {
    const asked: (string | null)[] = []
    const { source, runtime, logger } = setup({
      maxRequests: 1,
      verify: ({ headers }) => {
        asked.push(headers.get('ce-id'))
        return asked.length === 1 ? new Promise(() => {}) : true
      },
    })
    const messages = open(source)
    const client = new AbortController()
    const left = source.handler(binaryRequest('a', { signal: client.signal }))
    await settlePromises()
    expect(asked).toEqual(['a'])
    client.abort()
    expect((await left).status).toBe(503)
    const next = source.handler(binaryRequest('b'))
    await (await pull(messages)).ack()

    expect((await next).status).toBe(200)
    expect(logger.at('warn')).toEqual([])
    expect(runtime.timers).toBe(0)
  })

  describe('by a secret', () => {
    /** Signed with that secret, whatever its attributes. */
    const signed = (runtime: VirtualRuntime, id: string, body: string, headers: Record<string, string>) => {
      const timestamp = String(Math.floor(runtime.now() / 1000))
      const signature = sign(signingKeys('sign', secret), id, timestamp, new TextEncoder().encode(body))
      const webhook = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
      return new Request('http://test/events', { method: 'POST', body, headers: { ...webhook, ...headers } })
    }
    const ceHeaders = (id: string) => ({ 'ce-id': id, 'ce-type': 'forged', 'ce-source': '/forged', 'ce-specversion': '1.0' })

    it('refuses attributes that are not signed: 401', async () => {
      const { source, runtime } = setup({ verify: secret })
      const messages = open(source)
      const body = JSON.stringify(made('a'))
      for (const headers of [ceHeaders('a'), ceHeaders('other'), { ...ceHeaders('a'), 'content-type': 'application/json' }]) {
        const response = await source.handler(signed(runtime, 'a', body, headers))
        expect([response.status, await response.text()]).toEqual([401, expect.stringContaining('application/cloudevents+json')])
      }
      // The same bytes as they were signed, with contradicting headers.
      const answering = source.handler(
        signed(runtime, 'a', body, { ...ceHeaders('other'), 'content-type': 'application/cloudevents+json' }),
      )
      const message = await pull(messages)
      await message.ack()

      expect((await answering).status).toBe(200)
      expect(message.attributes).toMatchObject({ id: 'a', type: 'test.event', source: '/test' })
    })

    it('accepts them with unsignedAttributes, if the id is the signed one', async () => {
      const { source, runtime } = setup({ verify: [secret], unsignedAttributes: true })
      const messages = open(source)
      const { 'ce-id': _, ...withoutId } = ceHeaders('a')
      for (const headers of [ceHeaders('other'), ceHeaders(''), withoutId])
        expect((await source.handler(signed(runtime, 'a', '{}', headers))).status).toBe(401)
      const ids: unknown[] = []
      for (const [id, header] of [
        ['a', 'a'],
        ['a%20b', 'a%20b'],
        ['a b', '"a b"'],
      ] as const) {
        const answering = source.handler(signed(runtime, id, '{}', ceHeaders(header)))
        const message = await pull(messages)
        ids.push(message.id)
        await message.ack()
        expect((await answering).status).toBe(200)
      }

      expect(ids).toEqual(['a', 'a b', 'a b'])
    })

    it('leaves foreign requests to the hook', async () => {
      const { source, runtime } = setup({ verify: secret, attributes: ({ headers }) => ({ id: headers.get('webhook-id') ?? undefined }) })
      const messages = open(source)
      const answering = source.handler(signed(runtime, 'msg_1', '{}', { 'content-type': 'application/json' }))
      const message = await pull(messages)
      await message.ack()

      expect([(await answering).status, message.id]).toEqual([200, 'msg_1'])
    })
  })
})

describe('foreign requests', () => {
  it('get their attributes from the hook', async () => {
    const { source } = setup({
      attributes: ({ url, headers, body }) => ({
        id: headers.get('x-delivery') ?? undefined,
        type: new URL(url).pathname,
        source: 'git',
        size: body.byteLength,
      }),
    })
    const messages = open(source)
    const answering = source.handler(
      new Request('http://test/push', {
        method: 'POST',
        body: 'a=1',
        headers: { 'x-delivery': 'd1', 'content-type': 'application/x-www-form-urlencoded' },
      }),
    )
    const message = await pull(messages)
    await message.ack()

    expect((await answering).status).toBe(200)
    expect([message.attributes, text(message)]).toEqual([{ id: 'd1', type: '/push', source: 'git', size: 3 }, 'a=1'])
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('hunter2')
      },
    ],
    ['gives what is none', () => ({ id: 7 })],
    ['gives nothing', () => undefined],
  ])('are answered with 400 if the hook %s', async (_title, attributes) => {
    const { source, logger } = setup({ attributes: attributes as never })
    void open(source).next()
    const response = await source.handler(binaryRequest('a'))

    expect([response.status, await response.text()]).toEqual([400, 'The request cannot be read.\n'])
    expect(logger.at('warn')).toHaveLength(1)
  })
})

describe('respond: accepted', () => {
  it('answers with 202 immediately, and delivers nacked messages again', async () => {
    const { source, runtime } = setup({ respond: 'accepted' })
    const messages = open(source)
    expect((await source.handler(binaryRequest('a'))).status).toBe(202)
    const first = await pull(messages)
    await first.nack(new Error('later'), { retryAfter: 1000 })
    const again = pull(messages)
    await runtime.advance(1000)
    const second = await again
    await second.ack()

    expect([first, second].map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
      ['a', 1],
      ['a', 2],
    ])
    expect(runtime.timers).toBe(0)
  })

  it('passes waiting messages on when one of several readers leaves', async () => {
    const { source, logger } = setup({ respond: 'accepted' })
    const [one, other] = [open(source), open(source)]
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) await source.handler(binaryRequest(id))
    const inHand = [await pull(one), await pull(other)]
    await one.return?.()
    while (inHand.length < 6) inHand.push(await pull(other))
    for (const message of inHand) await message.ack()
    await source[Symbol.asyncDispose]()

    expect(inHand.map(({ id }) => id).sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    expect(logger.at('error')).toEqual([])
  })

  it.each(['abort', 'dispose'] as const)('hands nothing to those that end together, by %s', async (by) => {
    const { source, logger } = setup({ respond: 'accepted' })
    const stop = new AbortController()
    const [one, other] = [open(source, stop.signal), open(source, stop.signal)]
    const first = one.next()
    for (const id of ['a', 'b', 'c']) await source.handler(binaryRequest(id))
    await (await first).value.ack()
    await (await pull(other)).ack()
    const waiting = other.next()
    if (by === 'abort') stop.abort()
    else await source[Symbol.asyncDispose]()

    expect(await waiting).toEqual({ value: undefined, done: true })
    if (by === 'abort') expect((await pull(open(source))).id).toBe('c')
    else expect(logger.at('error')).toMatchObject([{ fields: { messages: 1 } }])
  })

  it('keeps accepted messages for the next iteration, counts them, and reports lost ones', async () => {
    const { source, logger } = setup({ respond: 'accepted', maxRequests: 2 })
    const first = open(source)
    const pulled = first.next()
    await source.handler(binaryRequest('a'))
    await source.handler(binaryRequest('b'))
    expect((await source.handler(binaryRequest('c'))).status).toBe(503)
    await (await pulled).value.ack()
    await first.return?.()

    const inHand = await pull(open(source))
    expect(inHand.id).toBe('b')
    await source[Symbol.asyncDispose]()

    expect(logger.at('error')).toMatchObject([{ fields: { messages: 1 } }])
    await expect(inHand.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
  })
})

describe('the end of an iteration', () => {
  it('releases waiting messages, and those being handled can still be settled', async () => {
    const { source, runtime } = setup()
    const stop = new AbortController()
    const messages = open(source, stop.signal)
    const pulling = pull(messages)
    const inHand = source.handler(binaryRequest('a'))
    const waiting = source.handler(binaryRequest('b'))
    const message = await pulling
    await settlePromises()
    stop.abort()

    expect((await waiting).status).toBe(503)
    expect(await message.ack()).toBe(true)
    expect((await inHand).status).toBe(200)
    expect(runtime.timers).toBe(0)
  })

  it('while a body is read: 503', async () => {
    const { source } = setup()
    const stop = new AbortController()
    void open(source, stop.signal).next()
    const { stream, send, end } = slowBody()
    const answering = source.handler(binaryRequest('a', { body: stream, duplex: 'half' }))
    send(1)
    await settlePromises()
    stop.abort()
    end()

    expect((await answering).status).toBe(503)
  })

  it.each(['settled', 'accepted'] as const)('as soon as a request is read: 503, with respond: %s', async (respond) => {
    const stop = new AbortController()
    const { source, runtime } = setup({
      respond,
      attributes: () => {
        stop.abort()
        return { id: 'a' }
      },
    })
    void open(source, stop.signal).next()

    expect((await source.handler(binaryRequest('a'))).status).toBe(503)
    expect(runtime.timers).toBe(0)
  })

  it('by disposing answers all open requests with 503', async () => {
    const { source, runtime } = setup()
    const messages = open(source)
    const answers = [source.handler(binaryRequest('a')), source.handler(binaryRequest('b'))]
    const message = await pull(messages)
    await source[Symbol.asyncDispose]()

    for (const answer of answers) expect((await answer).status).toBe(503)
    await expect(message.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(await messages.next()).toEqual({ value: undefined, done: true })
    expect((await source.handler(binaryRequest('c'))).status).toBe(503)
    expect(runtime.timers).toBe(0)
  })

  it('leaves the requests to another reader', async () => {
    const { source } = setup()
    const [one, other] = [open(source), open(source)]
    const pulls = [one.next(), other.next()]
    const answers = [source.handler(binaryRequest('a')), source.handler(binaryRequest('b'))]
    const seen: (string | undefined)[] = []
    for (const each of pulls) {
      const { value } = await each
      seen.push(value.id)
      await value.ack()
    }
    await Promise.all(answers)
    await one.return?.()
    const third = source.handler(binaryRequest('c'))
    await (await pull(other)).ack()

    expect(seen.sort()).toEqual(['a', 'b'])
    expect((await third).status).toBe(200)
  })
})
