import type { Context } from '../message/context.ts'
import { checkCount, checkDuration, checkFunction, rejectUnknownOptions } from '../options.ts'
import { type BatchCall, BatchItem, type BatchMessage, type BatchSettings, batchResults, batchSeatKey, failedItems } from './batch.ts'
import type { Handler } from './handler.ts'
import { type AnyInput, type ClassInput, type HandlerOutputOptions, type TextInput, typedHandler } from './typed-handler.ts'

export interface BatchHandlerOptions extends HandlerOutputOptions {
  /** The maximum number of messages in a batch. The router's `concurrency` must be at least as high. */
  readonly size: number
  /**
   * Milliseconds for which the first message of a batch waits for others. A full batch starts at once; while the maximum number of batches is running,
   * messages also wait for one of these to end.
   */
  readonly wait: number
  /** The maximum number of concurrent batches of this type; each uses a connection. Default: 1. */
  readonly batches?: number | undefined
}

/** The events of each message that has any, or nothing. */
export type BatchResult<Data> = ReadonlyMap<BatchMessage<Data>, readonly object[] | undefined> | undefined | void

/** May be synchronous. If it throws, the batch was not handled. `context` is that of the batch: it has no message. */
export type BatchFunction<Data> = (
  messages: readonly BatchMessage<Data>[],
  context: Context,
) => BatchResult<Data> | Promise<BatchResult<Data>>

/** The same without the type of the data. */
type AnyBatchFunction = (messages: readonly BatchMessage<never>[], context: Context) => unknown

/**
 * Handles messages of one type together: the function is called with up to `size` of them, in one transaction, without duplicates. Requires
 * `transactional()` of `@ackord/sql`. A batch that fails is rolled back, and the message at fault is found and handled alone, so that the outcome is
 * the same as if each message was handled alone; effects outside of the database may happen more than once.
 *
 *     batchHandler({ type: orderPlaced, size: 50, wait: 100 }, async (messages) => {
 *       await insertOrders(messages.map(({ data }) => data))
 *     })
 */
export function batchHandler<Data = unknown>(options: BatchHandlerOptions & TextInput<Data>, handle: BatchFunction<Data>): Handler
export function batchHandler<Data extends object>(options: BatchHandlerOptions & ClassInput<Data>, handle: BatchFunction<Data>): Handler
export function batchHandler(options: BatchHandlerOptions & AnyInput, handle: AnyBatchFunction): Handler {
  const { size, wait, batches = 1, type: accepted, schema, source, attributes, naming, ...unknown } = options
  rejectUnknownOptions('batchHandler()', unknown)
  const batch: BatchSettings = {
    size: checkCount('size', size, { min: 2 }),
    wait: checkDuration('wait', wait),
    batches: checkCount('batches', batches),
  }
  checkFunction('The function of a handler', handle)

  const call: BatchCall = async (items, context) => {
    // The public signatures have checked the type of the data against the input.
    const returned: unknown = await handle([...items] as readonly object[] as readonly BatchMessage<never>[], context)
    return batchResults(returned, items)
  }

  /** The error that the function gave as the reason decides what happens to the message. */
  async function callAlone(item: BatchItem, context: Context): Promise<unknown> {
    try {
      return (await call([item], context)).get(item)
    } catch (error) {
      const failed = failedItems(error)
      throw failed.has(item) ? failed.get(item) : error
    }
  }

  const { type, handle: handleOne } = typedHandler({ type: accepted, schema, source, attributes, naming }, (data, message, context) => {
    const item = new BatchItem(data, message)
    const seat = context.get(batchSeatKey)
    return seat === undefined ? callAlone(item, context) : seat.arrive(call, item, context)
  })
  return { type, handle: handleOne, batch }
}
