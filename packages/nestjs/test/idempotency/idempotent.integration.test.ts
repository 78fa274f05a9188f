import { defineEvent, silentLogger } from '@ackord/core'
import type { Database, SqlOutbox } from '@ackord/sql'
import {
  Body,
  type CallHandler,
  ConflictException,
  Controller,
  type ExecutionContext,
  Get,
  HttpCode,
  Post,
  Res,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { Test } from '@nestjs/testing'
import { map } from 'rxjs'
import { describe, expect, it } from 'vitest'
import { AckordModule, Idempotent, InjectDatabase, InjectOutbox } from '../../src/index.ts'
import { type OrmWorld, openTypeorm } from '../support/orm-worlds.ts'

const orderPlaced = defineEvent<{ id: string }>('order.placed')
const scope = (request: { headers: Record<string, unknown> }) => [String(request.headers['x-user'] ?? 'ann'), 'POST /orders']

/** A response of either platform. */
interface PassthroughResponse {
  status(code: number): unknown
  header(name: string, value: string): unknown
  send(body: unknown): unknown
}

/** As many applications have it, outside of the idempotency. */
const wrapping = { intercept: (_context: ExecutionContext, next: CallHandler) => next.handle().pipe(map((data) => ({ data }))) }

async function openApplication(createAdapter: () => ExpressAdapter | FastifyAdapter) {
  const world = (await openTypeorm()) as OrmWorld<unknown>
  let runs = 0

  @Controller()
  class Orders {
    @InjectDatabase() readonly database!: Database<unknown>
    @InjectOutbox() readonly outbox!: SqlOutbox<unknown>

    @Post('orders')
    @UseInterceptors(wrapping)
    @Idempotent({ scope })
    async place({ id, fails = false }: { id: string; fails?: boolean }, response: PassthroughResponse) {
      runs += 1
      await world.insert(this.database.executor(), id)
      await this.outbox.append(this.database.executor(), orderPlaced({ id }))
      if (fails) throw new ConflictException('No stock.')
      response.status(202)
      response.header('location', `/orders/${id}`)
      return { id, run: runs }
    }

    @Post('optional')
    @HttpCode(200)
    @Idempotent({ scope, required: false })
    optional() {
      runs += 1
      return `run ${runs}`
    }

    @Post('empty')
    @Idempotent({ scope })
    empty() {
      runs += 1
    }

    @Post('file')
    @Idempotent({ scope })
    async file() {
      await world.insert(this.database.executor(), 'file')
      return new StreamableFile(new Uint8Array(3))
    }

    @Get('orders')
    @Idempotent({ scope })
    list() {
      return []
    }
  }
  Body()(Orders.prototype, 'place', 0)
  Res({ passthrough: true })(Orders.prototype, 'place', 1)

  const root = AckordModule.forRoot({ database: world.database, destination: 'order-events', eventSource: '/orders', logger: silentLogger })
  const module = await Test.createTestingModule({ imports: [root], controllers: [Orders] }).compile()
  const app = module.createNestApplication(createAdapter(), { logger: false })
  await app.listen(0, '127.0.0.1')
  const url = await app.getUrl()

  return {
    world,
    async send(path: string, key: string | undefined, body: object = {}, headers: Record<string, string> = {}) {
      const own = key === undefined ? headers : { 'idempotency-key': key, ...headers }
      const response = await fetch(`${url}/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...own },
        body: JSON.stringify(body),
      })
      return { status: response.status, headers: response.headers, text: await response.text() }
    },
    list: async () => (await fetch(`${url}/orders`)).status,
    async [Symbol.asyncDispose]() {
      await app.close()
      await world[Symbol.asyncDispose]()
    },
  }
}

describe.each([
  { name: 'Express', createAdapter: () => new ExpressAdapter() },
  { name: 'Fastify', createAdapter: () => new FastifyAdapter() },
])('@Idempotent() on $name', ({ createAdapter }) => {
  it('carries out a request once, with its writes and events, and sends the same answer again', async () => {
    await using application = await openApplication(createAdapter)
    const { world, send } = application

    const first = await send('orders', 'k-1', { id: 'o-1' })
    const second = await send('orders', 'k-1', { id: 'o-1' })

    expect(first).toMatchObject({ status: 202, text: '{"data":{"id":"o-1","run":1}}' })
    expect(second).toMatchObject({ status: 202, text: first.text })
    for (const name of ['location', 'content-type']) expect(second.headers.get(name)).toBe(first.headers.get(name))
    expect([first, second].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true'])
    expect([await world.orders(), await world.outbox()]).toEqual([1, 1])
  })

  it('rolls back what an exception interrupts, and carries the request out when it is sent again', async () => {
    await using application = await openApplication(createAdapter)
    const { world, send } = application

    expect((await send('orders', 'k-1', { id: 'o-1', fails: true })).status).toBe(409)
    expect([await world.orders(), await world.outbox()]).toEqual([0, 0])
    expect((await send('orders', 'k-1', { id: 'o-1' })).status).toBe(202)
    expect([await world.orders(), await world.outbox()]).toEqual([1, 1])
  })

  it('separates scopes, refuses another request with the same key, and requires a key unless told otherwise', async () => {
    await using application = await openApplication(createAdapter)
    const { world, send } = application

    await send('orders', 'k-1', { id: 'o-1' })
    expect((await send('orders', 'k-1', { id: 'o-2' }, { 'x-user': 'bob' })).status).toBe(202)
    const reused = await send('orders', 'k-1', { id: 'o-3' })
    expect([reused.status, reused.headers.get('content-type')]).toEqual([422, expect.stringContaining('application/problem+json')])
    expect(JSON.parse(reused.text)).toMatchObject({ type: 'urn:ackord:problem:idempotency-key-reused', status: 422 })
    expect((await send('orders', undefined, { id: 'o-4' })).status).toBe(400)
    expect(await world.orders()).toBe(2)
    expect(await application.list()).toBe(200)

    const runs = [
      await send('optional', undefined),
      await send('optional', undefined),
      await send('optional', 'k-2'),
      await send('optional', 'k-2'),
    ]
    expect(runs.map(({ status, text }) => `${status} ${text}`)).toEqual(['200 run 3', '200 run 4', '200 run 5', '200 run 5'])
  })

  it('sends an empty answer again, and rolls back a method that returns a stream', async () => {
    await using application = await openApplication(createAdapter)
    const { world, send } = application

    const empty = [await send('empty', 'k-1'), await send('empty', 'k-1')]
    expect(empty.map(({ status, text }) => [status, text])).toEqual([
      [201, ''],
      [201, ''],
    ])
    expect((await send('file', 'k-2')).status).toBe(500)
    expect(await world.orders()).toBe(0)
  })
})
