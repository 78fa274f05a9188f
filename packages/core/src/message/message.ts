import { AckordError, describeValue, InvalidOptionError, isAckordError } from '../errors.ts'
import { type AckCallbacks, Acking, type AckState, forkAcking, type NackOptions, type Settlement } from './acking.ts'
import { type Attributes, parseInstant } from './attributes.ts'
import { type Context, type ContextKey, messageContext } from './context.ts'
import { fromStructured, toStructured } from './structured-json.ts'

export interface MessageOptions {
  /** Implements ack, nack and reject. Default: nothing can be settled, and all three resolve to `false`. */
  readonly acking?: AckCallbacks | undefined
  /** How often the broker has delivered the message, including this delivery. Default: unknown. */
  readonly deliveryCount?: number | undefined
  /** The destination that it was received from: a queue, subject, topic or stream. Its dead letter names it. Default: unknown. */
  readonly origin?: string | undefined
}

/** A message as brokers carry it: bytes and attributes. */
export type RawMessage = Message<Uint8Array>

interface ValueNode {
  readonly key: ContextKey<unknown>
  readonly value: unknown
  readonly next: ValueNode | undefined
}

/** @internal The acking behind a message. */
export let ackingOf: (message: Message) => Acking | undefined

/** When an outbox may publish a message, as `defineEvent()` was told: a number of milliseconds after it is stored, or an instant in milliseconds since the epoch. */
export type Due = { readonly delay: number } | { readonly at: number }

/** @internal */
export let dueOf: (message: Message) => Due | undefined

/** @internal For a new message only. Its copies have it too; messages that inherit its values do not. */
export let setDue: (message: Message, due: Due) => void

/** @internal The same message with other data and the same attributes object, not a copy of it. */
export let withData: <U>(message: Message, data: U, attributes: Attributes) => Message<U>

/** @internal The same message settled through another acking. */
export let withAcking: <T>(message: Message<T>, acking: Acking) => Message<T>

/** @internal Copies the in-process values of another message, unless the message has its own. */
export let inheritValues: (message: Message, from: Message) => void

/** Recognises messages of this copy of the package only; another copy's cannot be settled here. */
export let isMessage: (value: unknown) => value is Message

/** Data, its CloudEvents attributes, and the methods to settle the message at the broker. */
export class Message<T = unknown> {
  readonly data: T
  readonly attributes: Attributes
  readonly deliveryCount: number | undefined
  readonly origin: string | undefined
  #acking: Acking | undefined
  // A linked list that only grows at its head: copies share the tail, and nothing is allocated before the first value.
  #values: ValueNode | undefined
  #due: Due | undefined

  static {
    ackingOf = (message) => message.#acking
    dueOf = (message) => message.#due
    setDue = (message, due) => {
      message.#due = due
    }
    withData = (message, data, attributes) => message.#twin(data, attributes)
    withAcking = (message, acking) => {
      const twin = message.#twin(message.data, message.attributes)
      twin.#acking = acking
      return twin
    }
    inheritValues = (message, from) => {
      message.#values ??= from.#values
    }
    isMessage = (value): value is Message => typeof value === 'object' && value !== null && #acking in value
  }

  constructor(data: T, attributes: Attributes = {}, options: MessageOptions = {}) {
    if (typeof attributes !== 'object' || attributes === null || Array.isArray(attributes)) {
      throw new AckordError(
        'ACKORD_INVALID_ATTRIBUTES',
        `The attributes of a message must be an object of names and values; they are ${describeValue(attributes)}.`,
      )
    }
    this.data = data
    this.attributes = attributes
    this.deliveryCount = options.deliveryCount
    this.origin = options.origin
    this.#acking = options.acking === undefined ? undefined : new Acking(options.acking)
  }

  get id(): string | undefined {
    return text(this.attributes.id)
  }

  get type(): string | undefined {
    return text(this.attributes.type)
  }

  get source(): string | undefined {
    return text(this.attributes.source)
  }

  get specVersion(): string | undefined {
    return text(this.attributes.specversion)
  }

  get subject(): string | undefined {
    return text(this.attributes.subject)
  }

  get dataContentType(): string | undefined {
    return text(this.attributes.datacontenttype)
  }

  get dataSchema(): string | undefined {
    return text(this.attributes.dataschema)
  }

  get partitionKey(): string | undefined {
    return text(this.attributes.partitionkey)
  }

  get correlationId(): string | undefined {
    return text(this.attributes.correlationid)
  }

  /** `undefined` when absent or not an instant. */
  get time(): Date | undefined {
    return parseInstant(this.attributes.time)
  }

  /** `undefined` when absent or not an instant. */
  get expiryTime(): Date | undefined {
    return this.attributes.expirytime === undefined ? undefined : parseInstant(this.attributes.expirytime)
  }

  /** `undefined` for a message without acking. */
  get state(): AckState | undefined {
    return this.#acking?.state
  }

  /** Why the message was nacked or rejected; `undefined` while it is pending, once it is acked, and without acking. */
  get error(): unknown {
    return this.#acking?.error
  }

