import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { AckordError, commandHandler, type Handler, jsonMarshaler, MemoryBroker, marshal, publishAll, type RawMessage } from '@ackord/core'
import type { ServiceOptions } from '@ackord/outbox/service'
import type { Scenario } from '@ackord/testkit/suites'
import { baggageEntryMetadataFromString, context, propagation, SpanKind, SpanStatusCode, type TextMapPropagator } from '@opentelemetry/api'
import type { Histogram } from '@opentelemetry/sdk-metrics'
import type { telemetry as realTelemetry, TelemetryOptions } from '../../src/index.ts'
import { w3cPropagator } from '../../src/trace/w3c-propagator.ts'
import { eventNames, type Point, Recorder, traceparentOf } from '../support/recorder.ts'
import { type OpenStore, orderPlaced, orderService, placeOrder, type RunningService } from '../support/worlds.ts'

export interface TelemetryPorts {
  readonly openStore: OpenStore
  readonly telemetry: typeof realTelemetry
}

export type TelemetryScenario = Scenario<TelemetryPorts>

/** The trace of a client that sends an order. */
const sender = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const senderState = 'vendor=opaque'

interface WorldOptions extends Omit<TelemetryOptions, 'tracerProvider' | 'meterProvider'> {
  readonly handler?: Handler | undefined
  readonly service?: Partial<ServiceOptions> | undefined
  /** Wraps the broker as a publisher. */
  readonly publisher?: ((broker: MemoryBroker) => ServiceOptions['publisher']) | undefined
}

const placing = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => [orderPlaced({ orderId: id })])

/** A service with telemetry on a store, its broker in memory, and an SDK that records. */
class TelemetryWorld {
  readonly broker = new MemoryBroker({ history: 1000 })
  readonly recorder = new Recorder()
  readonly service: RunningService
  readonly #store: AsyncDisposable

  private constructor(store: Awaited<ReturnType<OpenStore>>, { telemetry }: TelemetryPorts, options: WorldOptions) {
    const { handler = placing, service = {}, publisher, ...rest } = options
    const { tracerProvider, meterProvider } = this.recorder
    const observed = telemetry({ ...rest, tracerProvider, meterProvider })
    const own = publisher === undefined ? {} : { publisher: publisher(this.broker) }
    this.service = store.createService(orderService(this.broker, observed, [handler], { ...own, ...service }))
    this.#store = store
  }

  static async open(ports: TelemetryPorts, options: WorldOptions = {}): Promise<TelemetryWorld> {
    return new TelemetryWorld(await ports.openStore(), ports, options)
  }

  order(id: string, attributes: Record<string, string> = {}): RawMessage {
    return marshal(placeOrder({ id }, { id: `m-${id}`, source: '/shop', ...attributes }), jsonMarshaler)
  }

  /** Handles these messages, and waits until they are settled and their events published. */
  async handle(...messages: readonly RawMessage[]): Promise<void> {
    this.service.start()
    await publishAll(this.broker, 'orders', messages)
    await this.broker.idle('orders')
  }

  events(): readonly RawMessage[] {
    return this.broker.published('order-events')
  }

  async eventsArrive(count: number): Promise<readonly RawMessage[]> {
    await until(() => this.events().length >= count, `${count} events are published`)
    return this.events()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]()
    await this.#store[Symbol.asyncDispose]()
    await this.recorder[Symbol.asyncDispose]()
  }
}

