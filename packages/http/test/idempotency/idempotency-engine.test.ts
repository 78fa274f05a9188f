import { AckordError, currentContext, defineEvent } from '@ackord/core'
import { type IdempotencyStore, MemoryIdempotencyStore, MemoryOutboxStore, type MemoryTransaction, type StoredAnswer } from '@ackord/outbox'
import { deferred, recordingLogger, settlePromises, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { IdempotencyEngine, type IdempotencyOptions, type IdempotentWork, type RequestView } from '../../src/idempotency/index.ts'

interface TestRequest {
  readonly user?: string
  readonly method?: string
  readonly url?: string
  readonly key?: string | readonly string[] | null
  readonly body?: unknown
}

const orderPlaced = defineEvent<{ readonly product: string }>('order.placed')
const encode = (text: string) => new TextEncoder().encode(text)
const decode = ({ body }: StoredAnswer) => new TextDecoder().decode(body)
const created: StoredAnswer = { status: 201, headers: [['content-type', 'text/plain']], body: encode('created') }

function open(options: Partial<IdempotencyOptions<TestRequest>> = {}, changeStore = (store: IdempotencyStore<MemoryTransaction>) => store) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const outbox = new MemoryOutboxStore({ runtime, source: '/orders', destination: 'orders' })
  const store = changeStore(new MemoryIdempotencyStore(outbox, { runtime }))
  const engine = new IdempotencyEngine<MemoryTransaction, TestRequest>(store, {
    scope: ({ user = 'ann' }) => [user, 'POST /orders'],
    runtime,
    logger,
    ...options,
  })
  let calls = 0
  const send = (request: TestRequest = {}, work: IdempotentWork<MemoryTransaction> = async () => created) =>
    engine.handle(request, viewOf(request), async (transaction, context) => {
      calls += 1
      return await work(transaction, context)
    })
  return { engine, runtime, logger, outbox, send, calls: () => calls }
}

function viewOf({ method = 'POST', url = '/orders', key = 'k-1', body = { product: 'lamp' } }: TestRequest): RequestView {
  return { method, url, header: (name) => (name === 'idempotency-key' ? key : undefined), body: () => body }
}

function problemOf(answer: StoredAnswer | undefined) {
  if (answer === undefined) throw new Error('There is no answer.')
  const content = JSON.parse(decode(answer)) as Record<string, unknown>
  expect(answer.headers).toContainEqual(['content-type', 'application/problem+json'])
  expect(content).toEqual({
    type: expect.stringMatching(/^urn:ackord:problem:[a-z-]+$/),
    title: expect.any(String),
    status: answer.status,
    detail: expect.stringMatching(/\.$/),
  })
  return { status: answer.status, type: String(content['type']).split(':').at(-1), retryAfter: headerOf(answer, 'retry-after') }
}

async function eventsIn(outbox: MemoryOutboxStore): Promise<number> {
  return (await outbox.stats()).destinations.reduce((sum, { ready }) => sum + ready, 0)
}

function headerOf({ headers }: StoredAnswer, name: string): string | undefined {
  return headers.find(([each]) => each === name)?.[1]
}

