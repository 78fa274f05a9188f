import type { MeterProvider, MetricOptions, Attributes as OtelAttributes } from '@opentelemetry/api'
import { metricName } from '../conventions.ts'
import { MeterInstruments } from './meter-instruments.ts'
import { SummedCounter } from './summed-counter.ts'

/** The boundaries that the conventions recommend for durations, in seconds. */
const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

const descriptions: Readonly<Record<keyof typeof metricName, MetricOptions>> = {
  operationDuration: {
    description: 'Duration of an operation of the messaging client: sending, or settling a message.',
    unit: 's',
    advice: { explicitBucketBoundaries: boundaries },
  },
  sentMessages: { description: 'Messages that were passed to the broker.', unit: '{message}' },
  consumedMessages: { description: 'Messages that were delivered to the application.', unit: '{message}' },
  processDuration: {
    description: 'Duration of processing a message, including the commit.',
    unit: 's',
    advice: { explicitBucketBoundaries: boundaries },
  },
}

/** The metrics of OpenTelemetry's conventions for messaging, beside those of Ackord. */
export class MessagingMetrics {
  readonly #instruments: MeterInstruments

  constructor(meterProvider: MeterProvider | undefined) {
    this.#instruments = new MeterInstruments(meterProvider)
  }

  /** Whether there is an SDK that records metrics. */
  isOn(): boolean {
    return this.#instruments.isOn()
  }

  duration(metric: 'operationDuration' | 'processDuration', seconds: number, attributes: OtelAttributes): void {
    if (!this.isOn()) return
    const name = metricName[metric]
    this.#instruments.get(name, (meter) => meter.createHistogram(name, descriptions[metric])).record(seconds, attributes)
  }

  count(metric: 'sentMessages' | 'consumedMessages', amount: number, attributes: OtelAttributes): void {
    if (!this.isOn()) return
    const name = metricName[metric]
    this.#instruments.get(name, (meter) => new SummedCounter(meter, name, descriptions[metric])).add(amount, attributes)
  }
}
