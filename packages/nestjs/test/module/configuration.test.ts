import { defineEvent, MemoryBroker, silentLogger } from '@ackord/core'
import { createSchema, type Database } from '@ackord/sql'
import { fromPglite } from '@ackord/sql/postgres'
import { recordingLogger } from '@ackord/testkit'
import { PGlite } from '@electric-sql/pglite'
import { Controller, Injectable, Module, type ModuleMetadata } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  AckordHealthIndicator,
  type AckordInstance,
  AckordModule,
  getDatabaseToken,
  getInstanceToken,
  getOutboxToken,
  InjectOutbox,
  OnCommand,
  OnEvent,
} from '../../src/index.ts'

const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const broker = new MemoryBroker({ logger: silentLogger })
const logger = silentLogger
let pglite: PGlite
let database: Database<unknown>

beforeAll(async () => {
  pglite = await PGlite.create()
  database = fromPglite(pglite) as Database<unknown>
  await createSchema(database)
})
afterAll(() => pglite.close())

const oneConsumer = () => ({ database, logger, consumer: 'orders', source: broker.source('orders') })
const twoConsumers = () => ({
  database,
  logger,
  consumers: { orders: { source: broker.source('orders') }, billing: { source: broker.source('billing'), concurrency: 4 } },
})

/** Initialises an application and closes it. Resolves to the consumers and the types that each of them handles. */
async function start(metadata: ModuleMetadata, instance?: string): Promise<readonly string[]> {
  const module = await Test.createTestingModule(metadata).compile()
  module.useLogger(false)
  try {
    await module.init()
    return [...module.get<AckordInstance>(getInstanceToken(instance), { strict: false }).consumers.keys()]
  } finally {
    await module.close()
  }
}

@Injectable()
class Handlers {
  @OnEvent(orderPlaced)
  placed() {}
}

@Injectable()
class BillingHandlers {
  @OnEvent(orderPlaced, { consumer: 'billing' })
  placed() {}
}

@Injectable()
class OrderHandlers {
  @OnEvent(orderPlaced, { consumer: 'orders' })
  placed() {}
}