describe('the same key', () => {
  it('gives the same answer, and the work is done once', async () => {
    const { send, calls } = open()
    const [first, second] = [await send(), await send()]

    expect(first).toEqual(created)
    expect(second).toEqual({ ...created, headers: [...created.headers, ['idempotency-replayed', 'true']] })
    expect(calls()).toBe(1)
  })

  it('commits the events of the work, and only those of the first request', async () => {
    const { send, outbox } = open()
    const append: IdempotentWork<MemoryTransaction> = async (transaction) => {
      await outbox.append(transaction, orderPlaced({ product: 'lamp' }))
      return created
    }
    await send({}, append)
    await send({}, append)

    expect(await eventsIn(outbox)).toBe(1)
  })

  it('is refused with 409 while the first request is running, and answered later', async () => {
    const { send, calls } = open()
    const gate = deferred<StoredAnswer>()
    const first = send({}, () => gate.promise)
    await settlePromises()

    expect(problemOf(await send())).toEqual({ status: 409, type: 'request-in-progress', retryAfter: '1' })
    gate.resolve(created)
    expect(await first).toEqual(created)
    expect(decode((await send()) as StoredAnswer)).toBe('created')
    expect(calls()).toBe(1)
  })

  it('is asked to come back later, the longer the first request has been running, and before the lease ends', async () => {
    const { send, runtime } = open({ lease: 60_000 })
    const gate = deferred<StoredAnswer>()
    const first = send({}, () => gate.promise)
    await settlePromises()
    const waits: unknown[] = []
    for (const pause of [0, 1500, 2000, 46_500, 8500, 1400]) {
      await runtime.advance(pause)
      waits.push(problemOf(await send()).retryAfter)
    }
    gate.resolve(created)
    await first

    // After 0, 1.5, 3.5, 50, 58.5 and 59.9 seconds.
    expect(waits).toEqual(['1', '2', '4', '5', '2', '1'])
  })

  it('with another method, URL or body is refused with 422, also while the first request is running', async () => {
    const { send, calls } = open()
    const gate = deferred<StoredAnswer>()
    const first = send({}, () => gate.promise)
    await settlePromises()
    const others = [{ body: { product: 'chair' } }, { url: '/orders?draft=1' }, { method: 'PATCH' }]
    const check = async () => {
      for (const other of others) expect(problemOf(await send(other))).toMatchObject({ status: 422, type: 'idempotency-key-reused' })
    }
    await check()
    gate.resolve(created)
    await first
    await check()

    expect(calls()).toBe(1)
  })

  it('of another scope is another key', async () => {
    const { send, calls } = open()
    await send({ user: 'ann' }, async () => ({ ...created, body: encode('for Ann') }))
    const other = await send({ user: 'bob' }, async () => ({ ...created, body: encode('for Bob') }))

    expect([decode(other as StoredAnswer), calls()]).toEqual(['for Bob', 2])
  })

  it('is carried out again when the retention has ended', async () => {
    const { send, runtime, calls } = open({ retention: 1000 })
    await send()
    await runtime.advance(999)
    await send()
    expect(calls()).toBe(1)
    await runtime.advance(1)
    await send()

    expect(calls()).toBe(2)
  })
})

describe('the header', () => {
  it.each([
    ['bare', 'k-1', '"k-1"'],
    ['with escapes', '"a\\"b\\\\c"', '"a\\"b\\\\c"'],
    ['with spaces around it', '  k-1\t', 'k-1'],
    ['as a list of one value', ['k-1'], 'k-1'],
    ['of 255 characters', 'k'.repeat(255), `"${'k'.repeat(255)}"`],
  ])('may be %s', async (_, key, same) => {
    const { send, calls } = open()
    await send({ key })

    expect(headerOf((await send({ key: same })) as StoredAnswer, 'idempotency-replayed')).toBe('true')
    expect(calls()).toBe(1)
  })

  it.each(['', ' ', '""', '"a', 'a b', '"a b"', 'ä', 'a\u0000b', 'k'.repeat(256), `"${'k'.repeat(256)}"`, '"a";b=1', '"\\x"'])(
    'is malformed as %j',
    async (key) => {
      const { send, calls } = open()

      expect(problemOf(await send({ key }))).toMatchObject({ status: 400, type: 'idempotency-key-malformed' })
      expect(calls()).toBe(0)
    },
  )

  it('twice is malformed', async () => {
    expect(problemOf(await open().send({ key: ['a', 'b'] }))).toMatchObject({ status: 400, type: 'idempotency-key-malformed' })
  })

  it('is required, unless the option says otherwise', async () => {
    expect(problemOf(await open().send({ key: null }))).toMatchObject({ status: 400, type: 'idempotency-key-missing' })
    expect(await open({ required: false }).send({ key: null })).toBeUndefined()
  })

  it('may have another name', async () => {
    const { engine } = open({ header: 'X-Request-Key' })
    const view = (value: string): RequestView => ({ ...viewOf({}), header: (name) => (name === 'x-request-key' ? value : null) })

    expect(await engine.handle({}, view('k'), async () => created)).toEqual(created)
    expect(problemOf(await engine.handle({}, view(''), async () => created))).toMatchObject({ status: 400 })
  })

  it('matters for POST and PATCH, or the methods of the option', async () => {
    const byDefault = open()
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS']) expect(await byDefault.send({ method })).toBeUndefined()
    for (const method of ['POST', 'PATCH', 'post']) expect(await byDefault.send({ method, key: method })).toEqual(created)
    const chosen = open({ methods: ['put'] })

    expect([await chosen.send({ method: 'POST' }), await chosen.send({ method: 'PUT' })]).toEqual([undefined, created])
    expect([byDefault.calls(), chosen.calls()]).toEqual([3, 1])
  })
})

