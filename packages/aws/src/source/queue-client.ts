import type { Runtime } from '@ackord/core'
import { answerTimeout } from '@ackord/core/internal'
import { isMissing } from '../aws-errors.ts'
import type { QueueAddress, SqsClient, SqsReceivedMessage } from '../client.ts'
import type { QueueUrls } from '../queue-urls.ts'
import { failuresOf, request } from '../requests.ts'
import { RequestBatcher } from './request-batcher.ts'

export interface QueueClientSettings {
  readonly client: SqsClient
  readonly urls: QueueUrls
  readonly address: QueueAddress
  readonly queue: string
  readonly runtime: Runtime
}

interface VisibilityChange {
  readonly handle: string
  /** From 0 to 43,200. */
  readonly seconds: number
}

// SQS answers this many milliseconds after the wait time at the latest; the SDK may have tried again before.
const receiveMargin = 10_000

/** The calls for one queue. Deletions and changes of the visibility are sent in batches. */
export class QueueClient {
  readonly #settings: QueueClientSettings
  readonly #deletions: RequestBatcher<string>
  readonly #changes: RequestBatcher<VisibilityChange>
  #url = ''

  constructor(settings: QueueClientSettings) {
    const { client, runtime } = settings
    this.#settings = settings
    this.#deletions = new RequestBatcher(runtime, async (handles) => {
      const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }))
      const input = { QueueUrl: this.#url, Entries }
      return failuresOf(handles.length, await this.#request((options) => client.deleteMessageBatch(input, options)))
    })
    this.#changes = new RequestBatcher(runtime, async (changes) => {
      const Entries = changes.map(({ handle, seconds }, index) => ({
        ...{ Id: String(index), ReceiptHandle: handle, VisibilityTimeout: seconds },
      }))
      const input = { QueueUrl: this.#url, Entries }
      return failuresOf(changes.length, await this.#request((options) => client.changeMessageVisibilityBatch(input, options)))
    })
  }

  /** Finds the queue. Must be called first. */
  async open(signal: AbortSignal): Promise<void> {
    const { urls, queue, runtime, address } = this.#settings
    this.#url = await request(runtime, receiveMargin, signal, (options) => urls.urlOf(queue, options))
    address.seen(this.#url)
  }

  /** Waits up to `waitTime` milliseconds for the first message. An abort may lose messages that are on their way until their visibility timeout is over. */
  async receive(
    limits: { readonly count: number; readonly waitTime: number; readonly visibilitySeconds: number },
    signal: AbortSignal,
  ): Promise<readonly SqsReceivedMessage[]> {
    const { client, runtime, queue, urls } = this.#settings
    const { count, waitTime, visibilitySeconds } = limits
    try {
      const { Messages = [] } = await request(runtime, waitTime + receiveMargin, signal, (options) =>
        client.receiveMessage(
          {
            QueueUrl: this.#url,
            MaxNumberOfMessages: Math.min(count, 10),
            WaitTimeSeconds: Math.round(waitTime / 1000),
            VisibilityTimeout: visibilitySeconds,
            MessageSystemAttributeNames: ['ApproximateReceiveCount', 'SentTimestamp', 'MessageGroupId'],
            MessageAttributeNames: ['All'],
          },
          options,
        ),
      )
      return Messages
    } catch (error) {
      if (isMissing(error)) urls.forget(queue)
      throw error
    }
  }

  delete(handle: string): Promise<void> {
    return this.#deletions.add(handle)
  }

  changeVisibility(handle: string, seconds: number): Promise<void> {
    return this.#changes.add({ handle, seconds })
  }

  /** Not aborted: it ends by its time limit. */
  #request<T>(send: (options: { readonly abortSignal?: AbortSignal }) => Promise<T>): Promise<T> {
    return request(this.#settings.runtime, answerTimeout, new AbortController().signal, send)
  }
}
