import { defineEvent, jsonMarshaler, marshal, publishAll } from '@ackord/core'
import { allowEverybody, createDashboard } from '@ackord/dashboard'
import { rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import type { Database, SqlOutbox } from '@ackord/sql'
import { recordingLogger } from '@ackord/testkit'
import { Body, Catch, ConflictException, Controller, type ExceptionFilter, Get, Inject, Injectable, Post, UseFilters } from '@nestjs/common'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { HealthCheckService, TerminusModule } from '@nestjs/terminus'
import { Test } from '@nestjs/testing'
import { describe, expect, it } from 'vitest'
import { openWorld as openRabbitmq, until } from '../../../rabbitmq/test/support/world.ts'
import { AckordHealthIndicator, AckordModule, InjectDatabase, InjectOutbox, OnCommand, OnEvent } from '../../src/index.ts'
import { type OrmWorld, openDrizzle, openTypeorm } from '../support/orm-worlds.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')

const platforms = [
  {
    name: 'TypeORM and Express',
    open: openTypeorm as () => Promise<OrmWorld<unknown>>,
    createAdapter: () => new ExpressAdapter(),
    allPaths: '*path',
  },
  {
    name: 'Drizzle and Fastify',
    open: openDrizzle as () => Promise<OrmWorld<unknown>>,
    createAdapter: () => new FastifyAdapter(),
    allPaths: '*',
  },
]

@Catch()
class AnswerFilter implements ExceptionFilter {
  catch() {
    return { status: 'error' }
  }
}

/** An application with an HTTP endpoint and two consumers: `orders` handles commands, `billing` the events of orders. */
async function openApplication({ open, createAdapter, allPaths }: (typeof platforms)[number]) {
  const world = await open()
  const rabbitmq = await openRabbitmq()
  const { connection } = rabbitmq
  const [commands, events] = [await rabbitmq.queue(), await rabbitmq.queue()]
  const logger = recordingLogger()
  const billed: string[] = []
  const attempts: string[] = []

  @Injectable()
  class Orders {
    @InjectDatabase() readonly database!: Database<unknown>
    @InjectOutbox() readonly outbox!: SqlOutbox<unknown>

    async store(id: string) {
      await world.insert(this.database.executor(), id)
    }

    async place(id: string) {
      await this.database.write(async (transaction) => {
        await this.store(id)
        await this.outbox.append(transaction, orderPlaced({ id }))
        if (id === 'refused') throw new ConflictException()
      })
    }
  }

  @Injectable()
  class Handlers {
    @Inject(Orders) readonly orders!: Orders

    @UseFilters(AnswerFilter)
    @OnCommand(placeOrder, { consumer: 'orders' })
    async place({ id }: { id: string }) {
      attempts.push(id)
      await this.orders.store(id)
      if (attempts.filter((attempt) => attempt === id).length === 1) throw new Error('No stock yet.')
      return [orderPlaced({ id })]
    }

    @OnEvent(orderPlaced, { consumer: 'billing' })
    bill({ id }: { id: string }) {
      billed.push(id)
    }
  }

  @Controller()
  class OrderController {
    @Inject(Orders) readonly orders!: Orders
    @Inject(HealthCheckService) readonly health!: HealthCheckService
    @Inject(AckordHealthIndicator) readonly ackord!: AckordHealthIndicator

    @Post('orders')
    async place({ id }: { id: string }) {
      await this.orders.place(id)
    }

    @Get('health')
    check() {
      return this.health.check([() => this.ackord.isHealthy('ackord')])
    }

    @Get(allPaths)
    anything() {
      return 'a page of the application'
    }
  }
  Body()(OrderController.prototype, 'place', 0)

  const root = AckordModule.forRootAsync({
    useFactory: () => ({
      database: world.database,
      consumers: {
        orders: { source: rabbitmqSource(connection, { queue: commands }) },
        billing: { source: rabbitmqSource(connection, { queue: events }), concurrency: 4 },
      },
      publisher: rabbitmqPublisher(connection),
      destination: events,
      eventSource: '/orders',
      dashboard: (parts) => createDashboard({ ...parts, authorize: allowEverybody() }),
      logger,
    }),
  })
  const module = await Test.createTestingModule({
    imports: [root, TerminusModule],
    providers: [Orders, Handlers],
    controllers: [OrderController],
  }).compile()
  const app = module.createNestApplication(createAdapter(), { logger: false })
  await app.listen(0, '127.0.0.1')
  const url = await app.getUrl()

  return {
    world,
    app,
    logger,
    billed,
    attempts,
    get: (path: string) => fetch(`${url}/${path}`),
    post: (id: string) =>
      fetch(`${url}/orders`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ id }) }),
    send: (id: string, count: number) => {
      const message = marshal(placeOrder({ id }, { id: `m-${id}`, source: '/shop' }), jsonMarshaler)
      return publishAll(
        rabbitmq.publisher(),
        commands,
        Array.from({ length: count }, () => message),
      )
    },
    waiting: async () => (await rabbitmq.ready(commands)) + (await rabbitmq.ready(events)),
    async [Symbol.asyncDispose]() {
      await app.close()
      await rabbitmq[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
}

describe.each(platforms)('an application with $name', (platform) => {
  it('stores the events of requests and messages with their writes, and publishes them', async () => {
    await using application = await openApplication(platform)
    const { world, billed, attempts } = application

    expect((await application.post('o-1')).status).toBe(201)
    expect((await application.post('refused')).status).toBe(409)
    // The first delivery fails, and a filter answers its error. The others are duplicates.
    await application.send('o-2', 3)
    await until(async () => billed.length === 2 && (await world.outbox()) === 0 && (await application.waiting()) === 0)
    await application.app.close()

    expect(billed.toSorted()).toEqual(['o-1', 'o-2'])
    expect(attempts.length).toBe(2)
    expect(await world.orders()).toBe(2)
    expect(await world.inbox()).toBe(3)
  })

  it('has a health check and a dashboard, which a route for all paths does not hide', async () => {
    await using application = await openApplication(platform)

    expect(await (await application.get('health')).json()).toMatchObject({ status: 'ok', info: { ackord: { status: 'up', store: 'up' } } })
    const session = await application.get('ackord/api/session')
    expect([session.status, await session.json()]).toMatchObject([200, { name: 'everybody' }])
    expect(await (await application.get('other/path')).text()).toBe('a page of the application')
    // An open stream of the dashboard does not keep the application from closing.
    const stream = await application.get('ackord/api/events')
    expect(stream.headers.get('content-type')).toContain('text/event-stream')
    await application.app.close()
    await stream.text()
  })
})
