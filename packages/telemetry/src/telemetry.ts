import { InvalidOptionError, type Metrics, type Middleware, type Publisher, type Source } from '@ackord/core'
import { checkChoice, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { MeterProvider, TextMapPropagator, TracerProvider } from '@opentelemetry/api'
import { MessagingMetrics } from './metrics/messaging-metrics.ts'
import { otelMetrics } from './metrics/otel-metrics.ts'
import { Carrier } from './trace/carrier.ts'
import { type ProcessRelation, processMiddleware } from './trace/process-middleware.ts'
import { followRelays } from './trace/span-events.ts'
import { tracedOutbox } from './trace/traced-outbox.ts'
import { tracedPublisher } from './trace/traced-publisher.ts'
import { tracedSource } from './trace/traced-source.ts'
import { type Tracing, tracerOf } from './trace/tracing.ts'
import { w3cPropagator } from './trace/w3c-propagator.ts'

export interface TelemetryOptions {
  /** Default: the global one, which the SDK registers; also if it does so later. */
  readonly tracerProvider?: TracerProvider | undefined
  /** Default: the global one, which the SDK registers; also if it does so later. */
  readonly meterProvider?: MeterProvider | undefined
  /**
   * Writes and reads the trace of a message, in its attributes. With OpenTelemetry's `propagation` it is the global one, which usually stores baggage too. Default: W3C Trace
   * Context, without baggage.
   */
  readonly propagator?: TextMapPropagator<unknown> | undefined
  /**
   * How the span of processing a message is related to the span that created the message. `link`: a trace of its own, with a link. `parent`: the same trace, except for
   * redeliveries. Default: 'link'.
   */
  readonly process?: ProcessRelation | undefined
  /** Whether each event gets a span when it is created. Default: false; events carry the context of the span that creates them. */
  readonly create?: boolean | undefined
}

/** OpenTelemetry for the parts of a service. `createService({ telemetry })` applies all of them. */
export interface Telemetry {
  /** Spans and durations of processed messages. Must be outside of the transaction: `router.use(telemetry.middleware, transactional(…))`. */
  readonly middleware: Middleware
  /** The same publisher, with spans and metrics of its calls. */
  publisher<P extends Publisher>(publisher: P): P
  /** The same source, which counts its messages, and tells their spans which broker they came from. */
  source<S extends Source>(source: S): S
  /** The same outbox: `append()` stores the trace of the active span with each event. */
  outbox<Outbox extends object>(outbox: Outbox): Outbox
  /** The metrics port, for routers, relays and stores. */
  readonly metrics: Metrics
}

/** Without an SDK nothing is recorded, and the cost is a few function calls per message. */
export function telemetry(options: TelemetryOptions = {}): Telemetry {
  const { tracerProvider, meterProvider, propagator = w3cPropagator, process: relation = 'link', create = false, ...unknown } = options
  rejectUnknownOptions('telemetry()', unknown)
  if (tracerProvider !== undefined) checkFunction('tracerProvider.getTracer', tracerProvider.getTracer)
  if (meterProvider !== undefined) checkFunction('meterProvider.getMeter', meterProvider.getMeter)
  checkFunction('propagator.inject', propagator?.inject)
  checkFunction('propagator.extract', propagator.extract)
  checkChoice('process', relation, ['link', 'parent'])
  if (typeof create !== 'boolean') throw new InvalidOptionError('create', 'must be true or false.')
  followRelays()
  const tracing: Tracing = {
    ...tracerOf(tracerProvider),
    carrier: new Carrier(propagator),
    metrics: new MessagingMetrics(meterProvider),
    create,
  }
  return {
    middleware: processMiddleware(tracing, relation),
    publisher: (publisher) => tracedPublisher(publisher, tracing),
    source: (source) => tracedSource(source, tracing),
    outbox: (outbox) => tracedOutbox(outbox, tracing),
    metrics: otelMetrics(meterProvider),
  }
}