describe('AckordModule', () => {
  it('assigns handlers to consumers, also those that a class inherits', async () => {
    abstract class Base {
      @OnEvent(orderPlaced, { consumer: 'orders' })
      placed() {}

      @OnEvent('order.cancelled', { consumer: 'orders' })
      cancelled() {}
    }
    @Injectable()
    class Inherited extends Base {}
    const lines = recordingLogger()
    const imports = [AckordModule.forRoot({ ...twoConsumers(), logger: lines })]

    expect(await start({ imports, providers: [BillingHandlers, Inherited] })).toEqual(['orders', 'billing'])
    expect(lines.at('warn').map(({ fields }) => fields)).not.toContainEqual({ class: 'Base' })
  })

  it('assigns the handlers of a module to the instance and consumer of its forFeature()', async () => {
    @Module({ imports: [AckordModule.forFeature({ instance: 'shop', consumer: 'billing' })], providers: [Handlers] })
    class BillingModule {}
    const imports = [AckordModule.forRoot({ name: 'shop', ...twoConsumers() }), BillingModule]

    expect(await start({ imports, providers: [OrderHandlers] }, 'shop')).toEqual(['orders', 'billing'])
  })

  it('has several named instances, each with its handlers and its outbox', async () => {
    @Injectable()
    class ShopHandlers {
      @OnEvent(orderPlaced, { instance: 'shop' })
      placed() {}
    }
    const module = await Test.createTestingModule({
      imports: [
        AckordModule.forRoot(oneConsumer()),
        AckordModule.forRootAsync({ name: 'shop', useFactory: async () => ({ ...oneConsumer(), consumer: 'shop' }) }),
      ],
      providers: [Handlers, ShopHandlers],
    }).compile()
    module.useLogger(false)
    await module.init()

    expect([...module.get<AckordInstance>(getInstanceToken()).consumers.keys()]).toEqual(['orders'])
    expect([...module.get<AckordInstance>(getInstanceToken('shop')).consumers.keys()]).toEqual(['shop'])
    expect(module.get(getOutboxToken('shop'))).not.toBe(module.get(getOutboxToken()))
    expect(module.get(getDatabaseToken('shop'))).toBe(database)
    await module.close()
  })

  it('injects what useFactory needs from the modules that it imports', async () => {
    const token = Symbol('database')
    @Module({ providers: [{ provide: token, useFactory: () => database }], exports: [token] })
    class DatabaseModule {}
    const root = AckordModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [token],
      useFactory: (found: Database<unknown>) => ({ ...oneConsumer(), database: found }),
    })

    expect(await start({ imports: [root], providers: [Handlers] })).toEqual(['orders'])
  })

  it('shares its outbox with all modules, or with those that import it', async () => {
    @Injectable()
    class Service {
      @InjectOutbox() readonly outbox!: object
    }
    @Module({ providers: [Service] })
    class Plain {}
    @Module({ imports: [AckordModule.forFeature()], providers: [Service] })
    class Feature {}
    const local = AckordModule.forRoot({ ...oneConsumer(), isGlobal: false })

    const shared = await Test.createTestingModule({ imports: [AckordModule.forRoot(oneConsumer()), Plain] }).compile()
    const feature = await Test.createTestingModule({ imports: [local, Feature] }).compile()

    expect(shared.get(Service, { strict: false }).outbox).toBe(shared.get(getOutboxToken()))
    expect(feature.get(Service, { strict: false }).outbox).toBe(feature.get(getOutboxToken(), { strict: false }))
    await expect(
      Test.createTestingModule({ imports: [local, Plain] })
        .setLogger({ log() {}, warn() {}, error() {} })
        .compile(),
    ).rejects.toThrow(/ackord:outbox:default/)
    await Promise.all([shared.close(), feature.close()])
  })

  it('ignores handlers in a process that handles no messages', async () => {
    expect(await start({ imports: [AckordModule.forRoot({ database, logger, handleMessages: false })], providers: [Handlers] })).toEqual([])
  })

  it('reports its health for a health check', async () => {
    const module = await Test.createTestingModule({ imports: [AckordModule.forRoot(oneConsumer())], providers: [Handlers] }).compile()
    module.useLogger(false)
    const health = module.get(AckordHealthIndicator)

    expect(health.isHealthy()).toMatchObject({ ackord: { status: 'down', state: 'idle' } })
    await module.init()
    expect(health.isHealthy('messages')).toMatchObject({ messages: { status: 'up', state: 'running', failedConsumers: [] } })
    await module.close()
    expect(health.isHealthy()).toMatchObject({ ackord: { status: 'down', state: 'closed' } })
  })

  it('warns about handlers that no module provides', async () => {
    @Injectable()
    class Forgotten {
      @OnEvent(orderPlaced)
      placed() {}

      @OnEvent('order.cancelled')
      cancelled() {}
    }
    const lines = recordingLogger()

    await start({ imports: [AckordModule.forRoot({ ...oneConsumer(), logger: lines })], providers: [Handlers] })

    const warned = lines.at('warn').map(({ fields }) => ('class' in fields ? fields.class : undefined))
    expect(warned.filter((name) => name === Forgotten.name)).toHaveLength(1)
    expect(warned).not.toContain(Handlers.name)
  })
})

