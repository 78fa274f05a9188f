import { readFileSync } from 'node:fs'
import { commandHandler, jsonMarshaler, MemoryBroker, Message, marshal, publishAll, Router, silentLogger } from '@ackord/core'
import { MemoryStore } from '@ackord/testkit'
import { metrics as globalMetrics, trace } from '@opentelemetry/api'
import * as conventions from '@opentelemetry/semantic-conventions'
import * as incubating from '@opentelemetry/semantic-conventions/incubating'
import { afterEach, describe, expect, it } from 'vitest'
import { attribute, metricName } from '../src/conventions.ts'
import { telemetry } from '../src/index.ts'
import { w3cPropagator } from '../src/trace/w3c-propagator.ts'
import { version } from '../src/version.ts'
import { Recorder } from './support/recorder.ts'
import { orderPlaced, placeOrder } from './support/worlds.ts'

afterEach(() => {
  trace.disable()
  globalMetrics.disable()
})

describe('the names', () => {
  it('are those of the conventions', () => {
    const known = new Set<unknown>(Object.values({ ...conventions, ...incubating }).filter((value) => typeof value === 'string'))
    expect(Object.values({ ...attribute, ...metricName }).filter((name) => !known.has(name))).toEqual([])
    expect(known.has('messaging.system.names')).toBe(false)
  })

  it('include the version of the package', () => {
    expect(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version).toBe(version)
  })
})

describe('telemetry()', () => {
  it.each([
    [{ process: 'child' }, 'process'],
    [{ create: 'yes' }, 'create must be true or false'],
    [{ tracerProvider: {} }, 'tracerProvider.getTracer'],
    [{ propagator: {} }, 'propagator.inject'],
    [{ sampling: 1 }, "telemetry() has no option 'sampling'"],
  ])('rejects %j', (options, text) => {
    expect(() => telemetry(options as never)).toThrow(text)
  })

  it('does nothing visible without an SDK: messages are handled, and nothing is added to their events', async () => {
    const { middleware, outbox, publisher, source, metrics } = telemetry()
    const store = new MemoryStore({ source: '/orders', destination: 'order-events' })
    const broker = new MemoryBroker({ history: 10 })
    const router = new Router({ logger: silentLogger, metrics })
      .use(middleware, store.transactional({ consumer: 'orders', destination: 'order-events' }))
      .handle(commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => [orderPlaced({ orderId: id })]))
    const observed = publisher(broker)
    await observed.publish(
      'orders',
      [new Message(new TextEncoder().encode('{"id":"o-1"}'), { id: 'm-1', type: 'order.place', source: '/shop' })],
      {
        signal: new AbortController().signal,
      },
    )
    const run = router.run(source(broker.source('orders')))
    await broker.idle('orders')
    await router.stop()
    await run
    await store.write((transaction) => outbox(store.outbox).append(transaction.events, orderPlaced({ orderId: 'o-2' })))
    const { records } = await store.outbox.list({}, { limit: 10 })
    expect(records.map(({ message }) => message.attributes.traceparent)).toEqual([undefined, undefined])
    expect(broker.published('orders')[0]?.attributes.traceparent).toBeUndefined()
  })

  it('uses an SDK that is registered after it was created', async () => {
    const { metrics, middleware } = telemetry()
    metrics.count('ackord.settled', 1, { verdict: 'acked' })
    await using recorder = new Recorder()
    trace.setGlobalTracerProvider(recorder.tracerProvider)
    globalMetrics.setGlobalMeterProvider(recorder.meterProvider)
    metrics.count('ackord.settled', 2, { verdict: 'acked' })
    expect((await recorder.points('ackord.settled'))[0]?.value).toBe(2)
    const broker = new MemoryBroker()
    const router = new Router({ logger: silentLogger })
      .use(middleware)
      .handle(commandHandler({ type: placeOrder, source: '/orders' }, async () => []))
    await publishAll(broker, 'orders', [marshal(placeOrder({ id: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)])
    const run = router.run(broker.source('orders'))
    await broker.idle('orders')
    await router.stop()
    await run
    expect(recorder.spans.map(({ name }) => name)).toEqual(['process orders'])
  })

  it('rejects a router in which it is inside of the transaction', async () => {
    const store = new MemoryStore()
    const { middleware } = telemetry()
    const router = new Router({ logger: silentLogger })
      .use(store.transactional({ consumer: 'orders', destination: 'order-events' }), middleware)
      .handle(commandHandler({ type: placeOrder, source: '/orders' }, async () => []))
    await expect(router.run(new MemoryBroker().source('orders'))).rejects.toThrow('its span would end before the commit')
  })

  it('gives metrics of the application their name only', async () => {
    await using recorder = new Recorder()
    const { metrics } = telemetry({ meterProvider: recorder.meterProvider })
    metrics.observe('shop.total', 250, { currency: 'EUR' })
    const metric = await recorder.metric('shop.total')
    expect(metric?.descriptor).toMatchObject({ unit: '', description: '' })
    expect(metric?.dataPoints[0]?.value).toMatchObject({ sum: 250 })
  })
})

describe('a traceparent', () => {
  const holder = { setValue: (_: symbol, value: unknown) => ({ value }) }
  const getter = { keys: () => [], get: (carrier: unknown, key: string) => (carrier as Record<string, string>)[key] }
  const read = (traceparent: string, tracestate?: string) => {
    const found = w3cPropagator.extract(holder as never, { traceparent, tracestate }, getter) as {
      readonly value?: { spanContext(): unknown }
    }
    return found.value?.spanContext()
  }
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const spanId = 'b7ad6b7169203331'

  it('is read with its state, also in a later version', () => {
    expect(read(`00-${traceId}-${spanId}-01`)).toMatchObject({ traceId, spanId, traceFlags: 1, isRemote: true })
    expect(read(`cc-${traceId}-${spanId}-00-what-comes-later`)).toMatchObject({ traceId, spanId, traceFlags: 0 })
    const { traceState } = read(`00-${traceId}-${spanId}-01`, 'a=1,b=2') as { traceState: { serialize(): string } }
    expect(traceState.serialize()).toBe('a=1,b=2')
  })

  it.each([
    '',
    'nonsense',
    `ff-${traceId}-${spanId}-01`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
  ])('that is not valid is ignored: %j', (text) => {
    expect(read(text)).toBeUndefined()
  })
})
