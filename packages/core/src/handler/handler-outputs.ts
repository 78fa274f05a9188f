import { AckordError, describeValue } from '../errors.ts'
import type { Attributes, AttributeValue } from '../message/attributes.ts'
import { describeMessage } from '../message/marshal.ts'
import { isMessage, Message, withData } from '../message/message.ts'
import type { Naming } from './naming.ts'

export interface OutputDefaults {
  /** For outputs without a source. */
  readonly source: string | undefined
  /** An output's own attributes take precedence over these. */
  readonly attributes: Attributes
  /** Derives the type of an output that is an instance of a class. */
  readonly naming: Naming
}

const none: readonly Message[] = []

/** Converts the return value of a handler's function to messages. An invalid output is reported by its index and kind, never by its content. */
export function outputsOf(result: unknown, defaults: OutputDefaults, input: Message): readonly Message[] {
  if (result === undefined) return none
  if (!Array.isArray(result)) {
    throw new AckordError(
      'ACKORD_INVALID_OUTPUT',
      `The handler of ${describeMessage(input)} returned ${describeValue(result)}. Return an array of events, also for a single one, or nothing.`,
    )
  }
  // Most handlers return one. Array.from also visits holes, which map() would skip.
  if (result.length === 1) return [outputOf(result[0], 0, defaults, input)]
  return Array.from(result, (output: unknown, index) => outputOf(output, index, defaults, input))
}

function outputOf(output: unknown, index: number, defaults: OutputDefaults, input: Message): Message {
  const message = isMessage(output)
    ? output
    : fromInstance(
        output,
        defaults.naming,
        (problem) => new AckordError('ACKORD_INVALID_OUTPUT', `Output ${index} of the handler of ${describeMessage(input)} ${problem}`),
      )
  return withData(message, message.data, withDefaults(message.attributes, defaults))
}

function withDefaults(own: Attributes, { source: given, attributes: shared }: OutputDefaults): Attributes {
  // An empty source counts as none.
  const source = own.source || given
  if (source === undefined) return withoutUndefined(own, shared, source)
  const attributes: Record<string, AttributeValue | undefined> = { source, ...shared, ...own }
  attributes['source'] = source
  // Attributes set to undefined are ignored.
  for (const name in attributes) if (attributes[name] === undefined) return withoutUndefined(own, shared, source)
  return attributes
}

function withoutUndefined(own: Attributes, shared: Attributes, source: string | undefined): Attributes {
  const attributes: Record<string, AttributeValue | undefined> = { source, ...shared }
  for (const name in own) if (own[name] !== undefined) attributes[name] = own[name]
  // If the handler has no source, the router's applies.
  if (source !== undefined) attributes['source'] = source
  else delete attributes['source']
  return attributes
}

type Invalid = (problem: string) => AckordError

function fromInstance(output: unknown, naming: Naming, invalid: Invalid): Message {
  if (looksLikeMessage(output)) throw invalid('is a message of another copy of @ackord/core. Install a single version.')
  const name = classNameOf(output)
  if (name === undefined) {
    throw invalid(`is ${describeValue(output)}. It must be created by defineEvent() or be an instance of a class.`)
  }
  const type = naming(name)
  if (type === '') throw invalid('is an instance of a class without a name. Name the class, or use defineEvent().')
  return new Message(output, { type })
}

/** `undefined` for values that are not events: plain objects, arrays, errors, built-in objects. */
function classNameOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Error) return undefined
  // Not `value.constructor`: data may have a member of that name.
  const made: unknown = Object.getPrototypeOf(value)?.constructor
  if (typeof made !== 'function' || made.name === 'Object') return undefined
  // A promise, date, map, buffer or URL: its class is the global one of that name.
  return Reflect.get(globalThis, made.name) === made ? undefined : made.name
}

function looksLikeMessage(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return 'data' in value && 'attributes' in value && 'withAttributes' in value && 'ack' in value
}
