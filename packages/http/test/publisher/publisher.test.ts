import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Publisher, type PublishResult, publishAll } from '@ackord/core'
import { deferred, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type HttpFetch, type HttpPublisherOptions, httpPublisher } from '../../src/index.ts'
import { event, never, serve } from '../support/world.ts'

const url = 'http://receiver.test/events'
const answer = (status: number, headers: Record<string, string> = {}) => new Response(status === 204 ? null : 'said', { status, headers })
const ids = (bodies: readonly string[]) => bodies.map((body) => JSON.parse(body).id)

interface Sent {
  readonly url: string
  readonly headers: Headers
  readonly body: string
}

/** Responds with the result of `respond`, and records the requests. */
function setup(
  respond: (sent: Sent, signal: AbortSignal) => Response | Promise<Response>,
  options: HttpPublisherOptions = {},
): { readonly publisher: Publisher & AsyncDisposable; readonly sent: Sent[]; readonly runtime: VirtualRuntime } {
  const sent: Sent[] = []
  const runtime = new VirtualRuntime()
  const fetch: HttpFetch = async (target, init) => {
    const request = { url: target, headers: new Headers(init.headers), body: Buffer.from(init.body as Uint8Array).toString() }
    sent.push(request)
    if (!(init.signal instanceof AbortSignal)) throw new Error('There is no signal.')
    return await respond(request, init.signal)
  }
  const address = options.route === undefined ? { url } : {}
  return { publisher: httpPublisher({ ...address, fetch, runtime, ...options }), sent, runtime }
}

describe('the answer', () => {
  it.each([200, 201, 202, 204])('%i confirms', async (status) => {
    const { publisher } = setup(() => answer(status))

    expect(await publisher.publish('d', [event('a')], { signal: never })).toEqual([{ ok: true }])
  })

  it.each([400, 413, 415, 422, 431])('%i is a permanent failure', async (status) => {
    const { publisher } = setup(() => answer(status))

    const [result] = await publisher.publish('d', [event('a')], { signal: never })

    expect(result).toMatchObject({ ok: false, permanent: true, error: { code: 'ACKORD_PUBLISH_FAILED', retryable: false } })
    expect(result).not.toHaveProperty('scope', 'destination')
  })

  it.each([0, 301, 307, 401, 403, 404, 408, 410, 429, 502, 503, 504])('%i is the destination’s fault', async (status) => {
    const { publisher } = setup(() => (status === 0 ? Response.error() : answer(status)))

    const [result] = await publisher.publish('d', [event('a')], { signal: never })

    expect(result).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining(`answered ${status}`) } })
    expect(result).not.toHaveProperty('permanent', true)
  })

  it.each([409, 425, 500, 501])('%i is a reason to retry the message', async (status) => {
    const { publisher } = setup(() => answer(status))

    const [result] = await publisher.publish('d', [event('a')], { signal: never })

    expect(result).toEqual({ ok: false, error: expect.objectContaining({ retryable: true }) })
  })

  it('has the meaning that `statuses` configures', async () => {
    const { publisher } = setup(({ body }) => answer(Number(JSON.parse(body).id)), {
      statuses: { 404: 'park', 409: 'confirmed', 200: 'retry', 500: 'destination' },
      concurrency: 1,
    })

    const results = await publisher.publish(
      'd',
      ['404', '409', '200', '500'].map((id) => event(id)),
      { signal: never },
    )

    expect(results).toMatchObject([{ permanent: true }, { ok: true }, { ok: false }, { scope: 'destination' }])
    expect(results[2]).toEqual({ ok: false, error: expect.anything() })
  })

  it.each([
    ['120', 120_000],
    ['0', 0],
    // The virtual clock starts at the beginning of 2026.
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Thursday, 01-Jan-26 00:00:30 GMT', 30_000],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['999999999', 86_400_000],
    ['soon', undefined],
    ['-5', undefined],
  ])('with Retry-After: %s asks for a pause', async (value, expected) => {
    const { publisher } = setup(({ body }) => answer(body.includes('a') ? 503 : 500, { 'retry-after': value }))

    for (const id of ['a', 'x']) {
      const [result] = await publisher.publish('d', [event(id)], { signal: never })
      expect(result?.ok === false && result.retryAfter).toBe(expected)
    }
  })
})

