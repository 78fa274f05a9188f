import { AckordError, causesOf, describeValue, toError } from '../errors.ts'
import type { Attributes } from '../message/attributes.ts'
import { type Context, type ContextKey, contextKey } from '../message/context.ts'
import { describeMessage } from '../message/marshal.ts'
import { isRetryable, type Message } from '../message/message.ts'
import { messageOf } from '../ports/redact.ts'

/** How the messages of a batch handler are gathered. */
export interface BatchSettings {
  /** The maximum number of messages in a batch. */
  readonly size: number
  /** Milliseconds for which the first message of a batch waits for others. */
  readonly wait: number
  /** The maximum number of concurrent batches. */
  readonly batches: number
}

/** A message of a batch. */
export interface BatchMessage<Data> {
  /** Validated, as the first parameter of other handlers. */
  readonly data: Data
  /** `undefined` only where the inbox identifies messages by something else. */
  readonly id: string | undefined
  readonly source: string | undefined
  readonly attributes: Attributes
  /**
   * Creates the error that names this message as the reason why the batch fails: `throw message.failed(new RejectError('…'))`. The batch is rolled
   * back; the message is handled alone, where `reason` decides what happens to it if the function names it again, and the others again as a batch.
   * To name several messages, throw an `AggregateError` of them.
   */
  failed(reason: unknown): Error
}

/** @internal One message of a batch, without the type of its data. */
export class BatchItem implements BatchMessage<unknown> {
  readonly data: unknown
  readonly #message: Message

  constructor(data: unknown, message: Message) {
    this.data = data
    this.#message = message
  }

  get id(): string | undefined {
    return this.#message.id
  }

  get source(): string | undefined {
    return this.#message.source
  }

  get attributes(): Attributes {
    return this.#message.attributes
  }

  failed(reason: unknown): Error {
    return new BatchMessageError(this, this.#message, toError(reason))
  }
}

/** Names the message that a batch failed because of. */
class BatchMessageError extends AckordError {
  static {
    this.prototype.name = 'BatchMessageError'
  }

  // Private, so that a logger that prints errors with their properties does not print the data.
  readonly #item: BatchItem

  static itemOf(error: unknown): BatchItem | undefined {
    return typeof error === 'object' && error !== null && #item in error ? error.#item : undefined
  }

  constructor(item: BatchItem, message: Message, cause: Error) {
    const text = `The batch handler reported that ${describeMessage(message)} failed: ${messageOf(cause)}`
    super('ACKORD_BATCH_MESSAGE_FAILED', text, { cause, retryable: isRetryable(cause) })
    this.#item = item
  }
}

/** @internal The messages that an error names, also where it is wrapped, and why each of them failed. */
export function failedItems(error: unknown): ReadonlyMap<BatchItem, unknown> {
  const failed = new Map<BatchItem, unknown>()
  for (const cause of causesOf(error, { aggregated: true })) {
    const item = BatchMessageError.itemOf(cause)
    if (item !== undefined && !failed.has(item)) failed.set(item, (cause as Error).cause)
  }
  return failed
}

/**
 * @internal Calls the function of a batch handler. Resolves to the result of each message; a message without one has no outputs. Rejects if the function
 * fails, or returns results that belong to no message of the batch.
 */
export type BatchCall = (items: readonly BatchItem[], context: Context) => Promise<ReadonlyMap<BatchItem, unknown>>

/** @internal Checks what the function of a batch handler returned. The events of a message are checked later, like those of other handlers. */
export function batchResults(returned: unknown, items: readonly BatchItem[]): ReadonlyMap<BatchItem, unknown> {
  if (returned === undefined) return new Map()
  if (!(returned instanceof Map)) {
    throw invalidResult(`returned ${describeValue(returned)}. Return a Map from messages of the batch to arrays of events, or nothing.`)
  }
  const known = new Set<unknown>(items)
  for (const key of returned.keys()) {
    if (known.has(key)) continue
    const found = key instanceof BatchItem ? 'a message of another batch' : describeValue(key)
    throw invalidResult(`returned a Map with the key ${found}. The keys must be messages of the batch, as the function received them.`)
  }
  return returned
}

function invalidResult(problem: string): AckordError {
  return new AckordError('ACKORD_INVALID_OUTPUT', `A batch handler ${problem}`)
}

/**
 * @internal The part of a message in the one call of its batch. Middleware that gathers messages puts it into the context of each of them; without it
 * a batch handler is called with the message alone.
 */
export interface BatchSeat {
  /**
   * Called by the handler, once. Resolves to the message's own result when all messages of the batch have arrived here and `call` was called with
   * them; rejects if the batch fails.
   */
  arrive(call: BatchCall, item: BatchItem, context: Context): Promise<unknown>
}

export const batchSeatKey: ContextKey<BatchSeat> = contextKey('ackord.batchSeat', { callScoped: true })

/** @internal The batch handlers of a router, in the context of each of its messages. */
export interface RouterBatches {
  /** By message type. */
  readonly handlers: ReadonlyMap<string, BatchSettings>
  /** Aborted when the router stops: messages no longer wait until a batch is full. */
  readonly stopping: AbortSignal
  /** The context of the router, without any message: a batch has a context of its own. */
  readonly root: Context
}

export const routerBatchesKey: ContextKey<RouterBatches> = contextKey('ackord.routerBatches', { callScoped: true })
