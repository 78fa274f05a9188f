import { type BrokerAddress, InvalidOptionError } from '@ackord/core'

/** The options that each call accepts beside its input. */
export interface AwsRequestOptions {
  readonly abortSignal?: AbortSignal
}

/** A message attribute of SQS and SNS, as it is sent. */
export interface AwsMessageAttribute {
  readonly DataType: string
  readonly StringValue: string
}

/** An entry of a batch that SQS or SNS did not accept. */
export interface AwsBatchFailure {
  readonly Id?: string | undefined
  readonly Code?: string | undefined
  readonly Message?: string | undefined
  readonly SenderFault?: boolean | undefined
}

export interface AwsBatchResult {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined
  readonly Failed?: readonly AwsBatchFailure[] | undefined
}

export interface SqsSendEntry {
  Id: string
  MessageBody: string
  MessageAttributes: Record<string, AwsMessageAttribute>
  MessageGroupId?: string | undefined
  MessageDeduplicationId?: string | undefined
}

/** A message as `receiveMessage` returns it. */
export interface SqsReceivedMessage {
  readonly MessageId?: string | undefined
  readonly ReceiptHandle?: string | undefined
  readonly Body?: string | undefined
  readonly Attributes?: Readonly<Partial<Record<string, string>>> | undefined
  readonly MessageAttributes?:
    | Readonly<Record<string, { readonly DataType?: string | undefined; readonly StringValue?: string | undefined }>>
    | undefined
}

/** The part that a publisher uses of an `SQS` of `@aws-sdk/client-sqs`. It is passed in. */
export interface SqsPublisherClient {
  getQueueUrl(input: { QueueName: string }, options?: AwsRequestOptions): Promise<{ readonly QueueUrl?: string | undefined }>
  sendMessageBatch(input: { QueueUrl: string; Entries: SqsSendEntry[] }, options?: AwsRequestOptions): Promise<AwsBatchResult>
}

/** The part that a source uses of an `SQS` of `@aws-sdk/client-sqs`. It is passed in. */
export interface SqsClient extends SqsPublisherClient {
  receiveMessage(
    input: {
      QueueUrl: string
      MaxNumberOfMessages: number
      WaitTimeSeconds: number
      VisibilityTimeout: number
      MessageSystemAttributeNames: ('ApproximateReceiveCount' | 'SentTimestamp' | 'MessageGroupId')[]
      MessageAttributeNames: string[]
    },
    options?: AwsRequestOptions,
  ): Promise<{ readonly Messages?: readonly SqsReceivedMessage[] | undefined }>
  deleteMessageBatch(
    input: { QueueUrl: string; Entries: { Id: string; ReceiptHandle: string }[] },
    options?: AwsRequestOptions,
  ): Promise<AwsBatchResult>
  changeMessageVisibilityBatch(
    input: { QueueUrl: string; Entries: { Id: string; ReceiptHandle: string; VisibilityTimeout: number }[] },
    options?: AwsRequestOptions,
  ): Promise<AwsBatchResult>
}

export interface SnsPublishEntry {
  Id: string
  Message: string
  MessageAttributes: Record<string, AwsMessageAttribute>
  MessageGroupId?: string | undefined
  MessageDeduplicationId?: string | undefined
}

/** The part that is used of an `SNS` of `@aws-sdk/client-sns`. It is passed in. */
export interface SnsClient {
  publishBatch(
    input: { TopicArn: string; PublishBatchRequestEntries: SnsPublishEntry[] },
    options?: AwsRequestOptions,
  ): Promise<AwsBatchResult>
}

export interface EventBridgeEntry {
  EventBusName: string
  Source: string
  DetailType: string
  Detail: string
  Time?: Date | undefined
}

/** The part that is used of an `EventBridge` of `@aws-sdk/client-eventbridge`. It is passed in. */
export interface EventBridgeClient {
  putEvents(
    input: { Entries: EventBridgeEntry[] },
    options?: AwsRequestOptions,
  ): Promise<{
    readonly Entries?:
      | readonly {
          readonly EventId?: string | undefined
          readonly ErrorCode?: string | undefined
          readonly ErrorMessage?: string | undefined
        }[]
      | undefined
  }>
  describeEventBus(input: { Name: string }, options?: AwsRequestOptions): Promise<unknown>
}

/** Checks that the value is a client with these methods. `SQSClient` and the like have only `send()`, which needs the command objects of the SDK. */
export function checkClient(client: unknown, name: string, methods: readonly string[]): void {
  const has = (method: string) =>
    typeof client === 'object' && client !== null && typeof (client as Record<string, unknown>)[method] === 'function'
  if (methods.every(has)) return
  const lean = has('send') ? ` It is an ${name}Client, which has no method per operation.` : ''
  throw new InvalidOptionError(
    'client',
    `must be an ${name} of @aws-sdk/client-${name.toLowerCase()}, such as new ${name}({ region: 'eu-central-1' }).${lean}`,
  )
}

/** The host that the last request went to, as far as a queue URL shows it. */
export class QueueAddress implements BrokerAddress {
  readonly system = 'aws_sqs'
  #url: URL | undefined

  /** Called with each queue URL that is used. */
  seen(url: string): void {
    if (this.#url?.href === url) return
    this.#url = URL.canParse(url) ? new URL(url) : undefined
  }

  get serverAddress(): string | undefined {
    const host = this.#url?.hostname.replace(/^\[|\]$/g, '')
    return host === '' ? undefined : host
  }

  get serverPort(): number | undefined {
    if (this.#url === undefined) return undefined
    return Number(this.#url.port) || (this.#url.protocol === 'http:' ? 80 : 443)
  }
}
