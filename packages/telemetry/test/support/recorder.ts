import { context, metrics as globalMetrics, propagation, type SpanContext, SpanKind, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  type DataPoint,
  type ExponentialHistogram,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'

export type Point = DataPoint<number> | DataPoint<Histogram> | DataPoint<ExponentialHistogram>

/** An SDK that keeps spans and metrics in memory. */
export class Recorder {
  readonly #spans = new InMemorySpanExporter()
  readonly #metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  readonly #reader = new PeriodicExportingMetricReader({ exporter: this.#metrics, exportIntervalMillis: 2 ** 30 })
  readonly tracerProvider: BasicTracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(this.#spans)],
    // By default the SDK drops what is beyond 128 links itself.
    spanLimits: { linkCountLimit: 10_000 },
  })
  readonly meterProvider: MeterProvider = new MeterProvider({ readers: [this.#reader] })

  get spans(): readonly ReadableSpan[] {
    return this.#spans.getFinishedSpans()
  }

  named(name: string): readonly ReadableSpan[] {
    return this.spans.filter((span) => span.name === name)
  }

  /** The only span of this name. */
  only(name: string): ReadableSpan {
    const [span, ...others] = this.named(name)
    if (span === undefined || others.length > 0)
      throw new Error(`expected one span '${name}', found ${this.spans.map((each) => each.name).join(', ') || 'none'}`)
    return span
  }

  /** All data points of a metric so far. */
  async points(name: string): Promise<readonly Point[]> {
    return (await this.metric(name))?.dataPoints ?? []
  }

  async metric(name: string): Promise<MetricData | undefined> {
    this.#metrics.reset()
    await this.#reader.forceFlush()
    const scopes = this.#metrics.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics)
    return scopes.flatMap(({ metrics }) => metrics).find(({ descriptor }) => descriptor.name === name)
  }

  async metricNames(): Promise<readonly string[]> {
    this.#metrics.reset()
    await this.#reader.forceFlush()
    return this.#metrics
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics.map(({ descriptor }) => descriptor.name)))
  }

  /** Runs the work in a span of the application, as an HTTP server with instrumentation does. */
  async inSpan<R>(name: string, work: () => Promise<R>): Promise<R> {
    const span = this.tracerProvider.getTracer('application').startSpan(name, { kind: SpanKind.SERVER })
    try {
      return await context.with(trace.setSpan(context.active(), span), work)
    } finally {
      span.end()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.tracerProvider.shutdown()
    await this.meterProvider.shutdown()
  }
}

/** The part of the SDK that is global. Files share a worker, so each undoes it. */
export function useContextManager(): () => void {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  return () => {
    context.disable()
    trace.disable()
    globalMetrics.disable()
    propagation.disable()
  }
}

export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

export function eventNames(span: ReadableSpan): readonly string[] {
  return span.events.map(({ name }) => name)
}
