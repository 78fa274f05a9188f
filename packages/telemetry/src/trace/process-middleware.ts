import {
  type Context as AckordContext,
  enter,
  isAckordError,
  type Message,
  type Middleware,
  middleware,
  type Process,
  systemRuntime,
} from '@ackord/core'
import { outputTraceKey, type TraceAttributes } from '@ackord/core/internal'
import { context as activeContext, type Context, type Span, SpanKind, type SpanOptions, trace } from '@opentelemetry/api'
import { attribute, ownAttribute } from '../conventions.ts'
import { withTrace } from './carrier.ts'
import { createSpan } from './create-span.ts'
import { type Operation, Operations } from './operations.ts'
import { type Processing, processingOf, setProcessing } from './processing.ts'
import { followMessages } from './span-events.ts'
import { errorType, recordFailure, type Tracing } from './tracing.ts'

export type ProcessRelation = 'link' | 'parent'

/**
 * A CONSUMER span around everything inside of it, the commit included. With `link` it is the root of a trace of its own, linked to the span that created the message. With
 * `parent` it continues that trace at the first delivery; from the second on it has a trace of its own, so that a retry after hours does not lengthen the first one.
 */
export function processMiddleware(tracing: Tracing, relation: ProcessRelation): Middleware {
  const { tracer, carrier, metrics } = tracing
  const operations = new Operations('process', 'process')

  function start(message: Message, operation: Operation): { readonly span: Span; readonly parent: Context } {
    const { attributes: carried, id, type, deliveryCount } = message
    const created = carrier.contextOf(carried)
    const creation = trace.getSpanContext(created)
    const continues = creation !== undefined && relation === 'parent' && (deliveryCount ?? 1) <= 1
    // A trace of its own may still carry the rest of the context, such as baggage.
    const parent = creation === undefined || continues ? created : trace.deleteSpan(created)
    const attributes = { ...operation.attributes }
    if (id !== undefined) attributes[attribute.messageId] = id
    if (type !== undefined) attributes[ownAttribute.messageType] = type
    if (deliveryCount !== undefined) attributes[ownAttribute.deliveryCount] = deliveryCount
    const options: SpanOptions = { kind: SpanKind.CONSUMER, attributes }
    if (creation !== undefined && !continues) options.links = [{ context: creation }]
    return { span: tracer.startSpan(operation.spanName, options, parent), parent }
  }

  function measure(startedAt: number, { attributes }: Operation, failure: unknown): void {
    const seconds = (systemRuntime.monotonic() - startedAt) / 1000
    metrics.duration(
      'processDuration',
      seconds,
      failure === undefined ? attributes : { ...attributes, [attribute.errorType]: errorType(failure) },
    )
  }

  async function measured(next: Process, message: Message, context: AckordContext): Promise<readonly Message[]> {
    const operation = operations.on(message.origin, processingOf(message)?.broker)
    const startedAt = systemRuntime.monotonic()
    let failure: unknown
    try {
      return await next(message, context)
    } catch (error) {
      failure = error
      throw error
    } finally {
      measure(startedAt, operation, failure)
    }
  }

  // No async/await: this is the path of every message, and each promise costs more with a context manager.
  function traced(next: Process, message: Message, context: AckordContext): Promise<readonly Message[]> {
    followMessages()
    const broker = processingOf(message)?.broker
    const operation = operations.on(message.origin, broker)
    const { span, parent } = start(message, operation)
    const processing: Processing = { broker, tracing, span, endedAt: undefined }
    setProcessing(message, processing)
    const active = trace.setSpan(parent, span)
    // The same for all outputs, unless each of them gets a span of its own.
    let carried: TraceAttributes | undefined
    const outputTrace = (output: Message) => {
      if (tracing.create) return createSpan(tracing, output, active)
      carried ??= carrier.attributesOf(active)
      return carried
    }
    const inside = context.with(outputTraceKey, outputTrace)
    const startedAt = systemRuntime.monotonic()
    const end = (failure: unknown) => {
      span.end()
      processing.endedAt = { monotonic: systemRuntime.monotonic(), wall: systemRuntime.now() }
      measure(startedAt, operation, failure)
    }
    const succeed = (outputs: readonly Message[]) => {
      end(undefined)
      // Middleware may have added some after the outputs of the handler were completed.
      return Array.isArray(outputs) && outputs.some(({ attributes }) => attributes?.traceparent === undefined)
        ? outputs.map((output) => withTrace(output, outputTrace(output)))
        : outputs
    }
    const fail = (error: unknown): never => {
      // Another worker has the message: that is no failure of this one.
      const isBusy = isAckordError(error, 'ACKORD_INBOX_BUSY')
      if (isBusy) span.addEvent('ackord.busy')
      else recordFailure(span, error)
      end(isBusy ? undefined : error)
      throw error
    }
    try {
      return activeContext.with(active, () => enter(inside, () => next(message, inside))).then(succeed, fail)
    } catch (error) {
      return Promise.resolve().then(() => fail(error))
    }
  }

  return middleware({ role: 'telemetry' }, (next) => (message, context) => {
    if (tracing.isOn()) return traced(next, message, context)
    return metrics.isOn() ? measured(next, message, context) : next(message, context)
  })
}
