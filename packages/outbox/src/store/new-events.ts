import {
  AckordError,
  currentContext,
  type Destination,
  jsonMarshaler,
  type Marshaler,
  Message,
  marshal,
  type RawMessage,
  type Runtime,
} from '@ackord/core'
import {
  type CodecChain,
  checkFunction,
  checkName,
  codecChain,
  delayOf,
  describeMessage,
  describeValue,
  destinationOf,
  isMessage,
  outputIdsKey,
  outputTraceKey,
} from '@ackord/core/internal'
import type { CodecOptions } from '@ackord/core/payload'

/** An event with options of its own. */
export interface OutboxEvent {
  /** Default: the `destination` of the outbox. */
  readonly destination?: string | undefined
  /** Bytes are stored unchanged; other data is marshalled. */
  readonly message: Message
  /** Milliseconds before the event may be published, by the store's clock. Default: the delay of the event, `orderPlaced({ … }, { delay })`, or none. */
  readonly delay?: number | undefined
}

/**
 * The argument of `append()`: one event or several, such as `orderPlaced({ … })` of `defineEvent()`. An event without an id, source or time gets one: inside
 * of a handler the id that a handler's output would have, so that handling the message again gives its events the same ids.
 */
export type NewEvents = Message | OutboxEvent | readonly (Message | OutboxEvent)[]

/** An event to be stored. Its id, type, ordering key (`partitionkey`) and content type are the message's own attributes. */
export interface NewOutboxRecord {
  /** The destination that the relay publishes the record to. */
  readonly destination: string
  /** Complete: with id, type and source. The data is stored as bytes, never in JSON columns, so that exactly the marshalled bytes are published. */
  readonly message: RawMessage
  /** Milliseconds before the record may be published, by the store's clock. Default: none. */
  readonly delay?: number | undefined
}

/** The options of an outbox for events that `append()` completes. `codecs` and `codecTimeout`: for the data of events, before they are stored. */
export interface NewEventOptions extends CodecOptions {
  /** The `source` of events that have none, such as `/orders`. Default: none, and `append()` rejects them. */
  readonly source?: string | undefined
  /** Where events are published that name no destination: a fixed destination, or one chosen per event. Default: none, and `append()` rejects them. */
  readonly destination?: Destination | undefined
  /** Converts the data of events to bytes. Default: JSON. */
  readonly marshaler?: Marshaler | undefined
}

/** For stores: what `append()` turns its events into. Throws before anything is stored if one of them cannot be completed. */
export type EventCompleter = (events: NewEvents) => readonly NewOutboxRecord[]

/** `name`: the function that creates the outbox, for error texts. */
export function eventCompleter(name: string, options: NewEventOptions, runtime: Runtime): EventCompleter {
  const { source, destination, marshaler = jsonMarshaler } = options
  if (source !== undefined) checkName('source', source)
  if (destination !== undefined && typeof destination !== 'function') checkName('destination', destination)
  checkFunction('marshaler.marshal', marshaler.marshal)

  const now = () => runtime.now()

  function complete(message: Message): RawMessage {
    const { id, type, source: own, specversion, time } = message.attributes
    // A whole message, with bytes, is stored as it is.
    if (id && type && own && isRaw(message)) return message
    if (!isMessage(message))
      throw incomplete(message, 'an id, a type and a source, and is of another copy of @ackord/core. Install a single version')
    if (!type) throw incomplete(message, "a type. Create the event with defineEvent('order.placed')")
    if (!own && source === undefined) {
      throw incomplete(
        message,
        `a source. Set one for all events, as in ${name}(…, { source: '/orders' }), or in the attributes of the event`,
      )
    }
    const trace = message.attributes.traceparent === undefined ? currentContext()?.get(outputTraceKey)?.(message) : undefined
    const attributes = {
      ...trace,
      id: id || (currentContext()?.get(outputIdsKey)?.(type) ?? runtime.uuid()),
      source: own || source,
      specversion: specversion || '1.0',
      time: time ?? new Date(runtime.now()).toISOString(),
    }
    return marshal(message.withAttributes(attributes), marshaler)
  }

  function record(event: unknown, index: number | undefined): NewOutboxRecord {
    const { destination: own, message, delay }: Partial<OutboxEvent> = isMessageLike(event) ? { message: event } : Object(event)
    if (!isMessageLike(message)) throw noEvent(event, index)
    const completed = complete(message)
    const wait = delay ?? delayOf(message, now)
    // The outbox middleware passes whole records.
    if (own !== undefined && completed === message && wait === delay) return event as NewOutboxRecord
    const to = own ?? (destination === undefined ? undefined : destinationOf(message, destination))
    if (to === undefined) {
      const hint = `Set one for all events, as in ${name}(…, { destination: 'order-events' }), or append { destination, message }`
      throw incomplete(message, `a destination. ${hint}`)
    }
    return { destination: to, message: completed, delay: wait }
  }

  return function completeEvents(events) {
    // Array.from also visits holes, which map() would skip.
    return Array.isArray(events) ? Array.from(events, record) : [record(events, undefined)]
  }
}

