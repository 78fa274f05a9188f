import { MemoryIdempotencyStore, MemoryOutboxStore, MemoryTransaction } from '@ackord/outbox'
import { recordingLogger } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type FetchWork, fetchIdempotency, type IdempotencyOptions } from '../../src/idempotency/index.ts'

function open(options: Partial<IdempotencyOptions<Request>> = {}) {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  return fetchIdempotency(store, { scope: () => 'all', logger: recordingLogger(), ...options })
}

function post(body: string | undefined = '{"product":"lamp"}', key = 'k'): Request {
  return new Request('http://test/orders', { method: 'POST', headers: { 'idempotency-key': key }, ...(body === undefined ? {} : { body }) })
}

it('leaves the body to the handler', async () => {
  const idempotent = open()
  const request = post()
  const response = await idempotent(request, async () => Response.json(await request.json()))

  expect(await response.text()).toBe('{"product":"lamp"}')
})

it('passes the transaction to the work, and none if the request needs no key', async () => {
  const idempotent = open()
  const seen: unknown[] = []
  const work: FetchWork<MemoryTransaction> = (transaction) => {
    seen.push(transaction instanceof MemoryTransaction ? 'transaction' : transaction)
    return new Response('done')
  }
  await idempotent(post(), work)
  await idempotent(new Request('http://test/orders'), work)

  expect(seen).toEqual(['transaction', undefined])
})

it.each([
  ['without a body', () => new Response(null, { status: 204 })],
  [
    'with several cookies',
    () =>
      new Response('a', {
        headers: [
          ['set-cookie', 'a=1'],
          ['set-cookie', 'b=2'],
        ],
      }),
  ],
  ['with a stream', () => new Response(new Blob(['a', 'b']).stream(), { headers: { 'content-type': 'text/x' } })],
])('sends an answer %s as it is', async (_, work) => {
  const expected = work()
  const response = await open()(post(), work)

  expect([response.status, await response.text(), [...response.headers]]).toEqual([
    expected.status,
    await expected.text(),
    [...expected.headers],
  ])
})

it('accepts a request without a body', async () => {
  const idempotent = open()
  await idempotent(post(undefined), () => new Response('first'))

  expect(await (await idempotent(post(undefined), () => new Response('second'))).text()).toBe('first')
})

it('rejects if the body was read before', async () => {
  const request = post()
  await request.text()

  await expect(open()(request, () => new Response('done'))).rejects.toThrow()
})

it('refuses a body that is larger than maxBodySize', async () => {
  let calls = 0
  const response = await open({ maxBodySize: 10 })(post('x'.repeat(11)), () => {
    calls += 1
    return new Response('done')
  })

  expect([response.status, calls]).toEqual([413, 0])
})

describe('an answer that never ends', () => {
  it.each([
    ['and sends too much', (controller: ReadableStreamDefaultController) => controller.enqueue(new Uint8Array(1000)), '`maxAnswerSize`'],
    ['and sends nothing', () => new Promise<void>(() => {}), '`lease`'],
  ])('%s is an error, and its stream is cancelled', async (_, pull, text) => {
    let isCancelled = false
    const idempotent = open({ maxAnswerSize: 5000, lease: 100 })
    const endless = () =>
      new Response(
        new ReadableStream({
          pull,
          cancel() {
            isCancelled = true
          },
        }),
      )

    await expect(idempotent(post(), endless)).rejects.toThrow(text)
    expect(isCancelled).toBe(true)
    expect(await (await idempotent(post(), () => new Response('done'))).text()).toBe('done')
  })
})
