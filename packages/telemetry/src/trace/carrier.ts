import type { Attributes, Message } from '@ackord/core'
import type { TraceAttributes } from '@ackord/core/internal'
import { type Context, ROOT_CONTEXT, type SpanContext, type TextMapGetter, type TextMapPropagator, trace } from '@opentelemetry/api'

/** Reads and writes the trace of a message: its attributes are the carrier, on the wire and in the outbox. */
export class Carrier {
  readonly #propagator: TextMapPropagator<unknown>

  constructor(propagator: TextMapPropagator<unknown>) {
    this.#propagator = propagator
  }

  /** The context in which the message was created: the root context if it has none, or none that can be read. */
  contextOf(attributes: Attributes): Context {
    // Most propagators read nothing else; the check saves the rest for messages without a trace.
    return this.#propagator.extract(ROOT_CONTEXT, attributes, getter)
  }

  creationContext(attributes: Attributes): SpanContext | undefined {
    return trace.getSpanContext(this.contextOf(attributes))
  }

  /** The attributes that carry this context; `undefined` without a valid span in it. */
  attributesOf(context: Context): TraceAttributes | undefined {
    const written: Record<string, string> = {}
    this.#propagator.inject(context, written, { set: setAttribute })
    return Object.keys(written).length === 0 ? undefined : written
  }
}

/** A context that is in a message is never changed: it says where the message was created. */
export function withTrace<T>(message: Message<T>, carried: TraceAttributes | undefined): Message<T> {
  if (carried === undefined || message.attributes.traceparent !== undefined) return message
  return message.withAttributes({ ...carried, ...message.attributes })
}

const getter: TextMapGetter<unknown> = {
  keys: (carrier) => Object.keys(carrier as Attributes),
  get(carrier, key) {
    const value = (carrier as Attributes)[key]
    return typeof value === 'string' ? value : undefined
  },
}

// The names that CloudEvents allows; headers such as `x-b3-traceid` have no attribute.
const attributeName = /^[a-z0-9]+$/

function setAttribute(carrier: unknown, name: string, value: string): void {
  if (attributeName.test(name)) (carrier as Record<string, string>)[name] = value
}
