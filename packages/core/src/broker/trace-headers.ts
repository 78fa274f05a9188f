import type { Attributes } from '../message/attributes.ts'
import { definedAttributes } from './cloudevents-headers.ts'

// The lengths that W3C Trace Context and W3C Baggage guarantee to be carried on.
const maxTracestate = 512
const maxBaggage = 8192

/**
 * Adds the trace of a message under the names that OpenTelemetry's instrumentations of brokers use: `traceparent`, `tracestate` and `baggage`. For consumers that do not read CloudEvents.
 * Values that are no trace are omitted: a receiver would ignore them, and some brokers allow only printable ASCII here.
 */
export function writeTraceHeaders(headers: Record<string, unknown>, attributes: Attributes): void {
  const { traceparent, tracestate } = attributes
  if (isTraceparent(traceparent)) {
    headers['traceparent'] = traceparent
    if (isHeaderText(tracestate, maxTracestate)) headers['tracestate'] = tracestate
  }
  const baggage = attributes['baggage']
  if (isHeaderText(baggage, maxBaggage)) headers['baggage'] = baggage
}

/**
 * Reads what {@link writeTraceHeaders} and the instrumentations of other clients write, for a message whose attributes have no trace. Attributes win: they have the trace in which the event was
 * created, while an instrumented client replaces the headers by the trace in which it was sent. A `tracestate` belongs to the `traceparent` beside it, so both are read, or neither.
 */
export function readTraceHeaders(attributes: Attributes, get: (header: string) => unknown): Attributes {
  const hasTrace = attributes.traceparent !== undefined || attributes.tracestate !== undefined
  const parent = hasTrace ? undefined : get('traceparent')
  const traceparent = isTraceparent(parent) ? parent : undefined
  const state = traceparent === undefined ? undefined : get('tracestate')
  const items = attributes['baggage'] === undefined ? get('baggage') : undefined
  const baggage = isHeaderText(items, maxBaggage) ? items : undefined
  if (traceparent === undefined && baggage === undefined) return attributes
  const tracestate = isHeaderText(state, maxTracestate) ? state : undefined
  return { ...attributes, ...definedAttributes({ traceparent, tracestate, baggage }) }
}

const traceparentForm = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/

function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && traceparentForm.test(value)
}

// Printable ASCII, without spaces at the ends: clients and proxies remove them.
const headerText = /^[!-~](?:[ -~]*[!-~])?$/

function isHeaderText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength && headerText.test(value)
}
