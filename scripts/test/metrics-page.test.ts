import { readdirSync, readFileSync } from 'node:fs'
import {
  AckordError,
  commandHandler,
  jsonMarshaler,
  MemoryBroker,
  marshal,
  type Publisher,
  publishAll,
  Router,
  silentLogger,
} from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { PrometheusMetrics } from '../../packages/cli/src/relay/prometheus-metrics.ts'
import { metricTable } from '../../packages/core/src/ports/metric-table.ts'
import { telemetry } from '../../packages/telemetry/src/index.ts'
import { Recorder } from '../../packages/telemetry/test/support/recorder.ts'
import { placeOrder } from '../../packages/telemetry/test/support/worlds.ts'
import { describedMetrics } from '../site/described-metrics.ts'
import { metricsPage, prometheusName } from '../site/metrics-page.mjs'
import { root } from './docs-blocks.ts'

const kinds: Readonly<Record<string, string>> = { count: 'counter', gauge: 'gauge', observe: 'histogram' }
const known: Readonly<Record<string, { readonly kind: string }>> = metricTable

const sources = readdirSync(`${root}packages`)
  .flatMap((name) =>
    readdirSync(`${root}packages/${name}/src`, { recursive: true, encoding: 'utf8' }).map((file) => `packages/${name}/src/${file}`),
  )
  .filter((file) => file.endsWith('.ts') && !file.endsWith('/metric-table.ts'))
  .map((file) => readFileSync(root + file, 'utf8'))

/** The metrics that a source emits, and by which method; those whose name is assembled, once for each name that the table has. */
function emitted(source: string): { readonly name: string; readonly kind: string | undefined }[] {
  const calls = [...source.matchAll(/\b(count|gauge|observe)\(\s*(['`])(ackord\.[^'`]+)\2/g)]
  return calls.flatMap(([, method = '', , text = '']) => {
    const kind = kinds[method]
    if (!text.includes('${')) return [{ name: text, kind }]
    const pattern = new RegExp(`^${text.replaceAll('.', '\\.').replaceAll(/\$\{\w+\}/g, '[a-z]+')}$`)
    const names = Object.keys(metricTable).filter((name) => pattern.test(name))
    return (names.length === 0 ? [text] : names).map((name) => ({ name, kind }))
  })
}

/** What is wrong with the calls of a source. */
function undescribed(source: string): string[] {
  return emitted(source)
    .filter(({ name, kind }) => known[name]?.kind !== kind)
    .map(({ name, kind }) => `${name}, emitted as a ${kind}`)
}

describe('the table of metrics', () => {
  it('has every metric that the packages emit, with its kind', () => {
    // Tests the check itself first.
    expect(undescribed("metrics?.count('ackord.messages', 1, {})")).toEqual([])
    const assembled = `ackord.outbox.${'$'}{what}_size_of`
    expect(undescribed(`gauge('ackord.messages', 1, {}); observe(\`${assembled}\`, 1)`)).toEqual([
      'ackord.messages, emitted as a gauge',
      `${assembled}, emitted as a histogram`,
    ])
    expect(sources.flatMap(emitted).length).toBeGreaterThan(35)
    expect(sources.flatMap(undescribed)).toEqual([])
  })

  it('has no metric that nothing emits', () => {
    const all = sources.join('\n')
    const named = new Set(sources.flatMap(emitted).map(({ name }) => name))
    const unused = Object.keys(metricTable).filter((name) => !named.has(name) && !all.includes(`'${name}'`))
    expect(unused).toEqual([])
  })
})

describe('docs/metrics.md', async () => {
  const metrics = await describedMetrics()

  it('is made from the table (node scripts/docs-metrics.mjs)', () => {
    expect(readFileSync(`${root}docs/metrics.md`, 'utf8')).toBe(metricsPage(metrics))
  })

  it('has the names that the command shows to Prometheus', () => {
    const text = new PrometheusMetrics(metricTable).format()
    const served = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => `${name} ${kind}`)
    const own = metrics.filter(({ from }) => from !== 'messaging').map((metric) => `${prometheusName(metric)} ${metric.kind}`)
    expect(own.toSorted()).toEqual(served.toSorted())
  })

  it('refuses a metric that has no group', () => {
    const [first] = metrics
    expect(() => metricsPage([{ ...first, from: 'elsewhere' } as never])).toThrow(`no group for ${first?.name}`)
  })

  it('has the labels with which the metrics of OpenTelemetry are recorded', async () => {
    await using recorder = new Recorder()
    await operate(recorder)
    for (const { name, labels } of metrics.filter(({ from }) => from === 'messaging')) {
      const points = await recorder.points(name)
      const used = points.map(({ attributes }) => attributes)
      expect(new Set(used.flatMap(Object.keys)), name).toEqual(new Set(Object.keys(labels)))
      const operations = [...new Set(used.map((attributes) => attributes['messaging.operation.name']))]
      // An ack is measured only if it failed.
      const documented = labels['messaging.operation.name'] as readonly string[]
      expect(operations.toSorted(), name).toEqual(documented.filter((operation) => operation !== 'ack').toSorted())
    }
  })
})

/** Sends and handles messages with all outcomes. */
async function operate({ tracerProvider, meterProvider }: Recorder): Promise<void> {
  const { middleware, source, publisher } = telemetry({ tracerProvider, meterProvider })
  const address = { serverAddress: 'broker.example', serverPort: 5672 }
  const broker = Object.assign(new MemoryBroker(), address)
  const order = (id: string) => marshal(placeOrder({ id }, { id, source: '/shop' }), jsonMarshaler)
  const refusing: Publisher = { ...address, publish: async () => [{ ok: false as const, error: new Error('refused') }] }
  await publishAll(publisher(broker), 'orders', ['accepted', 'retried', 'rejected'].map(order))
  await publisher(refusing).publish('orders', [order('refused')], { signal: new AbortController().signal })
  let failed = false
  const router = new Router({ logger: silentLogger, redeliveryDelay: () => 1 }).use(middleware).handle(
    commandHandler({ type: placeOrder, source: '/orders' }, async ({ id }) => {
      if (id === 'rejected') throw new AckordError('ACKORD_WRONG_DATA', 'not an order', { retryable: false })
      if (id === 'retried' && !failed) {
        failed = true
        throw new Error('not yet')
      }
      return []
    }),
  )
  const run = router.run(source(Object.assign(broker.source('orders', { deadLetter: 'discard' }), address)))
  await broker.idle('orders')
  await router.stop()
  await run
}