/**
 * For stores: applies the codecs of an outbox to records that were completed. Rejects before anything is stored if one of them fails. Calls with the same transaction
 * resolve in their order: events are stored in the order in which they were appended, also if the first is large.
 */
export type RecordEncoder = (records: readonly NewOutboxRecord[], transaction?: object | undefined) => Promise<readonly NewOutboxRecord[]>

/** `undefined` without codecs: `append()` then has nothing to wait for. */
export function recordEncoder(options: CodecOptions, runtime: Runtime): RecordEncoder | undefined {
  const { codecs, codecTimeout } = options
  const chain = codecChain({ codecs, codecTimeout }, runtime)
  if (chain === undefined) return undefined
  const latest = new WeakMap<object, Promise<unknown>>()
  return (records, transaction) => {
    const encoding = encodeRecords(chain, records, currentContext()?.signal)
    if (transaction === undefined) return encoding
    const before = latest.get(transaction)
    const inOrder = before === undefined ? encoding : Promise.allSettled([before, encoding]).then(() => encoding)
    latest.set(transaction, inOrder)
    // The transaction may be a connection, which lives longer than the records.
    const forget = () => {
      if (latest.get(transaction) === inOrder) latest.delete(transaction)
    }
    inOrder.then(forget, forget)
    return inOrder
  }
}

/** The same records with encoded messages. */
export async function encodeRecords(
  codecs: CodecChain,
  records: readonly NewOutboxRecord[],
  signal: AbortSignal | undefined,
): Promise<readonly NewOutboxRecord[]> {
  const messages = await codecs.encodeAll(
    // Codecs copy messages, and so need one of this copy of the package.
    records.map(({ message }) => ownMessage(message)),
    signal,
  )
  return records.map((record, index) => ({ ...record, message: messages[index] ?? record.message }))
}

function ownMessage(message: RawMessage): RawMessage {
  const { data, attributes } = message
  return isMessage(message) ? message : new Message(data, attributes)
}

/** Also one of another copy of the package, which stores accept if it is whole. */
function isMessageLike(value: unknown): value is Message {
  if (isMessage(value)) return true
  const { data, attributes } = Object(value) as Partial<Message>
  return data instanceof Uint8Array && typeof attributes === 'object' && attributes !== null
}

function isRaw(message: Message): message is RawMessage {
  return message.data instanceof Uint8Array
}

function incomplete(message: Message, what: string): AckordError {
  return new AckordError('ACKORD_MISSING_ATTRIBUTE', `Cannot store ${describeMessage(message)} in the outbox: it needs ${what}.`)
}

function noEvent(found: unknown, index: number | undefined): AckordError {
  const which = index === undefined ? 'It got' : `Item ${index} is`
  const text = `append() takes an event, such as orderPlaced({ … }) of defineEvent(), { destination, message }, or an array of these. ${which} ${describeValue(found)}.`
  return new AckordError('ACKORD_INVALID_OUTPUT', text)
}
