import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import { type Attributes, type AttributeValue, checkAttributes } from '../message/attributes.ts'
import type { Context } from '../message/context.ts'
import type { EventDefinition } from '../message/define-event.ts'
import { describeMessage } from '../message/marshal.ts'
import { isMessage, Message, withData } from '../message/message.ts'
import { checkSchema, type StandardSchema, validateData } from '../message/schema.ts'
import { checkFunction, checkName } from '../options.ts'
import { type Handler, handleBy } from './handler.ts'
import { asIs, type Naming } from './naming.ts'

/** A class whose name is a message type. */
export type MessageClass<Data extends object = object> = abstract new (...parameters: never[]) => Data

/** Messages created by `defineEvent()` or instances of classes; nothing if there are none. */
export type HandlerResult = readonly object[] | undefined | void

/** May be synchronous. If it throws, the message was not handled. */
export type HandlerFunction<Data> = (data: Data, context: Context) => HandlerResult | Promise<HandlerResult>

/** The input of a handler: a type as a string or as created by `defineEvent()`. */
export interface TextInput<Data> {
  readonly type: string | EventDefinition<Data>
  /** Any Standard Schema. A message that it rejects is rejected, not retried. Default: the event's; without one the data is not validated. */
  readonly schema?: StandardSchema<Data> | undefined
}

/** The input of a handler: instances of a class, whose name determines the type. */
export interface ClassInput<Data extends object> {
  /** Plain objects become instances without running the constructor, so private fields are missing. */
  readonly type: MessageClass<Data>
  /** Any Standard Schema, for the data before it becomes an instance. A message that it rejects is rejected, not retried. Default: any object is accepted. */
  readonly schema?: StandardSchema | undefined
}

export interface HandlerOutputOptions {
  /** For outputs without a source of their own. */
  readonly source?: string | undefined
  /** Added to every output, unless it has its own. Must not contain `id`, `type`, `source`, `specversion` or `time`. Default: none. */
  readonly attributes?: Attributes | undefined
  /** Derives types from class names, of inputs and outputs alike. Default: `asIs`. */
  readonly naming?: Naming | undefined
}

/** Either of the two, without the type of the data. */
export interface AnyInput {
  readonly type: string | MessageClass | Pick<EventDefinition, 'type' | 'schema'>
  readonly schema?: StandardSchema | undefined
}

interface Reader {
  readonly type: string
  readonly schema: StandardSchema | undefined
  /** Converts the validated data to the function's argument. */
  shape(data: unknown, message: Message): unknown
}

/** Calls the function of a handler with the data in its final form. */
type CallFunction = (data: unknown, message: Message, context: Context) => unknown

/** The implementation of all handlers, whose signatures tie the function's parameter to the input. */
export function typedHandler(options: AnyInput & HandlerOutputOptions, work: CallFunction): Handler {
  const { source, attributes = {}, naming = asIs } = options
  checkFunction('naming', naming)
  if (source !== undefined) checkName('source', source)
  checkShared(attributes)
  const { type, schema, shape } = readerOf(options, naming)
  const defaults = { source, attributes: { ...attributes }, naming }

  function call(data: unknown, message: Message, context: Context): Promise<unknown> {
    const result = work(shape(data, message), message, context)
    return result instanceof Promise ? result : Promise.resolve(result)
  }

  const handle = handleBy({
    // Not async, for the reason given at MessageProcessor.handle.
    run(message, context) {
      if (schema !== undefined) return validateData(schema, message).then((data) => call(data, message, context))
      try {
        return call(message.data, message, context)
      } catch (error) {
        return Promise.reject(error)
      }
    },
    outputs: (result, message) => outputsOf(result, defaults, message),
  })
  return { type, handle }
}

