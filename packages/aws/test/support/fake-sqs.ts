import type { VirtualRuntime } from '@ackord/testkit'
import type { AwsBatchFailure, AwsBatchResult, AwsRequestOptions, SqsClient, SqsReceivedMessage, SqsSendEntry } from '../../src/index.ts'

interface StoredMessage {
  readonly id: string
  readonly entry: SqsSendEntry
  /** Of the latest delivery. */
  handle: string
  visibleAt: number
  receiveCount: number
}

type BatchOperation = 'deleteMessageBatch' | 'changeMessageVisibilityBatch'

/** An entry of a batch, as the fake records and refuses it. */
export interface FakeEntry {
  readonly operation: BatchOperation
  /** The body of the message. */
  readonly body: string
  /** Of a change of the visibility, in seconds. */
  readonly seconds: number | undefined
}

/**
 * One queue in virtual time. It delivers as SQS does where the emulator differs: several messages of a group in one answer, none while one of the group is invisible, no
 * visibility beyond twelve hours, no answer in time, single entries that are refused.
 */
export class FakeSqs implements SqsClient {
  /** The entries of all batches that have arrived, in their order. */
  readonly entries: FakeEntry[] = []
  /** The number of `receiveMessage` requests. */
  receives = 0
  /** Why an entry is refused. Default: none is. */
  refuse: (entry: FakeEntry) => AwsBatchFailure | undefined = () => undefined
  /** Awaited before a batch takes effect. Default: nothing. */
  before: (operation: BatchOperation) => Promise<void> = async () => {}
  readonly #runtime: VirtualRuntime
  readonly #messages: StoredMessage[] = []
  readonly #isFifo: boolean
  #handles = 0

  constructor(runtime: VirtualRuntime, { fifo = false }: { readonly fifo?: boolean } = {}) {
    this.#runtime = runtime
    this.#isFifo = fifo
  }

  /** The bodies of the stored messages. */
  get stored(): readonly string[] {
    return this.#messages.map(({ entry }) => entry.MessageBody)
  }

  /** Stores messages with these bodies. */
  add(bodies: readonly string[], group?: string): void {
    for (const body of bodies) this.#store({ Id: '0', MessageBody: body, MessageAttributes: {}, MessageGroupId: group })
  }

  /** The visibility timeout of a message is over, as after a pause of its process. */
  expire(body: string): void {
    for (const message of this.#messages) if (message.entry.MessageBody === body) message.visibleAt = this.#runtime.monotonic()
  }

  async getQueueUrl({ QueueName: name }: { QueueName: string }) {
    return { QueueUrl: `https://sqs.eu-central-1.amazonaws.com/000000000000/${name}` }
  }

  async sendMessageBatch({ Entries: entries }: { Entries: SqsSendEntry[] }): Promise<AwsBatchResult> {
    for (const entry of entries) this.#store(entry)
    return { Successful: entries.map(({ Id }) => ({ Id })) }
  }

  async receiveMessage(
    input: { MaxNumberOfMessages: number; WaitTimeSeconds: number; VisibilityTimeout: number },
    { abortSignal }: AwsRequestOptions = {},
  ): Promise<{ Messages: readonly SqsReceivedMessage[] }> {
    this.receives += 1
    const end = this.#runtime.monotonic() + input.WaitTimeSeconds * 1000
    for (;;) {
      const received = abortSignal?.aborted === true ? [] : this.#receive(input.MaxNumberOfMessages, input.VisibilityTimeout)
      const left = end - this.#runtime.monotonic()
      if (received.length > 0 || left <= 0) return { Messages: received }
      await new Promise<void>((resolve) => this.#runtime.setTimeout(resolve, Math.min(left, 5000)))
    }
  }

  deleteMessageBatch({ Entries: entries }: { Entries: { Id: string; ReceiptHandle: string }[] }): Promise<AwsBatchResult> {
    return this.#batch('deleteMessageBatch', entries, (message) => {
      if (message !== undefined) this.#messages.splice(this.#messages.indexOf(message), 1)
      return undefined
    })
  }

  changeMessageVisibilityBatch(input: {
    Entries: { Id: string; ReceiptHandle: string; VisibilityTimeout: number }[]
  }): Promise<AwsBatchResult> {
    return this.#batch('changeMessageVisibilityBatch', input.Entries, (message, { VisibilityTimeout: seconds = 0 }) => {
      const now = this.#runtime.monotonic()
      if (message === undefined || message.visibleAt <= now) return expired
      message.visibleAt = now + seconds * 1000
      return undefined
    })
  }

  async #batch<Entry extends { readonly Id: string; readonly ReceiptHandle: string; readonly VisibilityTimeout?: number }>(
    operation: BatchOperation,
    entries: readonly Entry[],
    apply: (message: StoredMessage | undefined, entry: Entry) => AwsBatchFailure | undefined,
  ): Promise<AwsBatchResult> {
    await this.before(operation)
    const Successful: { Id: string }[] = []
    const Failed: AwsBatchFailure[] = []
    for (const entry of entries) {
      const message = this.#messages.find(({ handle }) => handle === entry.ReceiptHandle)
      const recorded = { operation, body: message?.entry.MessageBody ?? '', seconds: entry.VisibilityTimeout }
      this.entries.push(recorded)
      const failure = this.refuse(recorded) ?? apply(message, entry)
      if (failure === undefined) Successful.push({ Id: entry.Id })
      else Failed.push({ ...failure, Id: entry.Id })
    }
    return { Successful, Failed }
  }

  #store(entry: SqsSendEntry): void {
    const id = this.#runtime.uuid()
    this.#messages.push({ id, entry, handle: '', visibleAt: this.#runtime.monotonic(), receiveCount: 0 })
  }

  #receive(count: number, visibilitySeconds: number): SqsReceivedMessage[] {
    const now = this.#runtime.monotonic()
    const blocked = new Set(
      this.#messages.filter(({ visibleAt }) => this.#isFifo && visibleAt > now).map(({ entry }) => entry.MessageGroupId),
    )
    const chosen = this.#messages.filter(({ entry, visibleAt }) => visibleAt <= now && !blocked.has(entry.MessageGroupId))
    return chosen.slice(0, count).map((message) => {
      this.#handles += 1
      message.handle = `handle-${this.#handles}`
      message.receiveCount += 1
      message.visibleAt = now + visibilitySeconds * 1000
      const { id, handle, entry, receiveCount } = message
      const group = entry.MessageGroupId === undefined ? {} : { MessageGroupId: entry.MessageGroupId }
      return {
        MessageId: id,
        ReceiptHandle: handle,
        Body: entry.MessageBody,
        Attributes: { ApproximateReceiveCount: String(receiveCount), ...group },
        MessageAttributes: entry.MessageAttributes,
      }
    })
  }
}

/** What SQS answers for a receipt handle that is not valid any more. */
export const expired: AwsBatchFailure = { Code: 'ReceiptHandleIsInvalid', Message: 'The receipt handle has expired.', SenderFault: true }

/** What SQS answers for an entry when it has a problem of its own. */
export const internalError: AwsBatchFailure = { Code: 'InternalError', Message: 'Try again.', SenderFault: false }
