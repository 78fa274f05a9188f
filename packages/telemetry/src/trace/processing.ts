import type { BrokerAddress, Message } from '@ackord/core'
import { ackingOf } from '@ackord/core/internal'
import type { Span } from '@opentelemetry/api'
import type { Tracing } from './tracing.ts'

/** The origin and trace of a message: the source that delivered it, and the span of its processing. */
export interface Processing {
  readonly broker: BrokerAddress | undefined
  readonly tracing?: Tracing | undefined
  readonly span?: Span | undefined
  /** Milliseconds by the monotonic clock, and by the wall clock. Set when the span has ended. */
  endedAt?: { readonly monotonic: number; readonly wall: number } | undefined
}

// Messages without acking are the exception: tests, and outputs.
const withoutAcking = new WeakMap<Message, Processing>()

export function processingOf(message: Message): Processing | undefined {
  // All forms of a message share its acking: as bytes, decoded, changed by middleware.
  const acking = ackingOf(message)
  return acking === undefined ? withoutAcking.get(message) : (acking.note as Processing | undefined)
}

export function setProcessing(message: Message, processing: Processing): void {
  const acking = ackingOf(message)
  if (acking === undefined) withoutAcking.set(message, processing)
  else acking.note = processing
}