  /**
   * The final state of the message, once the broker has answered. Never rejects: `failure` is the broker's error. For a message without acking it
   * never resolves.
   */
  get settled(): Promise<Settlement> {
    return this.#acking === undefined ? new Promise(() => {}) : this.#acking.settled
  }

  /**
   * The message was handled. Resolves to `true` if acked now or before, `false` if nacked or rejected before, or without acking. Inside a transaction
   * it takes effect after the commit. Rejects if the broker did not accept it.
   */
  ack(): Promise<boolean> {
    return this.#acking === undefined ? no : this.#acking.ack()
  }

  /** Requests a redelivery. Inside a transaction it also rolls the transaction back. Resolves and rejects as `ack` does. */
  nack(error?: unknown, options?: NackOptions): Promise<boolean> {
    const { retryAfter } = options ?? {}
    if (retryAfter !== undefined && !(retryAfter >= 0 && retryAfter < Infinity)) {
      return Promise.reject(new InvalidOptionError('retryAfter', `must be milliseconds, 0 or more; it is ${retryAfter}.`))
    }
    return this.#acking === undefined ? no : this.#acking.nack(error, options)
  }

  /** Rejects the message permanently: it goes to the source's dead letter. Resolves and rejects as `ack` does. */
  reject(error: unknown): Promise<boolean> {
    return this.#acking === undefined ? no : this.#acking.reject(error)
  }

  /**
   * Attaches an in-process value, visible through `context()`. It is never serialised and does not cross the broker. A later value for a key hides an
   * earlier one.
   */
  withValue<V>(key: ContextKey<V>, value: V): this {
    if (key.callScoped) {
      throw new InvalidOptionError(`withValue(${key.name})`, 'belongs to one call and cannot be attached to a message. Use context.with().')
    }
    this.#values = { key: key as ContextKey<unknown>, value, next: this.#values }
    return this
  }

  /** The in-process value under this key on the message itself. */
  value<V>(key: ContextKey<V>): V | undefined {
    for (let node = this.#values; node !== undefined; node = node.next) {
      // `withValue` stores a value only under a key of its type.
      if (node.key === key) return node.value as V
    }
    return undefined
  }

  /** A copy with these attributes added or replaced; `undefined` removes one. Settling the copy settles this message. */
  withAttributes(more: Attributes): Message<T> {
    const attributes: Record<string, Attributes[string]> = { ...this.attributes, ...more }
    for (const name in more) if (more[name] === undefined) delete attributes[name]
    return this.#twin(this.data, attributes)
  }

  /** A context that exposes this message, its attributes and its values (live), and whose deadline is no later than the message's expiry. */
  context(parent: Context): Context {
    return messageContext(parent, this)
  }

  /** The same message with other data. Settling either settles both. */
  copy<U>(data: U): Message<U> {
    return this.#twin(data, { ...this.attributes })
  }

  /**
   * For fan-out: copies that are settled one by one. This message is acked when all are; the first nack or reject decides. With a count of 0 there is
   * nothing to wait for: it is acked.
   */
  fork(count: number): Message<T>[] {
    if (!Number.isSafeInteger(count) || count < 0) {
      throw new InvalidOptionError('fork(count)', `must be a whole number, 0 or more; it is ${count}.`)
    }
    const acking = this.#acking
    if (count === 0) void acking?.ack()
    const ackings = acking === undefined ? [] : forkAcking(acking, count)
    return Array.from({ length: count }, (_, index) => {
      const twin = this.#twin(this.data, { ...this.attributes })
      twin.#acking = ackings[index]
      return twin
    })
  }

  /** CloudEvents structured form. In-process values and acking are not part of it. */
  toJSON(): unknown {
    return toStructured(this.data, this.attributes)
  }

  #twin<U>(data: U, attributes: Attributes): Message<U> {
    const twin = new Message<U>(data, attributes, { deliveryCount: this.deliveryCount, origin: this.origin })
    twin.#acking = this.#acking
    twin.#values = this.#values
    twin.#due = this.#due
    return twin
  }
}

const no = Promise.resolve(false)

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** Parses a message in CloudEvents structured JSON. Throws `ACKORD_INVALID_MESSAGE` or `ACKORD_INVALID_ATTRIBUTES`, with the name of the invalid member. */
export function parseMessage(input: string | Uint8Array, options: MessageOptions = {}): RawMessage {
  const { data, attributes } = fromStructured(input)
  return new Message(data, attributes, options)
}

/** Whether the same message may succeed later. Only an error with `retryable: false` puts the fault in the message. */
export function isRetryable(error: unknown): boolean {
  return !isAckordError(error) || error.retryable !== false
}

/** For how many milliseconds the error says that a retry is useless: a circuit is open, a broker requested a pause. */
export function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('retryAfter' in error)) return undefined
  return typeof error.retryAfter === 'number' && error.retryAfter >= 0 && error.retryAfter < Infinity ? error.retryAfter : undefined
}

/** Whether the broker has received its answer. A message without acking is never settled. */
export function isSettled(message: Message): boolean {
  return message.state !== undefined && message.state !== 'pending'
}