describe('work that fails', () => {
  it('is rolled back, its error is thrown, and the next request carries it out', async () => {
    const { send, outbox, calls } = open()
    const failure = new Error('out of order')
    const failing = send({}, async (transaction) => {
      await outbox.append(transaction, orderPlaced({ product: 'lamp' }))
      throw failure
    })

    await expect(failing).rejects.toBe(failure)
    expect(await eventsIn(outbox)).toBe(0)
    expect(await send()).toEqual(created)
    expect(calls()).toBe(2)
  })

  it.each([500, 503, 599, 408, 425, 429])('with the answer %i is rolled back, and the answer is sent', async (status) => {
    const { send, outbox, calls } = open()
    const answer = { ...created, status }
    const sent = await send({}, async (transaction) => {
      await outbox.append(transaction, orderPlaced({ product: 'lamp' }))
      return answer
    })

    expect(sent).toEqual(answer)
    expect(await eventsIn(outbox)).toBe(0)
    expect(await send()).toEqual(created)
    expect(calls()).toBe(2)
  })

  it.each([200, 204, 303, 400, 404, 409, 422])('is not what the answer %i means', async (status) => {
    const { send, calls } = open()
    await send({}, async () => ({ ...created, status }))

    expect(await send()).toMatchObject({ status })
    expect(calls()).toBe(1)
  })

  it('is what the option isStored says', async () => {
    const { send, calls } = open({ isStored: ({ status }) => status !== 201 })
    await send()
    await send({}, async () => ({ ...created, status: 503 }))

    expect(await send()).toMatchObject({ status: 503 })
    expect(calls()).toBe(2)
  })

  it('keeps its key until the lease ends if the key cannot be released, which is logged', async () => {
    const { send, runtime, logger } = open({ lease: 1000 }, (store) => ({
      claim: (key, options) => store.claim(key, options),
      write: (key, token, work, options) => store.write(key, token, work, options),
      release: () => Promise.reject(new Error('no connection')),
    }))

    await expect(send({}, () => Promise.reject(new Error('out of order')))).rejects.toThrow('out of order')
    expect(logger.lines).toMatchObject([{ level: 'warn', text: expect.stringContaining('could not be released') }])
    expect(problemOf(await send())).toMatchObject({ status: 409 })
    await runtime.advance(1000)
    expect(await send()).toEqual(created)
  })

  it('rejects and gives the key back if the outcome of the commit is unknown', async () => {
    const released: string[] = []
    const { send } = open({}, (store) => ({
      claim: (key, options) => store.claim(key, options),
      async write(key, token, work, options) {
        await store.write(key, token, work, options)
        throw new AckordError('ACKORD_COMMIT_UNKNOWN', 'The connection was lost.')
      },
      async release(key, token) {
        released.push(key.key)
        await store.release(key, token)
      },
    }))

    await expect(send()).rejects.toMatchObject({ code: 'ACKORD_COMMIT_UNKNOWN' })
    expect(released).toEqual(['k-1'])
    // It had been committed.
    expect(headerOf((await send()) as StoredAnswer, 'idempotency-replayed')).toBe('true')
  })
})

