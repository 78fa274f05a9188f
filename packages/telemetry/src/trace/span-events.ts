import { subscribe } from 'node:diagnostics_channel'
import { type AckState, type Message, systemRuntime } from '@ackord/core'
import { channels, relayChannel } from '@ackord/core/internal'
import type { RelayEvent } from '@ackord/outbox'
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { attribute, ownAttribute } from '../conventions.ts'
import { Operations } from './operations.ts'
import { processingOf } from './processing.ts'
import { errorType, recordFailure, type Tracing } from './tracing.ts'

/** The stores whose relays report parked records, by the wrapped store. */
export const tracingOfStores: WeakMap<object, Tracing> = new WeakMap()

let followsRelays = false
let followsMessages = false

/** Turns what relays announce into spans. One subscription serves all objects of this module; each event belongs to one of them. */
export function followRelays(): void {
  if (followsRelays) return
  followsRelays = true
  subscribe(relayChannel('parked').name, (event) => parked(event as ParkedEvent))
}

/** Turns what inbox, transaction and router announce about each message into span events and spans. Called when there is a span: without an SDK nothing is announced. */
export function followMessages(): void {
  if (followsMessages) return
  followsMessages = true
  subscribe(channels.duplicate.name, (event) => {
    const { message, consumer } = event as { readonly message: Message; readonly consumer: string }
    processingOf(message)?.span?.addEvent('ackord.duplicate', { [attribute.consumerGroup]: consumer })
  })
  subscribe(channels.transaction.name, (event) => {
    const { message, outcome } = event as { readonly message: Message | undefined; readonly outcome: keyof typeof outcomeEvents }
    if (message !== undefined) processingOf(message)?.span?.addEvent(outcomeEvents[outcome])
  })
  subscribe(channels.settled.name, (event) => settled(event as SettledEvent))
}

const outcomeEvents = { committed: 'ackord.committed', rolledBack: 'ackord.rolled_back', unknown: 'ackord.commit_unknown' } as const

interface SettledEvent {
  readonly message: Message
  readonly verdict: AckState
  readonly failure: unknown
}

const settlements: Readonly<Partial<Record<AckState, Operations>>> = {
  acked: new Operations('ack', 'settle'),
  nacked: new Operations('nack', 'settle'),
  rejected: new Operations('reject', 'settle'),
}
const parkings = new Operations('park', 'settle')

/** Acks have neither span nor metric: there is one for every message, and it says nothing. Nacks and rejects have both, and so has what the broker did not accept. */
function settled({ message, verdict, failure }: SettledEvent): void {
  if (verdict === 'acked' && failure === undefined) return
  const { tracing, span: parent, broker, endedAt } = processingOf(message) ?? {}
  const operation = settlements[verdict]?.on(message.origin, broker)
  if (tracing === undefined || parent === undefined || endedAt === undefined || operation === undefined) return
  const duration = systemRuntime.monotonic() - endedAt.monotonic
  const attributes = { ...operation.attributes, ...(message.id === undefined ? {} : { [attribute.messageId]: message.id }) }
  const options = { kind: SpanKind.CLIENT, attributes, startTime: endedAt.wall }
  const span = tracing.tracer.startSpan(operation.spanName, options, trace.setSpan(ROOT_CONTEXT, parent))
  if (failure !== undefined) recordFailure(span, failure)
  span.end(endedAt.wall + duration)
  const measured = failure === undefined ? operation.attributes : { ...operation.attributes, [attribute.errorType]: errorType(failure) }
  tracing.metrics.duration('operationDuration', duration / 1000, measured)
}

type ParkedEvent = Extract<RelayEvent, { type: 'parked' }> & { readonly store: object }

/** A parked record is visible in the trace that created it, although its sends belong to others. */
function parked({ store, record, error, reason }: ParkedEvent): void {
  const tracing = tracingOfStores.get(store)
  if (tracing?.isOn() !== true) return
  const { message, attempts, destination } = record
  const operation = parkings.on(destination, undefined)
  const attributes = {
    ...operation.attributes,
    ...(message.id === undefined ? {} : { [attribute.messageId]: message.id }),
    [ownAttribute.attempts]: attempts,
    [ownAttribute.parkReason]: reason,
  }
  // A child, not a link: the trace of the event shows its outcome.
  const parent = tracing.carrier.contextOf(message.attributes)
  const span = tracing.tracer.startSpan(operation.spanName, { kind: SpanKind.INTERNAL, attributes }, parent)
  if (error === undefined) span.setStatus({ code: SpanStatusCode.ERROR })
  else recordFailure(span, error)
  span.end()
}
