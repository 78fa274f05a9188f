import { type ContextKey, contextKey } from './context.ts'
import type { Message } from './message.ts'

/** The attributes that carry a trace: `traceparent`, `tracestate`, and whatever else a propagator writes. */
export type TraceAttributes = Readonly<Record<string, string>>

/** Returns the trace that an output without a `traceparent` gets. */
export type OutputTrace = (output: Message) => TraceAttributes | undefined

/** Set by telemetry, so that outputs continue the trace of the span that creates them. Without it they have the trace of their input. */
export const outputTraceKey: ContextKey<OutputTrace> = contextKey('ackord.outputTrace', { callScoped: true })
