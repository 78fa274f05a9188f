import type { Publisher } from '@ackord/core'
import { outputTraceKey } from '@ackord/core/internal'
import type { OutboxStore, OutboxWriter } from '@ackord/outbox'
import { type Link, ROOT_CONTEXT, type Span, type Tracer, type TracerProvider } from '@opentelemetry/api'
import { type Telemetry, type TelemetryOptions, telemetry } from '../../src/index.ts'
import { wrap } from '../../src/trace/wrap.ts'
import type { OpenStore } from '../support/worlds.ts'
import { baggagePropagator, type TelemetryPorts } from './scenarios.ts'

interface TelemetryMutant {
  readonly caughtBy: string
  readonly name: string
  readonly open: TelemetryPorts
}

type StartSpan = Tracer['startSpan']

/** Telemetry with one defect each. */
export function telemetryMutants(openStore: OpenStore): readonly TelemetryMutant[] {
  const mutant = (caughtBy: string, name: string, broken: (options: TelemetryOptions) => Telemetry): TelemetryMutant => ({
    caughtBy,
    name,
    open: { openStore, telemetry: (options = {}) => broken(options) },
  })
  const changed = (caughtBy: string, name: string, change: (real: Telemetry, options: TelemetryOptions) => Partial<Telemetry>) =>
    mutant(caughtBy, name, (options) => {
      const real = telemetry(options)
      return { ...real, ...change(real, options) }
    })
  const spans = (caughtBy: string, name: string, change: (start: StartSpan) => StartSpan) =>
    mutant(caughtBy, name, (options) => telemetry({ ...options, tracerProvider: changedSpans(options.tracerProvider, change) }))
  const withoutEvent = (event: string) => (start: StartSpan) =>
    startedWith(start, (span) => ({ addEvent: (...args) => (args[0] === event ? span : span.addEvent(...args)) }))

  return [
    spans(
      'processing a message is a CONSUMER span with a trace of its own, linked to the span that created the message',
      'spans without links',
      (start) => (name, options, context) => start(name, { ...options, links: [] }, context),
    ),
    mutant(
      "with process: 'parent' the first delivery continues the trace, and a redelivery begins one with a link",
      'the option is ignored',
      (options) => telemetry({ ...options, process: 'link' }),
    ),
    spans('the commit is inside of the span, and is an event of it', 'commits are not reported', withoutEvent('ackord.committed')),
    spans('a duplicate is an event of its span, not an error', 'duplicates are not reported', withoutEvent('ackord.duplicate')),
    spans(
      'a failure has the exception, the status and the type of the error, without secrets; the rollback is an event, and the nack a span',
      'failures have no status',
      (start) => startedWith(start, (span) => ({ setStatus: () => span })),
    ),
    changed(
      'events carry the context of the span that handled the message, not that of the message',
      'events inherit the context of the message',
      ({ middleware }) => ({
        middleware: Object.assign(
          (next: Parameters<typeof middleware>[0]) =>
            middleware((message, context) =>
              next(
                message,
                context.with(outputTraceKey, () => undefined),
              ),
            ),
          {
            role: 'telemetry' as const,
          },
        ),
      }),
    ),
    changed('an event that is appended in a span of the application carries its context', 'append() is not observed', () => ({
      outbox: (outbox) => outbox,
    })),
    changed('a context that is in an event is never changed', 'append() replaces the context', (real) => ({
      outbox: (outbox) => {
        const observed = real.outbox(outbox) as unknown as OutboxWriter<unknown>
        return wrap(observed, {
          append: (transaction, events) =>
            observed.append(
              transaction,
              (Array.isArray(events) ? events : [events]).map((event) =>
                event.withAttributes({ traceparent: undefined, tracestate: undefined }),
              ),
            ),
        }) as never
      },
    })),
    mutant('baggage is not stored unless the propagator writes it', 'baggage is always stored', (options) =>
      telemetry({ ...options, propagator: baggagePropagator }),
    ),
    changed(
      'a publish is one CLIENT span for all its messages, linked to the spans that created them, and has the age of the oldest record',
      'each message has a span of its own',
      (real) => ({
        publisher: (publisher) => oneByOne(real.publisher(publisher)),
      }),
    ),
    spans(
      'a publish has links to at most 128 spans',
      'links are not limited',
      (start) => (name, options, context) => start(name, { ...options, links: repeated(options?.links) }, context),
    ),
    changed(
      'a relay that is started in a span does not belong to it, and neither claims nor empty polls have spans',
      'claims have spans',
      (real, { tracerProvider }) => ({
        outbox: (outbox) => {
          const observed = real.outbox(outbox) as unknown as OutboxStore
          return wrap(observed, {
            claim(options) {
              tracerProvider?.getTracer('mutant').startSpan('claim').end()
              return observed.claim(options)
            },
          }) as never
        },
      }),
    ),
    spans('a refused publish has the error, and what was sent and refused is counted apart', 'failures have no status', (start) =>
      startedWith(start, (span) => ({ setStatus: () => span })),
    ),
    spans(
      'a parked record is a span in the trace that created it',
      'parked records have a trace of their own',
      (start) => (name, options, context) => start(name, options, name.startsWith('park') ? ROOT_CONTEXT : context),
    ),
    mutant('with create: true each event has a span of its own, whose context it carries', 'the option is ignored', (options) =>
      telemetry({ ...options, create: false }),
    ),
    changed(
      'a consumer of the events is linked to the span that created them: one graph from the request to the second service',
      'the context does not reach the broker',
      (real) => ({
        publisher: (publisher) => real.publisher(withoutContext(publisher)),
      }),
    ),
    changed(
      'durations and counts of the conventions are measured in seconds, by destination, without ids',
      'the source is not observed',
      () => ({ source: (source) => source }),
    ),
    changed(
      'metrics of Ackord have kind, unit, buckets and description of the table, and durations are in seconds',
      'durations are not recorded',
      ({ metrics }) => ({
        metrics: { ...metrics, observe() {} },
      }),
    ),
  ]
}

function changedSpans(provider: TracerProvider | undefined, change: (start: StartSpan) => StartSpan): TracerProvider {
  if (provider === undefined) throw new Error('the scenarios pass a provider')
  return {
    getTracer(...args) {
      const tracer = provider.getTracer(...args)
      return wrap(tracer, { startSpan: change(tracer.startSpan.bind(tracer)) })
    },
  }
}

function startedWith(start: StartSpan, change: (span: Span) => Partial<Span>): StartSpan {
  return (...args) => {
    const span = start(...args)
    return wrap(span, change(span))
  }
}

function repeated(links: Link[] | undefined): Link[] {
  return links === undefined || links.length === 0 ? [] : Array.from({ length: 200 }, (_, index) => links[index % links.length] as Link)
}

function oneByOne<P extends Publisher>(publisher: P): P {
  return wrap<Publisher>(publisher, {
    publish: async (destination, messages, options) =>
      (await Promise.all(messages.map((message) => publisher.publish(destination, [message], options)))).flat(),
  }) as P
}

function withoutContext<P extends Publisher>(publisher: P): P {
  return wrap<Publisher>(publisher, {
    publish: (destination, messages, options) =>
      publisher.publish(
        destination,
        messages.map((message) => message.withAttributes({ traceparent: undefined, tracestate: undefined })),
        options,
      ),
  }) as P
}