function readerOf({ type, schema }: AnyInput, naming: Naming): Reader {
  checkSchema(schema)
  if (typeof type === 'string') return { type: checkName('type', type), schema, shape: same }
  if (isClass(type)) {
    const name = naming(type.name)
    if (name === '') {
      throw new InvalidOptionError('type', 'is a class without a name. Name the class, or pass the type as a string.')
    }
    return { type: name, schema, shape: instancesOf(type) }
  }
  if (typeof type?.type !== 'string') {
    const problem = `must be a string, a class or an event created by defineEvent(); it is ${describeValue(type)}.`
    throw new InvalidOptionError('type', problem)
  }
  if (schema !== undefined && type.schema !== undefined) {
    throw new InvalidOptionError('schema', `is already defined by the event '${type.type}'. Omit it.`)
  }
  return { type: type.type, schema: schema ?? type.schema, shape: same }
}

function same(data: unknown): unknown {
  return data
}

function instancesOf(type: MessageClass): Reader['shape'] {
  return function toInstance(data, message) {
    if (data instanceof type) return data
    if (!isPlainObject(data)) {
      throw new AckordError(
        'ACKORD_WRONG_DATA',
        `The data of ${describeMessage(message)} must be an instance of ${type.name} or a plain object; it is ${describeValue(data)}.`,
        { retryable: false },
      )
    }
    // Descriptors instead of assignment: neither setters nor a member `__proto__` of the payload may run.
    return Object.create(type.prototype, Object.getOwnPropertyDescriptors(data))
  }
}

function isClass(value: unknown): value is MessageClass {
  return typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/** Attributes that distinguish outputs cannot be the same for all of them. */
function checkShared(attributes: Attributes): void {
  for (const name of ['id', 'type', 'source', 'specversion', 'time']) {
    if (attributes[name] === undefined) continue
    const advice = name === 'source' ? 'Use the option `source`.' : 'Every output would get the same one.'
    throw new InvalidOptionError('attributes', `must not contain '${name}'. ${advice}`)
  }
  checkAttributes(attributes, 'the option `attributes`')
}

export interface CommandHandlerOptions extends HandlerOutputOptions {
  /** The CloudEvents source of the events that have none of their own. */
  readonly source: string
}

/**
 * Handles the commands of one type and returns the resulting events. The function contains no messaging code: it calls its ports and returns, and the
 * router does the rest.
 */
export function commandHandler<Data = unknown>(options: CommandHandlerOptions & TextInput<Data>, handle: HandlerFunction<Data>): Handler
export function commandHandler<Data extends object>(
  options: CommandHandlerOptions & ClassInput<Data>,
  handle: HandlerFunction<Data>,
): Handler
export function commandHandler(options: CommandHandlerOptions & AnyInput, handle: HandlerFunction<never>): Handler {
  checkName('source', options.source)
  return typedHandler(options, caller(handle))
}

/** As for `commandHandler()`, but `source` is only required for handlers that return events without one, on a router without one. */
export interface EventHandlerOptions extends HandlerOutputOptions {}

/** Handles the events of one type. It may return events of its own. */
export function eventHandler<Data = unknown>(options: EventHandlerOptions & TextInput<Data>, handle: HandlerFunction<Data>): Handler
export function eventHandler<Data extends object>(options: EventHandlerOptions & ClassInput<Data>, handle: HandlerFunction<Data>): Handler
export function eventHandler(options: EventHandlerOptions & AnyInput, handle: HandlerFunction<never>): Handler {
  return typedHandler(options, caller(handle))
}

function caller(handle: HandlerFunction<never>): CallFunction {
  checkFunction('The function of a handler', handle)
  // The public signatures have checked the type of the function's parameter against the input.
  return (data, _message, context) => handle(data as never, context)
}

interface OutputDefaults {
  /** For outputs without a source. */
  readonly source: string | undefined
  /** An output's own attributes take precedence over these. */
  readonly attributes: Attributes
  /** Derives the type of an output that is an instance of a class. */
  readonly naming: Naming
}

const none: readonly Message[] = []

/** Converts the return value of a handler's function to messages. An invalid output is reported by its index and kind, never by its content. */
function outputsOf(result: unknown, defaults: OutputDefaults, input: Message): readonly Message[] {
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
