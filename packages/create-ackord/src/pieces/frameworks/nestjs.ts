import { importStatements } from '../imports.ts'
import type { BrokerPiece, BrokerRoute, RunningFrameworkPiece, StorePiece } from '../piece.ts'
import { httpSettings } from './http-settings.ts'
import { nestjsHandlers, nestjsHandlersTest } from './nestjs-handlers.ts'
import { routesTest } from './routes-test.ts'

/** Nest runs the service: `AckordModule` in place of `createService()`, and decorated methods in place of handlers. */
export function nestjs(route: BrokerRoute | undefined): RunningFrameworkPiece {
  return {
    title: 'NestJS',
    dependencies: [
      '@ackord/nestjs',
      '@ackord/outbox',
      '@nestjs/common',
      '@nestjs/core',
      '@nestjs/platform-express',
      'reflect-metadata',
      'rxjs',
      ...(route === undefined ? [] : (['@ackord/http'] as const)),
    ],
    devDependencies: ['@nestjs/testing'],
    files: {
      'src/http/orders.controller.ts': controller,
      'src/application/order-handlers.ts': nestjsHandlers,
      'src/application/tokens.ts': tokens,
      'test/orders.controller.test.ts': controllerTest,
    },
    settings: httpSettings,
    hasRoutes: true,
    usesDecorators: true,
    addHandler: 'and write a method for it in `src/application/order-handlers.ts`',
    program: (store, broker) => ({
      'src/open-adapters.ts': openAdapters(store, broker),
      'src/app.module.ts': appModule(store),
      'src/main.ts': main(route),
      'test/handlers.test.ts': nestjsHandlersTest,
    }),
  }
}

const tokens = `import type { Order } from '../domain/order.ts'

/** Stores an order and its event. Resolves to \`false\` if the order was placed before. */
export type PlaceOrder = (order: Order) => Promise<boolean>

/** Injection tokens: interfaces and functions have no class that could serve as the token. */
export const ordersToken = Symbol('orders')
export const placeOrderToken = Symbol('placeOrder')
`

const controller = `import type { ServerResponse } from 'node:http'
import { type AckordInstance, InjectAckord } from '@ackord/nestjs'
import { BadRequestException, Body, Controller, Get, HttpStatus, Inject, Post, Res } from '@nestjs/common'
import { orderSchema } from '../application/messages.ts'
import { type PlaceOrder, placeOrderToken } from '../application/tokens.ts'

@Controller()
export class OrdersController {
  readonly #placeOrder: PlaceOrder
  readonly #ackord: Pick<AckordInstance, 'health'>

  constructor(@Inject(placeOrderToken) placeOrder: PlaceOrder, @InjectAckord() ackord: AckordInstance) {
    this.#placeOrder = placeOrder
    this.#ackord = ackord
  }

  /** 201, or 200 if the order was placed before. A client that received no answer may send it again. */
  @Post('orders')
  async place(@Body() body: unknown, @Res({ passthrough: true }) response: ServerResponse) {
    const { data: order, error } = orderSchema.safeParse(body)
    if (order === undefined) throw new BadRequestException(error.issues)
    const isNew = await this.#placeOrder(order)
    response.statusCode = isNew ? HttpStatus.CREATED : HttpStatus.OK
    return { id: order.id }
  }

  @Get('health')
  health(@Res({ passthrough: true }) response: ServerResponse) {
    const { healthy } = this.#ackord.health()
    if (!healthy) response.statusCode = HttpStatus.SERVICE_UNAVAILABLE
    return { healthy }
  }
}
`

const controllerTest = routesTest({
  imports: {
    '@ackord/nestjs': ['getInstanceToken'],
    '@nestjs/testing': ['Test'],
    '../src/application/tokens.ts': ['placeOrderToken'],
    '../src/http/orders.controller.ts': ['OrdersController'],
  },
  open: `const module = await Test.createTestingModule({
    controllers: [OrdersController],
    providers: [
      { provide: placeOrderToken, useValue: placeOrder },
      { provide: getInstanceToken(), useValue: { health: () => ({ healthy: true }) } },
    ],
  }).compile()
  const app = module.createNestApplication({ logger: false })
  await app.listen(0, '127.0.0.1')`,
  post: `const url = await app.getUrl()
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(\`\${url}/orders\`, { method: 'POST', headers, body: JSON.stringify(body) })
    return response.status`,
  close: 'await app.close()',
})

