import { AckordError, describeValue } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { type Attributes, type AttributeValue, checkAttributes } from '../message/attributes.ts'
import type { Context } from '../message/context.ts'
import { attributeInheritance } from '../message/inherited-attributes.ts'
import { describeMessage } from '../message/marshal.ts'
import { isMessage, type Message, withData } from '../message/message.ts'
import { outputIdsKey } from '../message/output-ids.ts'
import { type OutputTrace, outputTraceKey, type TraceAttributes } from '../message/output-trace.ts'
import type { Logger } from '../ports/observability.ts'
import type { Runtime } from '../ports/runtime.ts'

/** Completes outputs: missing id, source, time, specversion, correlation and trace come from the context and the input. */
export type OutputCompleter = (outputs: readonly Message[], input: Message, context: Context) => readonly Message[]

const none: readonly Message[] = []

/**
 * `source` is for outputs whose handler set none. `logger` reports once per name an attribute that is too long to be copied. Throws if an output is
 * not a message, has no type or source, or shares an id with another.
 */
export function outputCompleter(runtime: Runtime, source: string | undefined, logger?: Logger | undefined): OutputCompleter {
  const inherit = attributeInheritance(logger)
  let lastNow = Number.NaN
  let lastTime = ''

  /** Formatting an instant is expensive, and many messages share a millisecond. */
  function timeNow(): string {
    const now = runtime.now()
    if (now !== lastNow) {
      lastNow = now
      lastTime = new Date(now).toISOString()
    }
    return lastTime
  }

  function complete(output: Message, index: number, input: Message, context: Context, trace: OutputTrace | undefined): Message {
    if (!isMessage(output)) throw foreign(output, index, input)
    const existing = output.attributes
    if (existing.type === undefined || existing.type === '') throw invalid(index, input, 'has no type')
    const whole = isComplete(existing, input.attributes, trace !== undefined)
    if (whole && isAllText(existing)) return output
    checkAttributes(existing, () => `output ${index} of ${describeMessage(input)}`)
    if (whole) return output

    const id = existing.id || (context.get(outputIdsKey)?.(existing.type) ?? runtime.uuid())
    // Named before they are spread: see withContentType().
    const attributes: Record<string, AttributeValue | undefined> = { id, source, specversion: '1.0', time: undefined, ...existing }
    attributes['id'] = id
    attributes['source'] ||= source
    attributes['specversion'] ||= '1.0'
    attributes['time'] ??= timeNow()
    if (existing.correlationid === undefined) setIfPresent(attributes, 'correlationid', inherit(input, 'correlationid'))
    if (existing.traceparent === undefined) setTrace(attributes, existing, trace?.(output) ?? inheritedTrace(input))
    if (attributes['source'] === undefined) {
      // Handling the message again would not change it.
      throw invalid(
        index,
        input,
        "has no source. Set one on the handler or the router (`source: '/orders'`; in createService() `eventSource`)",
        { retryable: false },
      )
    }
    return withData(output, output.data, attributes)
  }

  function inheritedTrace(input: Message): TraceAttributes | undefined {
    const traceparent = inherit(input, 'traceparent')
    if (traceparent === undefined) return undefined
    // It belongs to the parent beside it.
    const tracestate = inherit(input, 'tracestate')
    return tracestate === undefined ? { traceparent } : { traceparent, tracestate }
  }

  return function completeOutputs(outputs, input, context) {
    if (!Array.isArray(outputs)) {
      if (outputs === undefined) return none
      throw new AckordError(
        'ACKORD_INVALID_OUTPUT',
        `Handling ${describeMessage(input)} resulted in ${describeValue(outputs)} instead of an array of messages.`,
      )
    }
    const { length } = outputs
    if (length === 0) return none
    const trace = context.get(outputTraceKey)
    if (length === 1) {
      const only = outputs[0] as Message
      const completed = complete(only, 0, input, context, trace)
      return completed === only ? outputs : [completed]
    }
    // Array.from also visits holes, which map() would skip.
    const completed = Array.from(outputs, (output: Message, index) => complete(output, index, input, context, trace))
    checkDistinct(completed, input)
    return completed
  }
}

function setIfPresent(attributes: Record<string, AttributeValue | undefined>, name: string, value: string | undefined): void {
  if (value !== undefined) attributes[name] = value
}

/** A context that the output has itself is never changed. */
function setTrace(attributes: Record<string, AttributeValue | undefined>, existing: Attributes, trace: TraceAttributes | undefined): void {
  for (const name in trace) if (existing[name] === undefined) attributes[name] = trace[name]
}

/** An empty value counts as missing. */
function isComplete(existing: Attributes, input: Attributes, traced: boolean): boolean {
  return (
    isPresent(existing.id) &&
    isPresent(existing.source) &&
    isPresent(existing.specversion) &&
    existing.time !== undefined &&
    (existing.correlationid !== undefined || typeof input.correlationid !== 'string') &&
    (existing.traceparent !== undefined || (!traced && typeof input.traceparent !== 'string'))
  )
}

function isPresent(value: string | undefined): boolean {
  return value !== undefined && value !== ''
}

/** The quick check: a string has the right type. Whether a time is valid is checked where outputs are marshalled. */
function isAllText(attributes: Attributes): boolean {
  for (const name in attributes) if (typeof attributes[name] !== 'string') return false
  return true
}

function checkDistinct(outputs: readonly Message[], input: Message): void {
  const seen = new Map<string, number>()
  outputs.forEach((output, index) => {
    const identity = JSON.stringify([output.source, output.id])
    const before = seen.get(identity)
    if (before !== undefined) {
      throw new AckordError(
        'ACKORD_DUPLICATE_ID',
        `Outputs ${before} and ${index} of ${describeMessage(input)} have the same id '${escapeText(output.id ?? '', 100)}'; the next consumer would drop one as a duplicate.`,
      )
    }
    seen.set(identity, index)
  })
}

function foreign(output: unknown, index: number, input: Message): AckordError {
  const copies = output?.constructor?.name === 'Message' ? ' of another copy of @ackord/core; install a single version' : ''
  return invalid(index, input, `is ${describeValue(output)}${copies}, not a message`)
}

function invalid(index: number, input: Message, problem: string, options?: { readonly retryable: boolean }): AckordError {
  return new AckordError('ACKORD_INVALID_OUTPUT', `Output ${index} of ${describeMessage(input)} ${problem}.`, options)
}