describe('the lease', () => {
  it('ends a request that takes longer: it is rolled back, its signal is aborted, and the key is free', async () => {
    const { send, runtime, outbox, calls } = open({ lease: 5000 })
    let signal: AbortSignal | undefined
    const late = send({}, async (transaction) => {
      await outbox.append(transaction, orderPlaced({ product: 'lamp' }))
      signal = currentContext()?.signal
      return await new Promise(() => {})
    })
    late.catch(() => {})
    await settlePromises()
    await runtime.advance(4999)
    expect(signal?.aborted).toBe(false)
    await runtime.advance(1)

    await expect(late).rejects.toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT', message: expect.stringContaining('`lease`') })
    expect(signal?.aborted).toBe(true)
    expect(await eventsIn(outbox)).toBe(0)
    expect(await send()).toEqual(created)
    expect(calls()).toBe(2)
  })

  it('lets another request take over; the first one is rolled back and answered with 409', async () => {
    // The process was suspended: its own time did not pass, that of the store did.
    const { send, runtime, logger } = open({ lease: 5000, runtime: new VirtualRuntime() })
    const gate = deferred<StoredAnswer>()
    const first = send({}, () => gate.promise)
    await settlePromises()
    await runtime.advance(5000)
    expect(decode((await send({}, async () => ({ ...created, body: encode('second') }))) as StoredAnswer)).toBe('second')
    gate.resolve(created)

    expect(problemOf(await first)).toEqual({ status: 409, type: 'request-in-progress', retryAfter: '1' })
    expect(logger.lines).toMatchObject([{ level: 'warn', text: expect.stringContaining('`lease`') }])
    expect(decode((await send()) as StoredAnswer)).toBe('second')
  })
})

describe('an answer', () => {
  it('is stored without cookies, which the first client gets', async () => {
    const { send } = open()
    const headers: StoredAnswer['headers'] = [
      ['set-cookie', 'session=1'],
      ['location', '/orders/1'],
      ['set-cookie', 'theme=dark'],
    ]

    expect(await send({}, async () => ({ ...created, headers }))).toMatchObject({ headers })
    expect(await send()).toMatchObject({
      headers: [
        ['location', '/orders/1'],
        ['idempotency-replayed', 'true'],
      ],
    })
  })

  it('may have as many bytes as maxAnswerSize; a larger one is an error, and everything is rolled back', async () => {
    const { send, calls } = open({ maxAnswerSize: 10 })
    const ofSize = (size: number) => async () => ({ ...created, body: new Uint8Array(size) })

    await expect(send({}, ofSize(11))).rejects.toMatchObject({
      code: 'ACKORD_INVALID_OUTPUT',
      message: expect.stringContaining('`maxAnswerSize`'),
    })
    expect(await send({}, ofSize(10))).toMatchObject({ status: 201 })
    expect(calls()).toBe(2)
  })
})

describe('the scope', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['an empty string', ''],
    ['an empty array', []],
    ['a part that is missing', ['POST', undefined]],
    ['an empty part', ['', 'POST']],
    ['a number', 7],
  ])('must not be %s', async (_, scope) => {
    const { send, calls } = open({ scope: () => scope as string })

    await expect(send()).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('scope') })
    expect(calls()).toBe(0)
  })

  it('may reject, and then nothing is carried out', async () => {
    const { send, calls } = open({ scope: () => Promise.reject(new Error('no session')) })

    await expect(send()).rejects.toThrow('no session')
    expect(calls()).toBe(0)
  })

  it('separates its parts', async () => {
    const scopes = [['a', 'b:c'], ['a:b', 'c'], ['a', 'b', 'c'], 'a:b:c', ['a,b'], ['a', 'b']]
    let next = 0
    const { send, calls } = open({ scope: () => scopes[next] as string[] })
    for (next = 0; next < scopes.length; next += 1) expect(await send()).toEqual(created)

    expect(calls()).toBe(scopes.length)
  })

  it('may be longer than what stores accept', async () => {
    let end = 'a'
    const { send, calls } = open({ scope: () => `${'x'.repeat(1000)}${end}` })
    await send()
    await send()
    expect(calls()).toBe(1)
    end = 'b'
    await send()

    expect(calls()).toBe(2)
  })
})