describe('no answer', () => {
  it('within the time-out is the destination’s fault, and a later answer is ignored', async () => {
    const late = deferred<Response>()
    let aborted = false
    const { publisher, runtime } = setup(
      (_sent, signal) => {
        signal.addEventListener('abort', () => {
          aborted = true
        })
        return late.promise
      },
      { timeout: 3000 },
    )
    const publishing = publisher.publish('d', [event('a')], { signal: never })
    await runtime.advance(2999)
    expect(aborted).toBe(false)
    await runtime.advance(1)

    expect(await publishing).toMatchObject([{ ok: false, scope: 'destination', error: { message: expect.stringContaining('3000 ms') } }])
    expect(aborted).toBe(true)
    const discarded = deferred()
    late.resolve(new Response(new ReadableStream({ cancel: () => discarded.resolve() })))
    await discarded.promise
    expect(runtime.timers).toBe(0)
  })

  it('has the meaning of status 504', async () => {
    const { publisher, runtime } = setup(() => new Promise(() => {}), { statuses: { 504: 'retry' } })
    const publishing = publisher.publish('d', [event('a')], { signal: never })
    await runtime.advance(8000)

    expect(await publishing).toEqual([{ ok: false, error: expect.objectContaining({ code: 'ACKORD_PUBLISH_FAILED' }) }])
  })

  it('because of an abort reports the known result of each message', async () => {
    const stop = new AbortController()
    const { publisher, runtime } = setup(({ body }) => (body.includes('a') ? answer(200) : new Promise<Response>(() => {})), {
      concurrency: 2,
    })
    const publishing = publisher.publish(
      'd',
      ['a', 'b', 'c', 'd'].map((id) => event(id)),
      { signal: stop.signal },
    )
    await settlePromises()

    stop.abort(new Error('too long'))

    const aborted = { ok: false, scope: 'destination', error: { message: expect.stringContaining('aborted') } }
    expect(await publishing).toMatchObject([{ ok: true }, aborted, aborted, { ok: false, scope: 'destination' }])
    expect(runtime.timers).toBe(0)
  })

  it('rejects before anything is sent when it is already aborted', async () => {
    const { publisher, sent } = setup(() => answer(200))

    await expect(publisher.publish('d', [event('a')], { signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
    expect(sent).toEqual([])
  })

  it('from a server that is down, an unknown host, and a port without TLS', async () => {
    await using closed = await serve(() => {})
    const refused = closed.url
    await using plain = await serve((_request, response) => response.end())
    await closed[Symbol.asyncDispose]()
    const publisher = httpPublisher()

    for (const target of [refused, 'http://nowhere.invalid/x', plain.url.replace('http:', 'https:')]) {
      expect(await publisher.publish(target, [event('a')], { signal: never })).toMatchObject([
        { ok: false, scope: 'destination', error: { code: 'ACKORD_PUBLISH_FAILED', cause: expect.any(Error) } },
      ])
    }
  })

  it('ends the rest of the call', async () => {
    const { publisher, sent } = setup(() => answer(503, { 'retry-after': '7' }), { concurrency: 1 })

    const results = await publisher.publish(
      'd',
      ['a', 'b', 'c'].map((id) => event(id)),
      { signal: never },
    )

    expect(results).toMatchObject([0, 1, 2].map(() => ({ ok: false, scope: 'destination', retryAfter: 7000 })))
    expect(sent).toHaveLength(1)
  })
})

describe('order and concurrency', () => {
  it('sends as many requests concurrently as allowed, and those of one key one after the other', async () => {
    const answers: (() => void)[] = []
    const { publisher, sent } = setup(() => new Promise((resolve) => answers.push(() => resolve(answer(200)))), { concurrency: 2 })
    const messages = [
      event('a1', { partitionkey: 'a' }),
      event('a2', { partitionkey: 'a' }),
      event('b1', { partitionkey: 'b' }),
      event('c1'),
    ]
    const publishing = publisher.publish('d', messages, { signal: never })
    const seen: unknown[] = []
    for (let turn = 0; turn < 4; turn += 1) {
      await settlePromises()
      seen.push(ids(sent.map(({ body }) => body)))
      answers.shift()?.()
    }

    expect(await publishing).toEqual(messages.map(() => ({ ok: true })))
    expect(seen).toEqual([
      ['a1', 'b1'],
      ['a1', 'b1', 'a2'],
      ['a1', 'b1', 'a2', 'c1'],
      ['a1', 'b1', 'a2', 'c1'],
    ])
  })

  it('after a failed message of a key sends no later message of the key, unless the failed message is parked', async () => {
    const { publisher, sent } = setup(({ body }) => answer(body.includes('bad') ? 400 : body.includes('busy') ? 500 : 200))
    const results = await publisher.publish(
      'd',
      [
        event('busy', { partitionkey: 'a' }),
        event('a2', { partitionkey: 'a' }),
        event('bad', { partitionkey: 'b' }),
        event('b2', { partitionkey: 'b' }),
      ],
      { signal: never },
    )

    expect(results).toMatchObject([{ ok: false }, { ok: false, tried: false }, { ok: false, permanent: true }, { ok: true }])
    expect(results[0]).not.toHaveProperty('tried')
    expect(results[1]).not.toHaveProperty('scope')
    expect(ids(sent.map(({ body }) => body)).sort()).toEqual(['b2', 'bad', 'busy'])
  })
})

describe('modes', () => {
  it('structured has everything in the body', async () => {
    const { publisher, sent } = setup(() => answer(200), { mode: 'structured' })
    await publishAll(publisher, 'd', [event('ü\n')])

    expect(sent[0]?.headers.get('content-type')).toBe('application/cloudevents+json; charset=utf-8')
    expect(JSON.parse(sent[0]?.body ?? '')).toMatchObject({ specversion: '1.0', id: 'ü\n', type: 'test.event', data: { id: 'ü\n' } })
  })

  it('batch is one request for a URL, with one result for all', async () => {
    const { publisher, sent } = setup(({ url: target }) => answer(target.endsWith('b') ? 503 : 200), {
      mode: 'batch',
      route: (_destination, { id }) => `http://receiver.test/${id?.[0]}`,
    })

    const results = await publisher.publish(
      'd',
      ['a1', 'b1', 'a2', 'b2'].map((id) => event(id)),
      { signal: never },
    )

    expect(results).toMatchObject([{ ok: true }, { ok: false }, { ok: true }, { ok: false }])
    expect(sent.map(({ body }) => ids(JSON.parse(body).map((each: unknown) => JSON.stringify(each))))).toEqual([
      ['a1', 'a2'],
      ['b1', 'b2'],
    ])
    expect(sent[0]?.headers.get('content-type')).toBe('application/cloudevents-batch+json; charset=utf-8')
  })

  it('batch that is refused because of one message is halved until that message is alone', async () => {
    const { publisher, sent } = setup(({ body }) => answer(body.includes('"bad"') ? 400 : 200), { mode: 'batch' })
    const names = ['a', 'b', 'c', 'bad', 'e', 'f', 'g', 'h']

    const results = await publisher.publish(
      'd',
      names.map((id) => event(id)),
      { signal: never },
    )

    expect(results.map(({ ok }) => ok)).toEqual(names.map((id) => id !== 'bad'))
    expect(results[3]).toMatchObject({ permanent: true })
    expect(sent.length).toBeLessThan(names.length)
  })

  it('batch keeps the order of a key when one half has to be sent again', async () => {
    const { publisher, sent } = setup(({ body }) => answer(body.includes('"bad"') ? 400 : body.includes('"a"') ? 500 : 200), {
      mode: 'batch',
    })
    const messages = [event('a', { partitionkey: 'k' }), event('x'), event('bad'), event('b', { partitionkey: 'k' })]

    const results = await publisher.publish('d', messages, { signal: never })

    expect(results).toMatchObject([{ ok: false }, { ok: true }, { ok: false, permanent: true }, { ok: false }])
    expect(sent.filter(({ body }) => body.includes('"b"'))).toHaveLength(1)
  })

  it('batch with one message that fails temporarily confirms all the others', async () => {
    const { publisher, sent } = setup(({ body }) => answer(body.includes('"nacked"') ? 500 : 200), { mode: 'batch' })
    const names = [
      ...Array.from({ length: 60 }, (_, index) => `a${index}`),
      'nacked',
      ...Array.from({ length: 40 }, (_, index) => `b${index}`),
    ]

    const results = await publisher.publish(
      'd',
      names.map((id) => event(id)),
      { signal: never },
    )

    expect(names.filter((_, index) => results[index]?.ok !== true)).toEqual(['nacked'])
    expect(results[60]).not.toHaveProperty('permanent')
    expect(results[60]).not.toHaveProperty('scope')
    expect(sent.length).toBeLessThanOrEqual(2 * 7 + 1)
  })

  it('batch is not halved if the destination is at fault', async () => {
    const { publisher, sent } = setup(() => answer(503), { mode: 'batch' })
    const results = await publisher.publish('d', [event('a'), event('b')], { signal: never })
    expect(results).toMatchObject([{ scope: 'destination' }, { scope: 'destination' }])
    expect(sent).toHaveLength(1)
  })
})

describe('what cannot be sent', () => {
  it('fails permanently, and the others are sent', async () => {
    const { publisher, sent } = setup(() => answer(200))
    const wrong = [
      event('a', { 'bad name': 'x' }),
      event(''),
      Object.assign(event('b'), { data: 'text' }),
      event('c', { when: new Date(Number.NaN) }),
    ]

    const results = await publisher.publish('d', [...wrong, event('good')], { signal: never })

    expect(results.slice(0, 4)).toMatchObject(wrong.map(() => ({ ok: false, permanent: true })))
    expect(results[4]).toEqual({ ok: true })
    expect(sent).toHaveLength(1)
  })

  it('is reported without the password and the query of its destination', async () => {
    const publisher = httpPublisher({ fetch: () => Promise.resolve(answer(200)) })
    const wrong = Object.assign(event('a'), { data: { a: 1 } })

    const [result] = await publisher.publish('https://me:hunter2@receiver.test/events?token=hunter3', [wrong], { signal: never })

    expect(result).toMatchObject({ ok: false, permanent: true, error: { code: 'ACKORD_WRONG_DATA' } })
    const text = result?.ok === false && String(result.error)
    expect(text).toContain('https://receiver.test/events')
    expect(text).not.toMatch(/hunter/)
  })

  it('because its route fails affects that message only', async () => {
    const { publisher } = setup(() => answer(200), {
      route: (_destination, { id }) => {
        if (id === 'a') throw new Error('no route')
        return id === 'b' ? 'nowhere' : url
      },
    })

    const results = await publisher.publish(
      'd',
      ['a', 'b', 'c'].map((id) => event(id)),
      { signal: never },
    )

    expect(results).toMatchObject([{ ok: false, error: { cause: { message: 'no route' } } }, { ok: false }, { ok: true }])
  })

  it('because the destination is no URL is the destination’s fault', async () => {
    expect(await httpPublisher().publish('orders', [event('a')], { signal: never })).toMatchObject([{ ok: false, scope: 'destination' }])
  })
})

describe('headers', () => {
  it('are sent, from a function too; the URL’s password is, as basic authorization', async () => {
    const { publisher, sent } = setup(() => answer(200), {
      url: 'http://me:p%40ss@receiver.test/events?token=hunter2',
      headers: async (destination) => ({ 'X-Destination': destination }),
    })
    await publishAll(publisher, 'orders', [event('a')])

    expect(sent[0]?.url).toBe('http://receiver.test/events?token=hunter2')
    expect(sent[0]?.headers.get('authorization')).toBe(`Basic ${Buffer.from('me:p@ss').toString('base64')}`)
    expect(sent[0]?.headers.get('x-destination')).toBe('orders')
  })

  it('that are configured take precedence over the URL’s password', async () => {
    const { publisher, sent } = setup(() => answer(200), { url: 'http://me:pass@receiver.test/', headers: { Authorization: 'Bearer t' } })
    await publishAll(publisher, 'orders', [event('a')])

    expect(sent[0]?.headers.get('authorization')).toBe('Bearer t')
  })

  it('that cannot be obtained are the destination’s fault', async () => {
    const { publisher, sent } = setup(() => answer(200), { headers: () => Promise.reject(new Error('no token')) })

    expect(await publisher.publish('d', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { cause: { message: 'no token' } } },
    ])
    expect(sent).toEqual([])
  })

  it('and addresses with secrets do not appear in errors', async () => {
    const secrets = { url: 'http://me:hunter2@receiver.test/events?token=hunter2', headers: { authorization: 'hunter2' } }
    const { publisher } = setup(({ body }) => {
      if (body.includes('lost')) throw new TypeError('fetch failed')
      return answer(500)
    }, secrets)

    const results = await publisher.publish('d', [event('a'), event('b', { 'bad name': '' }), event('lost')], { signal: never })

    expect(results).toHaveLength(3)
    for (const result of results) expect(shownIn(result)).not.toContain('hunter2')
  })

  function shownIn(result: PublishResult): string {
    const texts: string[] = []
    for (let error: unknown = result.ok ? undefined : result.error; error instanceof Error; error = error.cause)
      texts.push(String(error.stack), JSON.stringify(error))
    expect(texts.length).toBeGreaterThan(0)
    return texts.join('\n')
  }
})

describe('connections', () => {
  it('are reused, whatever the answer is', async () => {
    const sockets = new Set<unknown>()
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      sockets.add(request.socket)
      request.resume().on('end', () => {
        response.statusCode = request.headers['ce-id'] === 'odd' ? 500 : 200
        response.end('x'.repeat(10_000))
      })
    }
    await using server = await serve(listener)
    const publisher = httpPublisher({ url: server.url })

    for (let round = 0; round < 10; round += 1) for (const id of ['a', 'odd']) await publisher.publish('d', [event(id)], { signal: never })

    // fetch may not have its connection back yet, and then opens a second one.
    expect(sockets.size).toBeLessThanOrEqual(2)
  })

  it('are closed when a response body does not end; its status still counts', async () => {
    const closed = deferred()
    await using server = await serve((request, response) => {
      request.resume()
      response.on('close', () => closed.resolve())
      const flood = () => {
        while (response.write(Buffer.alloc(16_384))) if (response.destroyed) return
        response.once('drain', flood)
      }
      flood()
    })

    expect(await httpPublisher({ url: server.url }).publish('d', [event('a')], { signal: never })).toEqual([{ ok: true }])
    await closed.promise
  })

  it('that are cut leave the message for a retry', async () => {
    await using server = await serve((request) => void request.socket.destroy())

    expect(await httpPublisher({ url: server.url }).publish('d', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('may have the message') } },
    ])
  })

  it('do not follow redirects', async () => {
    let asked = 0
    await using elsewhere = await serve((_request, response) => {
      asked += 1
      response.end()
    })
    await using server = await serve((_request, response) => response.writeHead(307, { location: elsewhere.url }).end())

    expect(await httpPublisher({ url: server.url }).publish('d', [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('answered 307, a redirect') } },
    ])
    expect(asked).toBe(0)
  })
})

