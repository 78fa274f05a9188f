import type { Message } from '@ackord/core'
import type { TraceAttributes } from '@ackord/core/internal'
import { type Context, SpanKind, trace } from '@opentelemetry/api'
import { attribute, ownAttribute } from '../conventions.ts'
import { Operations } from './operations.ts'
import type { Tracing } from './tracing.ts'

const { attributes: common } = new Operations('create', 'create').on(undefined, undefined)

/** A PRODUCER span for the creation of one event, whose context the event carries. It is named after the type: the destination is not known yet. */
export function createSpan({ tracer, carrier }: Tracing, event: Message, parent: Context): TraceAttributes | undefined {
  const { type, id } = event
  const attributes = {
    ...common,
    ...(type === undefined ? {} : { [ownAttribute.messageType]: type }),
    ...(id === undefined ? {} : { [attribute.messageId]: id }),
  }
  const span = tracer.startSpan(type === undefined ? 'create' : `create ${type}`, { kind: SpanKind.PRODUCER, attributes }, parent)
  span.end()
  return carrier.attributesOf(trace.setSpan(parent, span))
}
