import { InvalidOptionError } from '@ackord/core'
import type { AwsRequestOptions, SqsPublisherClient } from './client.ts'

const queueName = /^[A-Za-z0-9_-]{1,80}$/
const fifoName = /^[A-Za-z0-9_-]{1,75}\.fifo$/
const queueUrl = /^https?:\/\/[^\s/?#@]+\/[^\s?#]+$/

/** Checks the name of a queue, or its URL. */
export function checkQueue(option: string, queue: unknown): string {
  if (typeof queue === 'string' && (queueName.test(queue) || fifoName.test(queue) || queueUrl.test(queue))) return queue
  throw new InvalidOptionError(
    option,
    `must be the name of a queue, such as 'orders' or 'orders.fifo', or its URL; it is ${JSON.stringify(queue)}.`,
  )
}

/** The URLs of queues, which SQS is asked for once. A URL is its own. */
export class QueueUrls {
  readonly #client: SqsPublisherClient
  readonly #urls = new Map<string, string>()

  constructor(client: SqsPublisherClient) {
    this.#client = client
  }

  async urlOf(queue: string, options: AwsRequestOptions): Promise<string> {
    if (queue.includes('/')) return queue
    const known = this.#urls.get(queue)
    if (known !== undefined) return known
    const { QueueUrl: url } = await this.#client.getQueueUrl({ QueueName: queue }, options)
    if (url === undefined) throw new Error(`SQS has no URL for the queue '${queue}'.`)
    this.#urls.set(queue, url)
    return url
  }

  /** Called when a queue is gone: it may be created again under another URL. */
  forget(queue: string): void {
    this.#urls.delete(queue)
  }
}