it('many concurrent calls cause no MaxListenersExceededWarning', async () => {
  const warnings: string[] = []
  const onWarning = (warning: Error) => void warnings.push(warning.name)
  process.on('warning', onWarning)
  const late = deferred()
  const { publisher } = setup(() => late.promise.then(() => answer(200)))
  const calls = Array.from({ length: 30 }, (_, index) =>
    publisher.publish('d', [event(`m${index}`)], { signal: new AbortController().signal }),
  )
  await settlePromises()
  late.resolve()
  const results = await Promise.all(calls)
  process.off('warning', onWarning)

  expect(results.flat()).toEqual(calls.map(() => ({ ok: true })))
  expect(warnings).toEqual([])
})

describe('disposing', () => {
  it('waits for requests in flight, then rejects', async () => {
    const late = deferred<Response>()
    const { publisher, runtime } = setup(() => late.promise)
    const publishing = publisher.publish('d', [event('a')], { signal: never })
    await settlePromises()
    const disposing = publisher[Symbol.asyncDispose]()
    late.resolve(answer(200))
    await disposing

    expect(await publishing).toEqual([{ ok: true }])
    await expect(publisher.publish('d', [event('a')], { signal: never })).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(runtime.timers).toBe(0)
  })

  it('waits for a limited time', async () => {
    const { publisher, runtime } = setup(() => new Promise(() => {}), { concurrency: 1, timeout: 1000 })
    const publishing = publisher.publish(
      'd',
      ['a', 'b', 'c'].map((id) => event(id)),
      { signal: never },
    )
    const disposing = publisher[Symbol.asyncDispose]()
    await runtime.advance(1000)
    await disposing

    expect(await publishing).toMatchObject([0, 1, 2].map(() => ({ ok: false, scope: 'destination' })))
    expect(runtime.timers).toBe(0)
  })
})
