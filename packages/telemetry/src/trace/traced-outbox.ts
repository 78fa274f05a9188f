import { Message } from '@ackord/core'
import type { NewEvents, OutboxEvent, OutboxWriter } from '@ackord/outbox'
import { context as activeContext, trace } from '@opentelemetry/api'
import { withTrace } from './carrier.ts'
import { createSpan } from './create-span.ts'
import { tracingOfStores } from './span-events.ts'
import type { Tracing } from './tracing.ts'
import { wrap } from './wrap.ts'

/**
 * Events that are appended while a span is active, as in an HTTP handler, carry its context, unless they have one. A relay that is given the wrapped outbox also reports
 * parked records as spans.
 */
export function tracedOutbox<Outbox extends object>(outbox: Outbox, tracing: Tracing): Outbox {
  const writer = outbox as Partial<OutboxWriter<unknown>>

  function append(transaction: unknown, events: NewEvents): Promise<void> {
    return (writer as OutboxWriter<unknown>).append(transaction, traced(events))
  }

  function traced(events: NewEvents): NewEvents {
    if (!tracing.isOn()) return events
    const active = activeContext.active()
    if (trace.getSpanContext(active) === undefined) return events
    const carried = tracing.create ? undefined : tracing.carrier.attributesOf(active)
    const one = (message: Message) =>
      message.attributes.traceparent === undefined ? withTrace(message, carried ?? createSpan(tracing, message, active)) : message
    // Anything else is rejected by append() itself, with an error that says what to pass.
    const each = (event: Message | OutboxEvent): Message | OutboxEvent => {
      if (event instanceof Message) return one(event)
      return event?.message instanceof Message ? { ...event, message: one(event.message) } : event
    }
    return Array.isArray(events) ? events.map(each) : each(events as Message | OutboxEvent)
  }

  const wrapped = wrap<Partial<OutboxWriter<unknown>>>(writer, writer.append === undefined ? {} : { append })
  tracingOfStores.set(wrapped, tracing)
  return wrapped as Outbox
}