describe('the fingerprint', () => {
  it('is the same for the same bytes, the same text and the same parsed value, whatever the host', async () => {
    const { send, calls } = open()
    const bodies = [[encode('{"a":1}'), Buffer.from('{"a":1}'), '{"a":1}', { a: 1 }, encode('{"a":1}').buffer]]
    for (const body of bodies.flat())
      for (const url of ['/orders', 'https://one.test/orders', 'http://two.test:81/orders']) await send({ body, url })

    expect(calls()).toBe(1)
  })

  it('is that of an empty body if there is none', async () => {
    const { send, calls } = open()
    for (const body of [null, '', new Uint8Array()]) await send({ body })

    expect(calls()).toBe(1)
  })

  it.each([
    ['a form', new FormData()],
    ['a map inside of it', { items: new Map([['a', 1]]) }],
    ['an object of a class', new (class Order {})()],
  ])('cannot be made of %s', async (_, body) => {
    const { send, calls } = open()

    await expect(send({ body })).rejects.toMatchObject({ code: 'ACKORD_WRONG_DATA', message: expect.stringContaining('`fingerprint`') })
    expect(calls()).toBe(0)
  })

  it('may come from an option, which then decides alone', async () => {
    const { send, calls } = open({ fingerprint: ({ url = '' }) => url })
    await send({ body: new FormData() })
    expect(await send({ body: 'another' })).toMatchObject({ status: 201 })
    expect(problemOf(await send({ url: '/other' }))).toMatchObject({ status: 422 })

    expect(calls()).toBe(1)
  })

  it('reads a stream up to maxBodySize; a larger body is refused with 413', async () => {
    const { send, calls } = open({ maxBodySize: 10 })
    const body = (size: number) => new Response(new Uint8Array(size)).body

    expect(problemOf(await send({ body: body(11) }))).toMatchObject({ status: 413, type: 'body-too-large' })
    expect(await send({ body: body(10) })).toEqual(created)
    expect(headerOf((await send({ body: new Uint8Array(10) })) as StoredAnswer, 'idempotency-replayed')).toBe('true')
    expect(calls()).toBe(1)
  })
})

it('passes on what the store rejects a claim with', async () => {
  const { send, calls } = open({}, (store) => ({ ...store, claim: () => Promise.reject(new Error('no connection')) }))

  await expect(send()).rejects.toThrow('no connection')
  expect(calls()).toBe(0)
})

it('runs the work in the context of the transaction', async () => {
  const { send } = open()
  let isAmbient = false
  await send({}, async (_transaction, context) => {
    isAmbient = currentContext() === context
    return created
  })

  expect(isAmbient).toBe(true)
})

it.each([
  ['scope', { scope: undefined }],
  ['header', { header: '' }],
  ['methods', { methods: 'POST' }],
  ['methods', { methods: [''] }],
  ['lease', { lease: 0 }],
  ['retention', { retention: -1 }],
  ['maxAnswerSize', { maxAnswerSize: 0 }],
  ['maxBodySize', { maxBodySize: 1.5 }],
  ['fingerprint', { fingerprint: 'sha' }],
  ['isStored', { isStored: true }],
  ['new IdempotencyEngine', { ttl: 5 }],
])('refuses a wrong option %s', (name, options) => {
  expect(() => open(options as never)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})
