import { AckordError } from '@ackord/core'
import type { SingleMessageHandler } from '@ackord/core/broker'
import { describeValue, Invocations, type InvokedMessage } from '@ackord/core/internal'
import { foreignAttributes, readMessage, type SqsMessage } from '../source/read-message.ts'
import { type LambdaContext, type LambdaOptions, lambdaTime } from './lambda-time.ts'

/** An event as EventBridge passes it to a function. */
export interface EventBridgeEvent {
  readonly id: string
  readonly source: string
  readonly 'detail-type': string
  readonly account: string
  readonly detail: unknown
  readonly time?: string | undefined
}

export type LambdaEventBridgeOptions = LambdaOptions

/**
 * A Lambda function for a rule of EventBridge: handles one event, and fails if it must be delivered again, which Lambda does twice by default, and then sends the event to the
 * function's on-failure destination. A CloudEvent in the detail, as `eventBridgePublisher()` sends it, is read as such; other events by their envelope.
 *
 * A rejected event is published to `deadLetter`; without one it fails too. Lambda parses the event: numbers in it that JavaScript cannot represent are rounded.
 */
export function lambdaEventBridge(
  handler: SingleMessageHandler,
  options: LambdaEventBridgeOptions = {},
): (event: EventBridgeEvent, context: LambdaContext) => Promise<void> {
  const { margin, ...invoking } = options
  const timeOf = lambdaTime(margin)
  const invocations = new Invocations(handler, invoking)

  return async function handleEvent(event, context) {
    checkEvent(event)
    const time = invocations.clock(timeOf(context))
    const outcome = await invocations.handle(read(event), time())
    await invocations.drain(time())
    invocations.rethrow([outcome])
  }
}

function checkEvent(event: EventBridgeEvent): void {
  const { id, source, detail, account } = event ?? {}
  const type = event?.['detail-type']
  if ([id, source, type, account].every((value) => typeof value === 'string') && typeof detail === 'object' && detail !== null) return
  const text = `lambdaEventBridge() must get an event of EventBridge, with an object as its detail; it is ${describeValue(event)}. Check the trigger of the function.`
  throw new AckordError('ACKORD_INVALID_MESSAGE', text)
}

/** The same text as in a queue to which EventBridge delivers. */
function read(event: EventBridgeEvent): InvokedMessage {
  const native: SqsMessage = {
    ...{ queue: event.source, messageId: event.id, body: JSON.stringify(event), messageAttributes: {} },
    ...{ groupId: undefined, sentAt: undefined, receiveCount: undefined },
  }
  try {
    return { ...readMessage(native), origin: event.source }
  } catch (unreadable) {
    const data = new TextEncoder().encode(native.body)
    return { data, attributes: foreignAttributes(native), origin: event.source, unreadable: unreadable ?? new Error('unknown') }
  }
}