/** `src/open-adapters.ts`: the store and the broker, and the options of `AckordModule`, which closes them. */
function openAdapters(store: StorePiece, broker: BrokerPiece): string {
  const storeImports = Object.fromEntries(Object.entries(store.imports).filter(([from]) => !from.endsWith('/service')))
  const closing = [broker.close, store.close].filter((statement) => statement !== '')
  const head = closing.some((statement) => statement.startsWith('await ')) ? 'async onClose() {' : 'onClose() {'
  const onClose = [head, ...closing.map((statement) => `  ${statement}`), '},']
  const options = [...broker.options, ...store.options, ...onClose]
  const messages = broker.route === undefined ? '' : `\n    /** Handles requests with messages. */\n    messages: ${broker.route.handler},`
  return `${importStatements(storeImports, broker.imports, { './application/messages.ts': ['eventSource'] })}

export const adaptersToken = Symbol('adapters')

export type Adapters = Awaited<ReturnType<typeof openAdapters>>

/** Opens the store and the broker. */
export async function openAdapters() {
${indented([store.open, broker.open].join('\n'), 2)}
  return {
    ${store.handle},
    orders: ${store.orders},${messages}
    /** The options of \`AckordModule\`. */
    ackord: {
      ${store.handle},
      consumer: 'orders', // the inbox remembers under this name which messages were handled
      source: ${broker.source},
      publisher: ${broker.publisher},
      destination: ${broker.destination},
      eventSource,
      concurrency: 8,
${indented(options.join('\n'), 6)}
    },
  }
}
`
}

function appModule({ handle }: StorePiece): string {
  return `import { AckordModule, getOutboxToken } from '@ackord/nestjs'
import type { OutboxWriter } from '@ackord/outbox'
import { Global, Module } from '@nestjs/common'
import { orderPlaced } from './application/messages.ts'
import { OrderHandlers } from './application/order-handlers.ts'
import { ordersToken, type PlaceOrder, placeOrderToken } from './application/tokens.ts'
import { OrdersController } from './http/orders.controller.ts'
import { type Adapters, adaptersToken, openAdapters } from './open-adapters.ts'

@Global()
@Module({
  providers: [
    { provide: adaptersToken, useFactory: openAdapters },
    { provide: ordersToken, inject: [adaptersToken], useFactory: ({ orders }: Adapters) => orders },
  ],
  exports: [adaptersToken, ordersToken],
})
class AdaptersModule {}

/** Without a message: the order and its event are stored in one transaction, so that neither exists without the other. */
function orderPlacer({ ${handle}, orders }: Adapters, outbox: OutboxWriter<unknown>): PlaceOrder {
  return (order) =>
    ${handle}.write(async (transaction) => {
      const isNew = await orders.add(order)
      if (isNew) await outbox.append(transaction, orderPlaced({ orderId: order.id, total: order.total }))
      return isNew
    })
}

@Module({
  imports: [
    AdaptersModule,
    AckordModule.forRootAsync({ inject: [adaptersToken], useFactory: ({ ackord }: Adapters) => ackord }),
  ],
  controllers: [OrdersController],
  providers: [
    OrderHandlers,
    { provide: placeOrderToken, inject: [adaptersToken, getOutboxToken()], useFactory: orderPlacer },
  ],
})
export class AppModule {}
`
}

function main(route: BrokerRoute | undefined): string {
  const imports = importStatements(
    {
      '@nestjs/core': ['NestFactory'],
      '@nestjs/platform-express': ['type NestExpressApplication'],
      './app.module.ts': ['AppModule'],
      './settings.ts': ['host', 'port'],
    },
    route === undefined ? {} : { '@ackord/http': ['toNodeHandler'], './open-adapters.ts': ['type Adapters', 'adaptersToken'] },
  )
  const mount = route === undefined ? '' : `\napp.use('${route.path}', toNodeHandler(app.get<Adapters>(adaptersToken).messages))`
  return `import 'reflect-metadata'
${imports}

const app = await NestFactory.create<NestExpressApplication>(AppModule)${mount}
// The application finishes what it is doing, closes everything, and ends with 0.
app.enableShutdownHooks(['SIGINT', 'SIGTERM'], { useProcessExit: true })
await app.listen(port, host)
console.log(\`Listening on \${await app.getUrl()}\`)
`
}

function indented(text: string, spaces: number): string {
  return text.replaceAll(/^(?=.)/gm, ' '.repeat(spaces))
}
