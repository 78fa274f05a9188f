import { type Context, createTraceState, isSpanContextValid, type TextMapPropagator, TraceFlags, trace } from '@opentelemetry/api'

const version = '00'
// A later version may append fields, which are ignored.
const traceparentPattern = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:$|-)/
const maxTracestateLength = 512

/**
 * W3C Trace Context without baggage: a message in an outbox lives longer than a request, and is read by more people. Pass OpenTelemetry's own propagators to store baggage
 * as well.
 */
export const w3cPropagator: TextMapPropagator<unknown> = {
  inject(context, carrier, setter) {
    const spanContext = trace.getSpanContext(context)
    if (spanContext === undefined || !isSpanContextValid(spanContext)) return
    const flags = (spanContext.traceFlags & 0xff).toString(16).padStart(2, '0')
    setter.set(carrier, 'traceparent', `${version}-${spanContext.traceId}-${spanContext.spanId}-${flags}`)
    const state = spanContext.traceState?.serialize()
    if (state !== undefined && state !== '' && state.length <= maxTracestateLength) setter.set(carrier, 'tracestate', state)
  },

  extract(context, carrier, getter): Context {
    const parent = text(getter.get(carrier, 'traceparent'))
    const [, traceId, spanId, flags] = (parent === undefined ? undefined : traceparentPattern.exec(parent)) ?? []
    if (traceId === undefined || spanId === undefined || flags === undefined) return context
    const state = text(getter.get(carrier, 'tracestate'))
    const spanContext = {
      traceId,
      spanId,
      traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
      isRemote: true,
      ...(state === undefined || state === '' ? {} : { traceState: createTraceState(state) }),
    }
    return isSpanContextValid(spanContext) ? trace.setSpanContext(context, spanContext) : context
  },

  fields: () => ['traceparent', 'tracestate'],
}

function text(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}
