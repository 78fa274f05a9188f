import { type BatchFunction, batchHandler, type Handler, Message, type Middleware, Router, type RouterOptions } from '@ackord/core'
import { recordingLogger } from '@ackord/testkit'
import { type Database, type TransactionalOptions, transactional } from '../../src/index.ts'

export interface Order {
  readonly id: string
}

export interface BatchRouterOptions {
  readonly size?: number
  readonly wait?: number
  readonly batches?: number
  readonly router?: RouterOptions
  readonly transactional?: Partial<TransactionalOptions>
  /** Middleware inside of the transaction. */
  readonly use?: readonly Middleware[]
}

export interface TestRouter {
  readonly router: Router
  readonly logger: ReturnType<typeof recordingLogger>
}

/** A message as a broker delivers it. */
export interface Delivery {
  readonly id: string
  readonly data?: unknown
  readonly type?: string
  readonly deliveryCount?: number
  readonly attributes?: Readonly<Record<string, string>>
}

/** A router with a batch handler for `order.place`. */
export function batchRouter<Handle>(database: Database<Handle>, work: BatchFunction<Order>, options: BatchRouterOptions = {}): TestRouter {
  const { size = 50, wait = 5, batches, ...rest } = options
  return routerWith(database, batchHandler<Order>({ type: 'order.place', source: '/orders', size, wait, batches }, work), rest)
}

/** A router with one handler, on the given database. */
export function routerWith<Handle>(database: Database<Handle>, handler: Handler, options: BatchRouterOptions = {}): TestRouter {
  const logger = recordingLogger()
  const router = new Router({ concurrency: 200, logger, ...options.router })
    .use(
      transactional(database, {
        inbox: { consumer: 'orders' },
        outbox: { destination: 'events' },
        ...options.transactional,
        transaction: { logger, ...options.transactional?.transaction },
      }),
    )
    .handle(handler, { use: options.use })
  return { router, logger }
}

/** Lets the router handle messages that all wait at the same time. Resolves to the verdict on each, with the code of the error. */
export async function deliver({ router }: Pick<TestRouter, 'router'>, deliveries: readonly (string | Delivery)[]): Promise<string[]> {
  const verdicts = deliveries.map((): string[] => [])
  const messages = deliveries.map((delivery, index) => messageOf(delivery, (verdict) => void verdicts[index]?.push(verdict)))
  // The outbox stores all outputs.
  for await (const output of router.pipe(inTurn(messages))) throw new Error(`Unexpected output ${output.id}`)
  return verdicts.map((given) => given.join())
}

export function messageOf(delivery: string | Delivery, onVerdict: (verdict: string) => void = () => {}): Message {
  const {
    id,
    data = { id },
    type = 'order.place',
    deliveryCount,
    attributes = {},
  } = typeof delivery === 'string' ? { id: delivery } : delivery
  const coded = (verdict: string, error: unknown) => onVerdict(`${verdict} ${(error as { code?: unknown }).code ?? error}`)
  const acking = {
    ack: () => onVerdict('ack'),
    nack: (error: unknown) => coded('nack', error),
    reject: (error: unknown) => coded('reject', error),
  }
  return new Message(data, { id, type, source: '/shop', specversion: '1.0', ...attributes }, { acking, deliveryCount })
}

async function* inTurn(messages: readonly Message[]): AsyncGenerator<Message> {
  yield* messages
}