async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 5000
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited in vain until ${what}`)
    await pause(5)
  }
}

export const telemetryScenarios: readonly TelemetryScenario[] = [
  {
    name: 'processing a message is a CONSUMER span with a trace of its own, linked to the span that created the message',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.handle(world.order('o-1', { traceparent: sender, tracestate: senderState }))
      const span = world.recorder.only('process orders')
      assert.equal(span.kind, SpanKind.CONSUMER)
      assert.equal(span.parentSpanContext, undefined)
      assert.deepEqual(
        span.links.map((link) => [traceparentOf(link.context), link.context.traceState?.serialize()]),
        [[sender, senderState]],
      )
      assert.notEqual(span.spanContext().traceId, '0af7651916cd43dd8448eb211c80319c')
      assert.equal(span.attributes['messaging.operation.name'], 'process')
      assert.equal(span.attributes['messaging.operation.type'], 'process')
      assert.equal(span.attributes['messaging.destination.name'], 'orders')
      assert.equal(span.attributes['messaging.message.id'], 'm-o-1')
      assert.equal(span.status.code, SpanStatusCode.UNSET)
    },
  },
  {
    name: "with process: 'parent' the first delivery continues the trace, and a redelivery begins one with a link",
    async run(ports) {
      let attempts = 0
      const handler = commandHandler({ type: placeOrder, source: '/orders' }, async () => {
        attempts += 1
        if (attempts === 1) throw new Error('not yet')
        return []
      })
      await using world = await TelemetryWorld.open(ports, { process: 'parent', handler })
      await world.handle(world.order('o-1', { traceparent: sender }))
      const [first, second] = world.recorder.named('process orders')
      assert.ok(first !== undefined && second !== undefined)
      assert.equal(first.parentSpanContext && traceparentOf(first.parentSpanContext), sender)
      assert.deepEqual(first.links, [])
      assert.equal(second.parentSpanContext, undefined)
      assert.deepEqual(
        second.links.map((link) => traceparentOf(link.context)),
        [sender],
      )
      assert.equal(second.attributes['ackord.delivery_count'], 2)
    },
  },
  {
    name: 'the commit is inside of the span, and is an event of it',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.handle(world.order('o-1'))
      const span = world.recorder.only('process orders')
      assert.deepEqual(eventNames(span), ['ackord.committed'])
      const [committed] = span.events
      assert.ok(committed !== undefined && millis(committed.time) <= millis(span.endTime))
    },
  },
  {
    name: 'a duplicate is an event of its span, not an error',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.handle(world.order('o-1'))
      await world.handle(world.order('o-1'))
      // The inbox acks the duplicate, so the span ends after that.
      await until(() => world.recorder.named('process orders').length === 2, 'the span has ended')
      const [, second] = world.recorder.named('process orders')
      assert.ok(second !== undefined && eventNames(second).includes('ackord.duplicate'))
      assert.equal(second.status.code, SpanStatusCode.UNSET)
      assert.equal(second.events.find(({ name }) => name === 'ackord.duplicate')?.attributes?.['messaging.consumer.group.name'], 'orders')
    },
  },
  {
    name: 'a failure has the exception, the status and the type of the error, without secrets; the rollback is an event, and the nack a span',
    async run(ports) {
      let failed = false
      const handler = commandHandler({ type: placeOrder, source: '/orders' }, async () => {
        if (failed) return []
        failed = true
        throw Object.assign(new Error('connect ECONNREFUSED postgres://app:secret@db/shop'), { code: 'ECONNREFUSED' })
      })
      await using world = await TelemetryWorld.open(ports, { handler })
      await world.handle(world.order('o-1'))
      const [span] = world.recorder.named('process orders')
      assert.ok(span !== undefined)
      assert.equal(span.status.code, SpanStatusCode.ERROR)
      assert.equal(span.attributes['error.type'], 'ECONNREFUSED')
      assert.deepEqual(eventNames(span).toSorted(), ['ackord.rolled_back', 'exception'])
      assert.doesNotMatch(JSON.stringify([span.status, span.events, span.attributes]), /secret/)
      const nack = world.recorder.only('nack orders')
      assert.equal(nack.kind, SpanKind.CLIENT)
      assert.equal(nack.attributes['messaging.operation.type'], 'settle')
      assert.equal(nack.parentSpanContext?.spanId, span.spanContext().spanId)
    },
  },
  {
    name: 'events carry the context of the span that handled the message, not that of the message',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.handle(world.order('o-1', { traceparent: sender, tracestate: senderState }))
      const [event] = await world.eventsArrive(1)
      assert.equal(event?.attributes.traceparent, traceparentOf(world.recorder.only('process orders').spanContext()))
      assert.equal(event?.attributes.tracestate, undefined)
    },
  },
  {
    name: 'an event that is appended in a span of the application carries its context',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      world.service.start()
      await world.recorder.inSpan('POST /orders', () =>
        world.service.append(orderPlaced({ orderId: 'o-1' }), orderPlaced({ orderId: 'o-2' })),
      )
      const events = await world.eventsArrive(2)
      const expected = traceparentOf(world.recorder.only('POST /orders').spanContext())
      assert.deepEqual(
        events.map(({ attributes }) => attributes.traceparent),
        [expected, expected],
      )
    },
  },
  {
    name: 'a context that is in an event is never changed',
    async run(ports) {
      const handler = commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => [
        orderPlaced({ orderId: id }, { traceparent: sender, tracestate: senderState }),
      ])
      await using world = await TelemetryWorld.open(ports, { handler })
      await world.handle(world.order('o-1'))
      await world.recorder.inSpan('POST /orders', () =>
        world.service.append(orderPlaced({ orderId: 'o-2' }, { traceparent: sender, tracestate: senderState })),
      )
      const events = await world.eventsArrive(2)
      for (const { attributes } of events) assert.deepEqual([attributes.traceparent, attributes.tracestate], [sender, senderState])
    },
  },
  {
    name: 'baggage is not stored unless the propagator writes it',
    async run(ports) {
      const baggage = propagation.createBaggage({ user: { value: 'u-7', metadata: baggageEntryMetadataFromString('') } })
      for (const withBaggage of [false, true]) {
        await using world = await TelemetryWorld.open(ports, withBaggage ? { propagator: baggagePropagator } : {})
        world.service.start()
        await world.recorder.inSpan('POST /orders', () =>
          context.with(propagation.setBaggage(context.active(), baggage), () => world.service.append(orderPlaced({ orderId: 'o-1' }))),
        )
        const [event] = await world.eventsArrive(1)
        assert.equal(event?.attributes['baggage'], withBaggage ? 'user=u-7' : undefined)
      }
    },
  },
  {
    name: 'a publish is one CLIENT span for all its messages, linked to the spans that created them, and has the age of the oldest record',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.recorder.inSpan('first request', () =>
        world.service.append(orderPlaced({ orderId: 'o-1' }), orderPlaced({ orderId: 'o-2' })),
      )
      await world.recorder.inSpan('second request', () => world.service.append(orderPlaced({ orderId: 'o-3' })))
      await pause(30)
      world.service.start()
      await world.eventsArrive(3)
      await world.service.stop()
      const send = world.recorder.only('send order-events')
      assert.equal(send.kind, SpanKind.CLIENT)
      assert.equal(send.parentSpanContext, undefined)
      assert.equal(send.attributes['messaging.batch.message_count'], 3)
      const requests = ['first request', 'second request'].map((name) => traceparentOf(world.recorder.only(name).spanContext()))
      assert.deepEqual(send.links.map((link) => traceparentOf(link.context)).toSorted(), requests.toSorted())
      const age = Number(send.attributes['ackord.outbox.oldest_age'])
      assert.ok(age >= 0.03 && age < 20, `the oldest record was ${age} s old`)
    },
  },
  {
    name: 'a publish has links to at most 128 spans',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports, { service: { relay: { pollInterval: 20, batchSize: 200 } } })
      const span = (index: number) => `00-0af7651916cd43dd8448eb211c80319c-${(index + 1).toString(16).padStart(16, '0')}-01`
      await world.service.append(
        ...Array.from({ length: 200 }, (_, index) => orderPlaced({ orderId: `o-${index}` }, { traceparent: span(index) })),
      )
      world.service.start()
      await world.eventsArrive(200)
      await world.service.stop()
      const sends = world.recorder.named('send order-events')
      const links = sends.map((send) => send.links.length)
      assert.ok(Math.max(...links) <= 128, `${Math.max(...links)} links`)
      assert.ok(Math.max(...links) > 1, 'the publishes have no links')
    },
  },
  {
    name: 'a relay that is started in a span does not belong to it, and neither claims nor empty polls have spans',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.recorder.inSpan('deployment', async () => void world.service.start())
      await world.handle(world.order('o-1'))
      await world.eventsArrive(1)
      await pause(100)
      await world.service.stop()
      assert.equal(world.recorder.only('send order-events').parentSpanContext, undefined)
      assert.deepEqual(world.recorder.spans.map(({ name }) => name).toSorted(), ['deployment', 'process orders', 'send order-events'])
    },
  },
  {
    name: 'a refused publish has the error, and what was sent and refused is counted apart',
    async run(ports) {
      const refusing = (broker: MemoryBroker) => ({
        publish: async (destination: string, messages: readonly RawMessage[], options: { readonly signal: AbortSignal }) => {
          const [refused, ...others] = messages
          if (refused === undefined) return []
          if (!isNumbered(refused, 'o-1')) return await broker.publish(destination, messages, options)
          const accepted = await broker.publish(destination, others, options)
          return [{ ok: false as const, error: new AckordError('ACKORD_WRONG_DATA', 'too large'), permanent: true }, ...accepted]
        },
      })
      await using world = await TelemetryWorld.open(ports, { publisher: refusing })
      await world.service.append(orderPlaced({ orderId: 'o-1' }), orderPlaced({ orderId: 'o-2' }))
      world.service.start()
      await world.eventsArrive(1)
      await until(() => world.recorder.named('park order-events').length === 1, 'the record is parked')
      const [send] = world.recorder.named('send order-events')
      assert.equal(send?.status.code, SpanStatusCode.ERROR)
      assert.equal(send?.attributes['error.type'], 'ACKORD_WRONG_DATA')
      assert.equal(send?.attributes['ackord.failed_message_count'], 1)
      const sent = await world.recorder.points('messaging.client.sent.messages')
      assert.deepEqual(
        sent.map(({ attributes, value }) => [attributes['error.type'], value]).toSorted(),
        [
          ['ACKORD_WRONG_DATA', 1],
          [undefined, 1],
        ].toSorted(),
      )
    },
  },
  {
    name: 'a parked record is a span in the trace that created it',
    async run(ports) {
      const refusing = () => ({
        publish: async (_destination: string, messages: readonly RawMessage[]) =>
          messages.map(() => ({ ok: false as const, error: new Error('too large'), permanent: true })),
      })
      await using world = await TelemetryWorld.open(ports, { publisher: refusing })
      await world.recorder.inSpan('POST /orders', () => world.service.append(orderPlaced({ orderId: 'o-1' })))
      world.service.start()
      await until(() => world.recorder.named('park order-events').length === 1, 'the record is parked')
      const span = world.recorder.only('park order-events')
      assert.equal(span.parentSpanContext?.spanId, world.recorder.only('POST /orders').spanContext().spanId)
      assert.equal(span.status.code, SpanStatusCode.ERROR)
      assert.equal(span.attributes['ackord.outbox.park_reason'], 'permanent')
    },
  },
  {
    name: 'with create: true each event has a span of its own, whose context it carries',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports, { create: true })
      await world.handle(world.order('o-1'))
      await world.recorder.inSpan('POST /orders', () => world.service.append(orderPlaced({ orderId: 'o-2' })))
      const events = await world.eventsArrive(2)
      const created = world.recorder.named('create order.placed')
      assert.deepEqual(
        created.map((span) => span.kind),
        [SpanKind.PRODUCER, SpanKind.PRODUCER],
      )
      assert.deepEqual(
        events.map(({ attributes }) => attributes.traceparent).toSorted(),
        created.map((span) => traceparentOf(span.spanContext())).toSorted(),
      )
      assert.deepEqual(
        created.map((span) => span.parentSpanContext?.spanId).toSorted(),
        ['process orders', 'POST /orders'].map((name) => world.recorder.only(name).spanContext().spanId).toSorted(),
      )
    },
  },
  {
    name: 'a consumer of the events is linked to the span that created them: one graph from the request to the second service',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await using second = await TelemetryWorld.open(ports, {
        handler: commandHandler({ type: placeOrder, source: '/orders' }, async () => []),
      })
      await world.recorder.inSpan('POST /orders', () => world.service.append(placeOrder({ id: 'o-9' }, { source: '/shop' })))
      world.service.start()
      const arrived = await world.eventsArrive(1)
      await second.handle(...arrived)
      const [link] = second.recorder.only('process orders').links
      assert.equal(link?.context.spanId, world.recorder.only('POST /orders').spanContext().spanId)
    },
  },
  {
    name: 'durations and counts of the conventions are measured in seconds, by destination, without ids',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.handle(world.order('o-1'), world.order('o-2'))
      await world.eventsArrive(2)
      await world.service.stop()
      const [processed] = await world.recorder.points('messaging.process.duration')
      const { count, sum = Number.NaN } = histogram(processed)
      assert.equal(count, 2)
      assert.ok(sum > 0 && sum < 20, `processing took ${sum} s`)
      assert.deepEqual(processed?.attributes['messaging.destination.name'], 'orders')
      const [consumed] = await world.recorder.points('messaging.client.consumed.messages')
      assert.equal(consumed?.value, 2)
      const [sent] = await world.recorder.points('messaging.client.sent.messages')
      assert.deepEqual([sent?.value, sent?.attributes['messaging.destination.name']], [2, 'order-events'])
      const operations = await world.recorder.points('messaging.client.operation.duration')
      assert.deepEqual([...new Set(operations.map(({ attributes }) => attributes['messaging.operation.name']))].toSorted(), ['send'])
      const names = await world.recorder.metricNames()
      for (const name of names) {
        for (const { attributes } of await world.recorder.points(name)) assert.doesNotMatch(JSON.stringify(attributes), /o-1|o-2/, name)
      }
    },
  },
  {
    name: 'metrics of Ackord have kind, unit, buckets and description of the table, and durations are in seconds',
    async run(ports) {
      await using world = await TelemetryWorld.open(ports)
      await world.handle(world.order('o-1'))
      await world.eventsArrive(1)
      await world.service.stop()
      const delay = await world.recorder.metric('ackord.outbox.delivery_delay')
      assert.equal(delay?.descriptor.unit, 's')
      assert.match(delay?.descriptor.description ?? '', /confirmation of the broker/)
      const [point] = delay?.dataPoints ?? []
      assert.equal(point?.attributes['destination'], 'order-events')
      const { count, sum = Number.NaN, buckets } = histogram(point)
      assert.equal(count, 1)
      assert.ok(sum >= 0 && sum < 20, `the delivery took ${sum} s`)
      assert.equal(buckets.boundaries.at(-1), 86_400)
      const [published] = await world.recorder.points('ackord.outbox.published')
      assert.equal(published?.value, 1)
      const [build] = await world.recorder.points('ackord.build_info')
      assert.equal(build?.value, 1)
    },
  },
]

function histogram(point: Point | undefined): Histogram {
  if (typeof point?.value !== 'object' || !('buckets' in point.value)) throw new Error('no histogram was recorded')
  return point.value
}

function isNumbered({ data }: RawMessage, id: string): boolean {
  return new TextDecoder().decode(data).includes(`"${id}"`)
}

function millis([seconds, nanos]: readonly [number, number]): number {
  return seconds * 1000 + nanos / 1e6
}

/** W3C Trace Context with one entry of baggage, as OpenTelemetry's composite propagator writes it. */
export const baggagePropagator: TextMapPropagator<unknown> = {
  ...w3cPropagator,
  inject(active, carrier, setter) {
    w3cPropagator.inject(active, carrier, setter)
    const entries = propagation.getBaggage(active)?.getAllEntries() ?? []
    if (entries.length > 0) setter.set(carrier, 'baggage', entries.map(([key, { value }]) => `${key}=${value}`).join(','))
  },
}
