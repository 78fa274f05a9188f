import { type Publisher, type PublishOptions, type PublishResult, type RawMessage, systemRuntime } from '@ackord/core'
import { context as activeContext, type Context, type Link, type SpanContext, SpanKind, trace } from '@opentelemetry/api'
import { attribute, ownAttribute } from '../conventions.ts'
import { withTrace } from './carrier.ts'
import { type Operation, Operations } from './operations.ts'
import { errorType, recordFailure, type Tracing } from './tracing.ts'
import { wrap } from './wrap.ts'

/** A span with thousands of links is of no use, and exporters drop what is beyond 128. */
const maxLinks = 128

interface Failed {
  readonly error: unknown
  readonly count: number
}

/** One span per call of `publish()`, linked to the spans that created its messages. Messages without a trace get that of the span. */
export function tracedPublisher<P extends Publisher>(publisher: P, tracing: Tracing): P {
  const { tracer, carrier, metrics } = tracing
  const operations = new Operations('send', 'send')

  async function publish(destination: string, messages: readonly RawMessage[], options: PublishOptions): Promise<readonly PublishResult[]> {
    const operation = operations.on(destination, publisher)
    const startedAt = systemRuntime.monotonic()
    let failed: Failed | undefined
    try {
      const results = tracing.isOn()
        ? await traced(operation, destination, messages, options)
        : await publisher.publish(destination, messages, options)
      failed = failureOf(results)
      return results
    } catch (error) {
      failed = { error, count: messages.length }
      throw error
    } finally {
      measure(operation, { seconds: (systemRuntime.monotonic() - startedAt) / 1000, count: messages.length, failed })
    }
  }

  async function traced(operation: Operation, destination: string, messages: readonly RawMessage[], options: PublishOptions) {
    const parent = activeContext.active()
    const creations = messages.map(({ attributes }) => carrier.creationContext(attributes))
    // The context of the messages is another one: this span only transports them.
    const kind = creations.some((creation) => creation !== undefined) ? SpanKind.CLIENT : SpanKind.PRODUCER
    const { oldestAge } = options
    const [only] = messages
    const attributes = { ...operation.attributes }
    if (messages.length > 1) attributes[attribute.batchCount] = messages.length
    else if (only?.id !== undefined) attributes[attribute.messageId] = only.id
    if (oldestAge !== undefined) attributes[ownAttribute.oldestAge] = oldestAge / 1000
    const span = tracer.startSpan(operation.spanName, { kind, attributes, links: linksTo(creations, parent) }, parent)
    const inside = trace.setSpan(parent, span)
    const carried = creations.includes(undefined) ? carrier.attributesOf(inside) : undefined
    const sent = carried === undefined ? messages : messages.map((message) => withTrace(message, carried))
    try {
      const results = await activeContext.with(inside, () => publisher.publish(destination, sent, options))
      const failed = failureOf(results)
      if (failed !== undefined) {
        recordFailure(span, failed.error)
        span.setAttribute(ownAttribute.failedCount, failed.count)
      }
      return results
    } catch (error) {
      recordFailure(span, error)
      throw error
    } finally {
      span.end()
    }
  }

  function measure(
    { attributes }: Operation,
    { seconds, count, failed }: { seconds: number; count: number; failed: Failed | undefined },
  ): void {
    if (!metrics.isOn()) return
    const ok = count - (failed?.count ?? 0)
    if (ok > 0) metrics.count('sentMessages', ok, attributes)
    const withError = failed === undefined ? attributes : { ...attributes, [attribute.errorType]: errorType(failed.error) }
    if (failed !== undefined) metrics.count('sentMessages', failed.count, withError)
    metrics.duration('operationDuration', seconds, withError)
  }

  return wrap<Publisher>(publisher, { publish }) as P
}

function failureOf(results: readonly PublishResult[]): Failed | undefined {
  let first: { readonly error: unknown } | undefined
  let count = 0
  for (const result of results) {
    if (result.ok) continue
    first ??= { error: result.error }
    count += 1
  }
  return first === undefined ? undefined : { error: first.error, count }
}

/** Distinct, and without the span that the send is a child of anyway. */
function linksTo(creations: readonly (SpanContext | undefined)[], parent: Context): Link[] {
  const own = trace.getSpanContext(parent)?.spanId
  const links = new Map<string, Link>()
  for (const creation of creations) {
    if (links.size === maxLinks) break
    if (creation !== undefined && creation.spanId !== own) links.set(`${creation.traceId}${creation.spanId}`, { context: creation })
  }
  return [...links.values()]
}
