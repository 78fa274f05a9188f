import { AckordError } from '@ackord/core'
import { type IdempotencyStore, MemoryIdempotencyStore, MemoryOutboxStore, type MemoryTransaction } from '@ackord/outbox'
import { deferred, recordingLogger } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { idempotentServers, sendOrder, type TestWork } from '../support/idempotent-servers.ts'

async function open(name: string, work: TestWork, options: { readonly maxAnswerSize?: number; readonly lease?: number } = {}) {
  const store = new MemoryIdempotencyStore(new MemoryOutboxStore())
  let calls = 0
  const counted: TestWork = async (order) => {
    calls += 1
    return await work(order)
  }
  const server = await idempotentServers[name]?.(store, counted, { logger: recordingLogger(), ...options })
  if (server === undefined) throw new Error(`There is no server ${name}.`)
  return { url: server.url, calls: () => calls, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

const lamp = { product: 'lamp' }
const placed: TestWork = async (order) => ({ status: 201, content: { placed: order } })

describe.each(Object.keys(idempotentServers))('%s', (name) => {
  it('gives the same answer to the same key', async () => {
    await using world = await open(name, placed)
    const [first, second] = [await sendOrder(world.url, lamp), await sendOrder(world.url, lamp)]

    expect(first).toMatchObject({ status: 201, body: '{"placed":{"product":"lamp"}}', isReplayed: false })
    expect(second).toMatchObject({ status: 201, body: first.body, isReplayed: true })
    for (const header of ['content-type', 'content-length', 'x-handler', 'x-before']) {
      expect([header, second.headers.get(header)]).toEqual([header, first.headers.get(header)])
    }
    expect(first.headers.get('x-handler')).toBe('yes')
    expect(world.calls()).toBe(1)
  })

  it('answers 400, 409 and 422 with problem details', async () => {
    const [begun, gate] = [deferred(), deferred()]
    await using world = await open(name, async (order) => {
      begun.resolve()
      await gate.promise
      return await placed(order)
    })
    const first = sendOrder(world.url, lamp)
    await begun.promise
    const refused = [
      await sendOrder(world.url, lamp, { key: 'a b' }),
      await sendOrder(world.url, lamp),
      await sendOrder(world.url, { product: 'chair' }),
    ]
    gate.resolve()

    expect((await first).status).toBe(201)
    expect(refused.map(({ status, headers }) => [status, headers.get('content-type'), headers.get('retry-after')])).toEqual([
      [400, 'application/problem+json', null],
      [409, 'application/problem+json', '1'],
      [422, 'application/problem+json', null],
    ])
    expect(refused.map(({ body, status }) => JSON.parse(body).status === status)).toEqual([true, true, true])
    expect(world.calls()).toBe(1)
  })

  it('carries out a request again whose handler has thrown', async () => {
    let fails = true
    await using world = await open(name, async (order) => {
      if (fails) throw new Error('out of order')
      return await placed(order)
    })
    const failed = await sendOrder(world.url, lamp)
    fails = false

    expect(failed.status).toBe(500)
    expect(failed.body).not.toContain('placed')
    expect(await sendOrder(world.url, lamp)).toMatchObject({ status: 201, isReplayed: false })
    expect(world.calls()).toBe(2)
  })

  it('sends an answer of 500 or more, and carries the request out again', async () => {
    let status = 503
    await using world = await open(name, async (order) => ({ status, content: { order } }))
    expect(await sendOrder(world.url, lamp)).toMatchObject({ status: 503, body: '{"order":{"product":"lamp"}}' })
    status = 201

    expect(await sendOrder(world.url, lamp)).toMatchObject({ status: 201, isReplayed: false })
  })

  it('keeps the answers of users apart', async () => {
    let count = 0
    await using world = await open(name, async () => {
      count += 1
      return { status: 201, content: { count } }
    })
    const bodies: string[] = []
    for (const user of ['ann', 'bob', 'ann', 'bob']) bodies.push((await sendOrder(world.url, lamp, { user })).body)

    expect(bodies).toEqual(['{"count":1}', '{"count":2}', '{"count":1}', '{"count":2}'])
  })

  it('answers 500 to a request without a scope', async () => {
    await using world = await open(name, placed)

    expect((await sendOrder(world.url, lamp, { user: '' })).status).toBe(500)
    expect(world.calls()).toBe(0)
  })

  it('answers 500 instead of an answer that is too large', async () => {
    let size = 1001
    await using world = await open(name, async () => ({ status: 200, content: { text: 'x'.repeat(size) } }), { maxAnswerSize: 1000 })
    const failed = await sendOrder(world.url, lamp)
    size = 10

    expect([failed.status, failed.body.includes('xxx')]).toEqual([500, false])
    expect((await sendOrder(world.url, lamp)).status).toBe(200)
  })

  it('commits a request whose client has disconnected', async () => {
    const [begun, gate, ended] = [deferred(), deferred(), deferred()]
    await using world = await open(name, async (order) => {
      begun.resolve()
      await gate.promise
      queueMicrotask(() => ended.resolve())
      return await placed(order)
    })
    const client = new AbortController()
    const lost = sendOrder(world.url, lamp, { signal: client.signal })
    await begun.promise
    client.abort()
    await expect(lost).rejects.toThrow()
    gate.resolve()
    await ended.promise

    // Until the commit, it is still running.
    let answer = await sendOrder(world.url, lamp)
    while (answer.status === 409) answer = await sendOrder(world.url, lamp)
    expect(answer).toMatchObject({ status: 201, isReplayed: true })
    expect(world.calls()).toBe(1)
  })

  it('carries out one of twenty requests at the same time', async () => {
    await using world = await open(name, placed)
    const answers = await Promise.all(Array.from({ length: 20 }, () => sendOrder(world.url, lamp)))

    expect(answers.filter(({ status, isReplayed }) => status === 201 && !isReplayed)).toHaveLength(1)
    expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true)
    expect(await sendOrder(world.url, lamp)).toMatchObject({ status: 201, isReplayed: true })
    expect(world.calls()).toBe(1)
  })

  it('answers 500 if the outcome of the commit is unknown, whatever the handler has answered', async () => {
    const memory = new MemoryIdempotencyStore(new MemoryOutboxStore())
    const store: IdempotencyStore<MemoryTransaction> = {
      claim: (key, options) => memory.claim(key, options),
      async write(key, token, work, options) {
        await memory.write(key, token, work, options)
        throw new AckordError('ACKORD_COMMIT_UNKNOWN', 'The connection was lost.')
      },
      release: (key, token) => memory.release(key, token),
    }
    const work: TestWork = async () => ({ status: 404, content: { found: false } })
    await using server = await idempotentServers[name]?.(store, work, { logger: recordingLogger() })
    const failed = await sendOrder(server?.url ?? '', lamp)

    expect([failed.status, failed.headers.get('x-handler'), failed.body.includes('found')]).toEqual([500, null, false])
    // It had been committed.
    expect(await sendOrder(server?.url ?? '', lamp)).toMatchObject({ status: 404, body: '{"found":false}', isReplayed: true })
  })
})