describe('a wrong configuration fails at the start, and the error names class and method:', () => {
  const wrong: readonly (readonly [string, () => ModuleMetadata, RegExp])[] = [
    [
      'a consumer that does not exist',
      () => ({ imports: [AckordModule.forRoot(oneConsumer())], providers: [BillingHandlers] }),
      /BillingHandlers\.placed belongs to the consumer 'billing', and there is none of this name. There is 'orders'/,
    ],
    [
      'no consumer, where there are several',
      () => ({ imports: [AckordModule.forRoot(twoConsumers())], providers: [Handlers] }),
      /Handlers\.placed must name its consumer, one of 'orders', 'billing'/,
    ],
    [
      'a handler without any consumer',
      () => ({ imports: [AckordModule.forRoot({ database, logger })], providers: [Handlers] }),
      /Handlers\.placed has no consumer/,
    ],
    [
      'an instance that does not exist',
      () => ({
        imports: [AckordModule.forRoot(oneConsumer())],
        providers: [
          class Elsewhere {
            declare readonly handles: true
            static {
              const descriptor = { value() {}, configurable: true, writable: true }
              OnEvent(orderPlaced, { instance: 'shop' })(Elsewhere.prototype, 'placed', descriptor)
              Object.defineProperty(Elsewhere.prototype, 'placed', descriptor)
            }
          },
        ],
      }),
      /Elsewhere\.placed belongs to the instance 'shop', and there is none of this name. There is 'default'/,
    ],
    [
      'no instance, where there are several with names',
      () => ({
        imports: [AckordModule.forRoot({ name: 'one', ...oneConsumer() }), AckordModule.forRoot({ name: 'two', ...oneConsumer() })],
        providers: [Handlers],
      }),
      /Handlers\.placed must name its instance, one of 'one', 'two'/,
    ],
    [
      'two handlers for a type',
      () => ({ imports: [AckordModule.forRoot(oneConsumer())], providers: [Handlers, OrderHandlers] }),
      /OrderHandlers\.placed handles 'order.placed', which Handlers\.placed handles already/,
    ],
    [
      'a consumer without handlers',
      () => ({ imports: [AckordModule.forRoot(twoConsumers())], providers: [OrderHandlers] }),
      /The consumer 'billing' of the instance 'default' has no handlers/,
    ],
    [
      'two instances of one name',
      () => ({
        imports: [AckordModule.forRoot(oneConsumer()), AckordModule.forRoot({ ...oneConsumer(), concurrency: 2 })],
        providers: [Handlers],
      }),
      /configured twice for the instance 'default'/,
    ],
    [
      'a misspelt option',
      () => ({ imports: [AckordModule.forRoot({ ...oneConsumer(), concurency: 2 } as never)] }),
      /no option 'concurency'/,
    ],
    ['neither database nor Redis', () => ({ imports: [AckordModule.forRoot({ logger } as never)] }), /needs a `database`/],
    [
      'a source without a consumer',
      () => ({ imports: [AckordModule.forRoot({ database, source: broker.source('a') })] }),
      /consumer is required/,
    ],
    [
      'a consumer without a source',
      () => ({ imports: [AckordModule.forRoot({ database, consumers: { orders: {} as never } })] }),
      /source is required: it is where the messages of the consumer 'orders' come from/,
    ],
  ]

  it.each(wrong)('%s', async (_title, metadata, expected) => {
    await expect(start(metadata())).rejects.toThrow(expected)
  })

  it('a handler whose guards Nest would not run: on a controller, or under another token', async () => {
    @Controller()
    class OrderController {
      @OnEvent(orderPlaced)
      placed() {}
    }
    const imports = [AckordModule.forRoot(oneConsumer())]

    await expect(start({ imports, controllers: [OrderController] })).rejects.toThrow(/OrderController\.placed is a method of a controller/)
    await expect(start({ imports, providers: [{ provide: 'handlers', useClass: Handlers }] })).rejects.toThrow(
      /Handlers\.placed belongs to a class that is provided under another token/,
    )
    const created = { provide: Handlers, useFactory: () => new Handlers() }
    expect(await start({ imports, providers: [created, { provide: 'alias', useExisting: Handlers }] })).toEqual(['orders'])
  })

  it('a command without a source for its events', async () => {
    @Injectable()
    class Commands {
      @OnCommand(orderPlaced)
      place() {}
    }
    const imports = [AckordModule.forRoot(oneConsumer())]
    const withSource = [AckordModule.forRoot({ ...oneConsumer(), eventSource: '/orders' })]

    await expect(start({ imports, providers: [Commands] })).rejects.toThrow(/Commands\.place needs a source for its events/)
    expect(await start({ imports: withSource, providers: [Commands] })).toEqual(['orders'])
  })

  it('a static method, or no method', () => {
    expect(() => {
      class Static {
        @OnEvent(orderPlaced)
        static placed() {}
      }
      return Static
    }).toThrow(/decorates the static method Static\.placed/)
    const decorate = OnEvent(orderPlaced) as (target: object, property: string) => void
    expect(() => decorate(class Field {}.prototype, 'placed')).toThrow(/decorates Field\.placed, which is not a method/)
  })

  it('tables that do not exist, unless the check is turned off', async () => {
    const empty = { ...oneConsumer(), outbox: { names: { meta: 'no_such_meta' } } }

    await expect(start({ imports: [AckordModule.forRoot(empty)], providers: [Handlers] })).rejects.toThrow(/Run createSchema\(database\)/)
    expect(await start({ imports: [AckordModule.forRoot({ ...empty, checkSchema: false })], providers: [Handlers] })).toEqual(['orders'])
  })
})
