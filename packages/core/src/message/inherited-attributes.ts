import { guardLogger, type Logger } from '../ports/observability.ts'
import type { Message } from './message.ts'

type InheritedName = 'correlationid' | 'traceparent' | 'tracestate'

/**
 * The maximum length, in UTF-16 code units, of an attribute that is copied from an input to its outputs. The sender chose it, and a broker may reject
 * longer values, so that an event could never be published. Traces have the limits of W3C Trace Context.
 */
const limits: Readonly<Record<InheritedName, number>> = { correlationid: 1024, traceparent: 55, tracestate: 512 }

/** Returns the value that outputs copy from an input; `undefined` if it is missing, not a string or too long. */
export type AttributeInheritance = (input: Message, name: InheritedName) => string | undefined

/** An attribute that is too long is logged once per name, because a sender may set one on every message. */
export function attributeInheritance(logger?: Logger | undefined): AttributeInheritance {
  const reported = new Set<InheritedName>()
  const guarded = logger === undefined ? undefined : guardLogger(logger)
  return (input, name) => {
    const value = input.attributes[name]
    if (typeof value !== 'string') return undefined
    const limit = limits[name]
    if (value.length <= limit) return value
    if (guarded !== undefined && !reported.has(name)) {
      reported.add(name)
      const fields = { type: input.type, id: input.id, attribute: name, length: value.length, limit }
      guarded.warn(fields, 'An attribute of a message is too long to be copied to its outputs, and is omitted. This is logged once.')
    }
    return undefined
  }
}
