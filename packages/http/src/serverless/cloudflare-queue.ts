import { AckordError } from '@ackord/core'
import type { SingleMessageHandler } from '@ackord/core/broker'
import { describeValue, type InvokedMessage } from '@ackord/core/internal'
import { countOf, instantOf, readContent } from './message-content.ts'
import { type ServerlessOptions, TimedInvocations } from './serverless-options.ts'

/** A message of Cloudflare Queues. */
export interface CloudflareMessage {
  readonly id: string
  readonly timestamp: Date
  readonly body: unknown
  readonly attempts: number
  ack(): void
  retry(options?: { readonly delaySeconds?: number }): void
}

export interface CloudflareBatch {
  readonly queue: string
  readonly messages: readonly CloudflareMessage[]
}

/** The longest delay of Cloudflare Queues: twelve hours. */
const maxDelaySeconds = 43_200

/**
 * The `queue()` handler of a Worker: acks each message that was handled, and retries the others, after their delay if they have one. A rejected message is published to
 * `deadLetter`; without one it is retried, and Cloudflare moves it to the dead-letter queue of the consumer after `max_retries`.
 *
 *     export default { queue: cloudflareQueue(service) }
 */
export function cloudflareQueue(handler: SingleMessageHandler, options: ServerlessOptions = {}): (batch: CloudflareBatch) => Promise<void> {
  const timed = new TimedInvocations(handler, options)

  return async function handleBatch(batch) {
    if (!Array.isArray(batch?.messages)) {
      throw new AckordError(
        'ACKORD_INVALID_MESSAGE',
        `cloudflareQueue() must get a batch of Cloudflare Queues; it got ${describeValue(batch)}.`,
      )
    }
    const { queue } = batch
    await timed.handleEach(
      batch.messages,
      (message) => read(message, queue),
      (message, outcome) => {
        if (outcome.done) message.ack()
        else message.retry(delayOf(outcome.retryAfter))
      },
    )
  }
}

/** In whole seconds, rounded up. */
function delayOf(retryAfter: number | undefined): { delaySeconds: number } | undefined {
  return retryAfter === undefined ? undefined : { delaySeconds: Math.min(Math.ceil(retryAfter / 1000), maxDelaySeconds) }
}

function read({ id, timestamp, body, attempts }: CloudflareMessage, queue: string): InvokedMessage {
  return readContent({
    body,
    foreign: { id, source: queue, type: queue, time: instantOf(timestamp) },
    deliveryCount: countOf(attempts),
    origin: queue,
  })
}
