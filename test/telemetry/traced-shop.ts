// Two processes of a shop, each with telemetry, on two brokers. `TRACED_ROLE` chooses one:
//
//   shop:    POST /orders ─▶ outbox ─▶ RabbitMQ ─▶ …            … ─▶ NATS ─▶ inbox: the confirmation
//   orders:                            … ─▶ RabbitMQ ─▶ inbox, outbox ─▶ NATS ─▶ …
//
// Each prints its spans as lines of JSON. The test, and the picture in the guide, are made from them.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { commandHandler, defineEvent, eventHandler, silentLogger } from '@ackord/core'
import { natsPublisher, natsSource } from '@ackord/nats'
import { declareTopology, rabbitmqPublisher, rabbitmqSource } from '@ackord/rabbitmq'
import { createSchema } from '@ackord/sql'
import { fromPg } from '@ackord/sql/postgres'
import { createService } from '@ackord/sql/service'
import { telemetry } from '@ackord/telemetry'
import { connect as connectNats } from '@nats-io/transport-node'
import { context, SpanKind, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { connect as connectRabbitmq } from 'amqplib'
import pg from 'pg'

const { TRACED_ROLE = '', TRACED_NAME = '', TRACED_SCHEMA = '' } = process.env
const { POSTGRES_URL = 'postgres://postgres@127.0.0.1:5432/test', RABBITMQ_URL = 'amqp://guest:guest@127.0.0.1:5672' } = process.env
const { NATS_URL = 'nats://127.0.0.1:4222' } = process.env

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ orderId: string }>('order.placed')

const millis = ([seconds, nanos]: readonly [number, number]) => seconds * 1000 + nanos / 1e6

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function describe(span: ReadableSpan): object {
  const { traceId, spanId } = span.spanContext()
  return {
    span: span.name,
    service: TRACED_ROLE,
    kind: SpanKind[span.kind],
    traceId,
    spanId,
    parentId: span.parentSpanContext?.spanId,
    links: span.links.map((link) => link.context.spanId),
    start: millis(span.startTime),
    end: millis(span.endTime),
    attributes: span.attributes,
    events: span.events.map(({ name, time }) => ({ name, at: millis(time) })),
  }
}

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
const exporter = {
  export(spans: ReadableSpan[], done: (result: { code: number }) => void) {
    for (const span of spans) print(describe(span))
    done({ code: 0 })
  },
  shutdown: async () => {},
}
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))

const observed = telemetry()
const pool = new pg.Pool({ connectionString: POSTGRES_URL, options: `-c search_path=${TRACED_SCHEMA}` })
const database = fromPg(pool, { logger: silentLogger })
await createSchema(database)
const rabbitmq = await connectRabbitmq(RABBITMQ_URL, { recovery: { initialMaxRetries: 0 } })
const nats = await connectNats({ servers: NATS_URL })
const orders = `${TRACED_NAME}-orders`
const confirmations = `${TRACED_NAME}-placed`

const shared = { database, telemetry: observed, logger: silentLogger, onClose: closeConnections, relay: { pollInterval: 20 } }

async function closeConnections(): Promise<void> {
  await Promise.all([rabbitmq.close(), nats.close(), pool.end()])
}

if (TRACED_ROLE === 'orders') {
  await declareTopology(rabbitmq, { queues: { [orders]: { type: 'quorum' } } })
  const service = createService({
    ...shared,
    consumer: 'orders',
    source: rabbitmqSource(rabbitmq, { queue: orders }),
    handlers: [commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => [orderPlaced({ orderId: id })])],
    publisher: natsPublisher(nats),
    destination: confirmations,
  })
  service.start()
  print({ ready: true })
  await service.runUntilSignal()
} else {
  const service = createService({
    ...shared,
    consumer: 'confirmations',
    source: natsSource(nats, { stream: confirmations, consumer: 'shop', declare: {} }),
    handlers: [eventHandler({ type: orderPlaced, source: '/shop' }, async ({ orderId }) => void print({ confirmed: orderId }))],
    publisher: rabbitmqPublisher(rabbitmq),
    destination: orders,
    eventSource: '/shop',
  })
  // What an instrumentation of the HTTP server does.
  const tracer = trace.getTracer('http')
  const server = createServer((request, response) => {
    const span = tracer.startSpan('POST /orders', { kind: SpanKind.SERVER })
    void context.with(trace.setSpan(context.active(), span), async () => {
      await database.write((transaction) =>
        service.outbox.append(transaction, placeOrder({ id: request.headers['x-order']?.toString() ?? '' })),
      )
      response.writeHead(202).end()
      span.end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  service.start()
  print({ ready: true, port: (server.address() as AddressInfo).port })
  await service.runUntilSignal()
  server.close()
}
