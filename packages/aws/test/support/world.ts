import { setMaxListeners } from 'node:events'
import { type Attributes, type Closable, Message, type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { type RecordingLogger, recordingLogger } from '@ackord/testkit'
import { SQS, type SQSClientConfig } from '@aws-sdk/client-sqs'
import { ownName } from '../../../../scripts/test-run.mjs'
import {
  type SqsClient,
  type SqsPublisherClient,
  type SqsPublisherOptions,
  type SqsSourceOptions,
  sqsPublisher,
  sqsSource,
} from '../../src/index.ts'

export const sqsUrl: string = process.env['SQS_URL'] ?? 'http://127.0.0.1:4566'

/** Settings of a client of any service at the emulator, which accepts any credentials. */
export function clientSettings(endpoint: string = sqsUrl) {
  return {
    endpoint,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  }
}

/** The attributes of a queue, as `createQueue` accepts them. */
type QueueAttributes = Readonly<Record<string, string>>

export interface World extends AsyncDisposable {
  /** The client under test. */
  readonly client: SQS
  /** A separate client, to observe the server. */
  readonly admin: SQS
  readonly logger: RecordingLogger
  /** A new queue, deleted at the end. Returns its name. */
  queue(attributes?: QueueAttributes): Promise<string>
  /** The same with a FIFO queue. */
  fifoQueue(attributes?: QueueAttributes): Promise<string>
  /** A unique name; a queue of that name is deleted at the end. */
  name(): string
  urlOf(queue: string): Promise<string>
  arnOf(queue: string): Promise<string>
  /** A source that asks for messages again and again: a request that waits would keep a message from the next source. */
  source(queue: string, options?: Partial<SqsSourceOptions>, on?: SqsClient): Source & Closable
  publisher(options?: SqsPublisherOptions, on?: SqsPublisherClient): Publisher & Closable
  /** Publishes one message per id, through a publisher that is independent of the test. */
  fill(queue: string, ids: readonly string[], attributes?: Attributes): Promise<void>
  /** Another client to the same server, closed at the end. */
  another(settings?: Partial<SQSClientConfig>): SQS
  /** The numbers of messages that can be received, and that were received and are not deleted. */
  counts(queue: string): Promise<{ readonly visible: number; readonly inFlight: number }>
}

export interface WorldOptions {
  /** The URL of the client under test. Default: the same server as the admin's. */
  readonly url?: string
  /** The server. Default: the shared one. */
  readonly server?: string
}

export function openWorld(options: WorldOptions = {}): World {
  const { server = sqsUrl, url = server } = options
  const admin = new SQS({ ...clientSettings(server), maxAttempts: 3 })
  const client = new SQS(clientSettings(url))
  const clients = [admin, client]
  const filler = sqsPublisher(admin)
  const logger = recordingLogger()
  const names: string[] = []
  const opened: AsyncDisposable[] = []
  const made = (suffix: string) => {
    const name = `ackord-test-${ownName()}${suffix}`
    names.push(name)
    return name
  }
  const urlOf = async (queue: string) => {
    const { QueueUrl } = await admin.getQueueUrl({ QueueName: queue })
    return QueueUrl ?? ''
  }
  const attributesOf = async (queue: string) => {
    const { Attributes: attributes = {} } = await admin.getQueueAttributes({ QueueUrl: await urlOf(queue), AttributeNames: ['All'] })
    return attributes
  }
  const create = async (name: string, attributes: QueueAttributes) => {
    await admin.createQueue({ QueueName: name, Attributes: { ...attributes } })
    return name
  }

  return {
    client,
    admin,
    logger,
    name: () => made(''),
    queue: (attributes = {}) => create(made(''), attributes),
    fifoQueue: (attributes = {}) => create(made('.fifo'), { FifoQueue: 'true', ...attributes }),
    urlOf,
    arnOf: async (queue) => (await attributesOf(queue)).QueueArn ?? '',
    source(queue, more = {}, on = client) {
      const source = sqsSource(on, { queue, waitTime: 0, logger, backoff: () => 5, ...more })
      opened.push(source)
      return source
    },
    publisher(more = {}, on = client) {
      const publisher = sqsPublisher(on, more)
      opened.push(publisher)
      return publisher
    },
    fill: (queue, ids, attributes = {}) =>
      publishAll(
        filler,
        queue,
        ids.map((id) => event(id, attributes)),
      ),
    another(settings = {}) {
      const other = new SQS({ ...clientSettings(url), ...settings })
      clients.push(other)
      return other
    },
    async counts(queue) {
      const { ApproximateNumberOfMessages: visible, ApproximateNumberOfMessagesNotVisible: inFlight } = await attributesOf(queue)
      return { visible: Number(visible), inFlight: Number(inFlight) }
    },
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      await Promise.all(names.map((name) => removeQueue(admin, name)))
      for (const each of clients) each.destroy()
    },
  }
}

async function removeQueue(admin: SQS, name: string): Promise<void> {
  const { QueueUrls: urls = [] } = await admin.listQueues({ QueueNamePrefix: name })
  await Promise.all(urls.map((url) => admin.deleteQueue({ QueueUrl: url })))
}

export function event(id: string, attributes: Attributes = {}): RawMessage {
  const data = new TextEncoder().encode(JSON.stringify({ id }))
  return new Message(data, { id, type: 'test.event', source: '/test', specversion: '1.0', ...attributes })
}

export function numbered(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`)
}

/** Polls until the condition holds, for at most 20 seconds. Each check is a round trip to the server, or a turn of the event loop. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(20_000)
  while (!(await isSo())) {
    limit.throwIfAborted()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

export function open(source: Source, signal: AbortSignal = never): AsyncIterator<RawMessage> {
  return source.messages({ signal })[Symbol.asyncIterator]()
}

export async function pull(messages: AsyncIterator<RawMessage>): Promise<RawMessage> {
  const { value, done } = await messages.next()
  if (done === true) throw new Error('The iteration has ended.')
  return value
}

export async function pullMany(messages: AsyncIterator<RawMessage>, count: number): Promise<RawMessage[]> {
  const pulled: RawMessage[] = []
  while (pulled.length < count) pulled.push(await pull(messages))
  return pulled
}

/** A signal that is never aborted; many concurrent calls may use it. */
export const never: AbortSignal = new AbortController().signal
setMaxListeners(0, never)
