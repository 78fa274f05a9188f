import { AckordError, type Attributes } from '@ackord/core'
import type { SingleMessageHandler } from '@ackord/core/broker'
import { checkFunction, describeValue, groupBy, type InvocationOutcome, Invocations, type InvokedMessage } from '@ackord/core/internal'
import { isFifo } from '../fifo.ts'
import { foreignAttributes, readMessage, type SqsMessage, sqsMessage } from '../source/read-message.ts'
import { type LambdaContext, type LambdaOptions, lambdaTime } from './lambda-time.ts'

/** A message in the event of a function that SQS invokes. */
export interface SqsEventRecord {
  readonly messageId: string
  readonly body: string
  /** System attributes, such as `ApproximateReceiveCount`, `SentTimestamp` and `MessageGroupId`. */
  readonly attributes: Readonly<Partial<Record<string, string>>>
  readonly messageAttributes: Readonly<
    Record<string, { readonly dataType?: string | undefined; readonly stringValue?: string | undefined }>
  >
  /** The ARN of the queue. */
  readonly eventSourceARN: string
}

export interface SqsEvent {
  readonly Records: readonly SqsEventRecord[]
}

/** The answer with which SQS deletes all messages of the batch except these. */
export interface SqsBatchResponse {
  batchItemFailures: { itemIdentifier: string }[]
}

export interface LambdaSqsOptions extends LambdaOptions {
  /** As for `sqsSource()`: returns the attributes of a message; if it throws, the message is rejected. Default: those that `sqsSource()` reads by default. */
  readonly attributes?: ((native: SqsMessage) => Attributes) | undefined
  /**
   * Whether the trigger has `ReportBatchItemFailures`. Without it SQS ignores the answer and deletes every message of a batch that did not fail as a whole: with `false` the
   * function fails if one message did, and all are delivered again; the inbox recognises those that were handled. Default: true.
   */
  readonly partialFailures?: boolean | undefined
}

/**
 * A Lambda function for a queue: handles the messages of an event, concurrently up to the `concurrency` of the router, and reports those that failed. The trigger must have
 * `ReportBatchItemFailures`.
 *
 *     export const handler = lambdaSqs(service, { deadLetter, relay })
 *
 * With a FIFO queue the messages of a group are handled one after the other. When one fails, the rest of its group is reported as failed without being handled, so that SQS delivers
 * them again in their order. A rejected message is published to `deadLetter`; without one it is reported as failed, and SQS moves it to the dead-letter queue of its redrive policy
 * after `maxReceiveCount` deliveries. The `retryAfter` of a failure has no effect: SQS delivers again after the visibility timeout of the queue.
 */
export function lambdaSqs(
  handler: SingleMessageHandler,
  options: LambdaSqsOptions = {},
): (event: SqsEvent, context: LambdaContext) => Promise<SqsBatchResponse> {
  const { attributes, partialFailures = true, margin, ...invoking } = options
  if (attributes !== undefined) checkFunction('attributes', attributes)
  const timeOf = lambdaTime(margin)
  const invocations = new Invocations(handler, invoking)

  return async function handleEvent(event, context) {
    checkEvent(event)
    const time = invocations.clock(timeOf(context))
    const outcomes = new Map<SqsEventRecord, InvocationOutcome>()
    const groups = groupBy(event.Records, groupOf).map(async ([, records]) => {
      for (const record of records) {
        const outcome = await invocations.handle(read(record, attributes), time())
        outcomes.set(record, outcome)
        if (!outcome.done) break
      }
    })
    await Promise.all(groups)
    await invocations.drain(time())
    const failed = event.Records.filter((record) => outcomes.get(record)?.done !== true)
    if (!partialFailures) invocations.rethrow([...outcomes.values()])
    return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) }
  }
}

/** What cannot be matched to messages must fail as a whole: an answer without failures would delete them. */
function checkEvent(event: SqsEvent): void {
  const records: unknown = event?.Records
  const isRecord = (record: Partial<SqsEventRecord> | null) =>
    typeof record?.messageId === 'string' &&
    record.messageId !== '' &&
    typeof record.body === 'string' &&
    typeof record.eventSourceARN === 'string'
  if (Array.isArray(records) && records.every(isRecord)) return
  const found = Array.isArray(records) ? 'it has a record without messageId, body or eventSourceARN' : `it is ${describeValue(event)}`
  throw new AckordError(
    'ACKORD_INVALID_MESSAGE',
    `lambdaSqs() must get an event of SQS, with records; ${found}. Check the trigger of the function.`,
  )
}

/** The group of a FIFO queue; every message of a standard queue is a group of its own. The groups of a standard queue say nothing about order. */
function groupOf({ eventSourceARN, messageId, attributes }: SqsEventRecord): string {
  const group = isFifo(eventSourceARN) ? attributes?.['MessageGroupId'] : undefined
  return group === undefined ? `message ${messageId}` : `group ${group}`
}

function read(record: SqsEventRecord, attributesOf: LambdaSqsOptions['attributes']): InvokedMessage {
  const native = nativeOf(record)
  const origin = native.queue
  const { receiveCount: deliveryCount, body } = native
  const data = new TextEncoder().encode(body)
  try {
    const content = attributesOf === undefined ? readMessage(native) : { data, attributes: attributesOf(native) }
    return { ...content, deliveryCount, origin }
  } catch (unreadable) {
    return { data, attributes: foreignAttributes(native), deliveryCount, origin, unreadable: unreadable ?? new Error('unknown') }
  }
}

/** The names of the fields differ from those of the SDK. */
function nativeOf({ messageId, body, attributes, messageAttributes, eventSourceARN }: SqsEventRecord): SqsMessage {
  const named = Object.entries(messageAttributes ?? {}).map(([name, attribute]) => {
    const { dataType, stringValue } = attribute ?? {}
    return [name, { DataType: dataType, StringValue: stringValue }] as const
  })
  const received = { MessageId: messageId, Body: body, Attributes: attributes, MessageAttributes: Object.fromEntries(named) }
  return sqsMessage(queueOf(eventSourceARN), received)
}

/** The name of the queue, as `sqsSource()` gets it. */
function queueOf(arn: string): string {
  return arn.slice(arn.lastIndexOf(':') + 1)
}
