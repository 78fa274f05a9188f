import { jsonMarshaler, MemoryBroker, Message, marshal, publishAll, Router, silentLogger } from '../../packages/core/src/index.ts'
import { type MetricDescription, metricTable } from '../../packages/core/src/ports/metric-table.ts'
import { attribute, metricName } from '../../packages/telemetry/src/conventions.ts'
import { type TelemetryOptions, telemetry } from '../../packages/telemetry/src/index.ts'

type MeterProvider = NonNullable<TelemetryOptions['meterProvider']>
type Meter = ReturnType<MeterProvider['getMeter']>
type MetricOptions = NonNullable<Parameters<Meter['createHistogram']>[1]>

export interface DescribedMetric extends Pick<MetricDescription, 'kind' | 'help' | 'labels'> {
  readonly name: string
  readonly from: MetricDescription['from'] | 'messaging'
  /** The unit that is exported. */
  readonly unit: 'seconds' | undefined
  readonly buckets: readonly number[]
}

/** All metrics, in the order of the page. */
export async function describedMetrics(): Promise<readonly DescribedMetric[]> {
  const own = Object.entries(metricTable).map(([name, { kind, unit, help, labels, buckets = [], from }]) => ({
    ...{ name, kind, help, labels, buckets, from },
    unit: unit === 'milliseconds' ? ('seconds' as const) : undefined,
  }))
  const created = await createdInstruments()
  const messaging = Object.entries(messagingLabels).map(([name, labels]): DescribedMetric => {
    const instrument = created.get(name)
    if (instrument === undefined) throw new Error(`@ackord/telemetry does not record ${name}.`)
    const { description: help = '', unit, advice } = instrument.options
    const buckets = advice?.explicitBucketBoundaries ?? []
    return { name, labels, help, buckets, kind: instrument.kind, unit: unit === 's' ? 'seconds' : undefined, from: 'messaging' }
  })
  return [...own, ...messaging]
}

const sharedLabels = {
  [attribute.operationType]: 'any',
  [attribute.systemName]: 'any',
  [attribute.destinationName]: 'any',
  [attribute.serverAddress]: 'any',
  [attribute.serverPort]: 'any',
} as const

/** The labels of the metrics of OpenTelemetry's conventions. A test compares them with those that are recorded. */
const messagingLabels: Readonly<Record<string, DescribedMetric['labels']>> = {
  [metricName.processDuration]: { ...sharedLabels, [attribute.operationName]: ['process'], [attribute.errorType]: 'any' },
  [metricName.operationDuration]: {
    ...sharedLabels,
    [attribute.operationName]: ['send', 'nack', 'reject', 'ack'],
    [attribute.errorType]: 'any',
  },
  [metricName.sentMessages]: { ...sharedLabels, [attribute.operationName]: ['send'], [attribute.errorType]: 'any' },
  [metricName.consumedMessages]: { ...sharedLabels, [attribute.operationName]: ['receive'] },
}

interface Instrument {
  readonly kind: DescribedMetric['kind']
  readonly options: MetricOptions
}

/** The instruments that are created while a message is sent and handled, by name. */
async function createdInstruments(): Promise<ReadonlyMap<string, Instrument>> {
  const instruments = new Map<string, Instrument>()
  const { middleware, publisher, source } = telemetry({ meterProvider: { getMeter: () => describingMeter(instruments) } })
  const broker = new MemoryBroker()
  const message = new Message({}, { id: 'm-1', type: 'order.place', source: '/shop', specversion: '1.0' })
  await publishAll(publisher(broker), 'orders', [marshal(message, jsonMarshaler)])
  const router = new Router({ logger: silentLogger }).use(middleware).handle({ type: 'order.place', handle: async () => [] })
  const run = router.run(source(broker.source('orders')))
  await broker.idle('orders')
  await router.stop()
  await run
  return instruments
}

/** A meter that only keeps what its instruments are created with. */
function describingMeter(instruments: Map<string, Instrument>): Meter {
  const ignoring = new Proxy({}, { get: () => () => {} })
  const create = (method: string) => (name: string, options: MetricOptions) => {
    const [, kind] = /(counter|gauge|histogram)$/i.exec(method) ?? []
    if (kind !== undefined) instruments.set(name, { kind: kind.toLowerCase() as DescribedMetric['kind'], options })
    return ignoring
  }
  return new Proxy({} as Meter, { get: (_, method) => create(String(method)) })
}
