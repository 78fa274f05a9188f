import { isAckordError, toError } from '@ackord/core'
import { messageOf, redactError } from '@ackord/core/internal'
import { ProxyTracerProvider, type Span, SpanStatusCode, type Tracer, type TracerProvider, trace } from '@opentelemetry/api'
import { attribute } from '../conventions.ts'
import type { MessagingMetrics } from '../metrics/messaging-metrics.ts'
import { scope, version } from '../version.ts'
import type { Carrier } from './carrier.ts'

/** The tools that all parts of the tracing share. */
export interface Tracing {
  readonly tracer: Tracer
  readonly carrier: Carrier
  readonly metrics: MessagingMetrics
  /** Whether each event gets a span of its own when it is created. */
  readonly create: boolean
  /** Whether there is an SDK that could record spans. Without one, nothing is done for them. */
  readonly isOn: () => boolean
}

/** The global provider may get its SDK later. */
export function tracerOf(given: TracerProvider | undefined): Pick<Tracing, 'tracer' | 'isOn'> {
  const tracer = (given ?? trace).getTracer(scope, version)
  let found = given !== undefined
  const isOn = () => {
    if (!found) {
      const provider = trace.getTracerProvider()
      found = !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer(scope, version) !== undefined
    }
    return found
  }
  return { tracer, isOn }
}

/** A low-cardinality name of the error: its code, or its class. */
export function errorType(error: unknown): string {
  const { code } = Object(error) as { readonly code?: unknown }
  if (isAckordError(error) || (typeof code === 'string' && codePattern.test(code))) return String(code)
  return error instanceof Error ? error.name : '_OTHER'
}

const codePattern = /^[A-Z][A-Z0-9_]{1,60}$/

/** Spans leave the process, so they get the error without secrets and values, as log lines do. */
export function recordFailure(span: Span, thrown: unknown): void {
  span.setAttribute(attribute.errorType, errorType(thrown))
  if (!span.isRecording()) return
  const error = redactError(toError(thrown))
  span.recordException(error)
  span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) })
}
