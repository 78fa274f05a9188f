import type { Closable, Publisher } from '@ackord/core'
import { SNS } from '@aws-sdk/client-sns'
import { ownName } from '../../../../scripts/test-run.mjs'
import { type SnsClient, type SnsPublisherOptions, snsPublisher } from '../../src/index.ts'
import { clientSettings, openWorld, type World } from './world.ts'

interface SubscribedTopic {
  /** The ARN. */
  readonly topic: string
  /** The name of the queue that its messages are delivered to. */
  readonly queue: string
}

export interface TopicOptions {
  /** Whether the queue gets the message itself, instead of an envelope. Default: false. */
  readonly raw?: boolean | undefined
  readonly fifo?: boolean | undefined
  /** The filter policy of the subscription, on message attributes. Default: none. */
  readonly filter?: Readonly<Record<string, readonly string[]>> | undefined
}

/** A world with topics as well: queues and sources as in `World`. */
export interface TopicWorld extends AsyncDisposable {
  readonly queues: World
  /** The client under test. */
  readonly sns: SNS
  /** A new topic with one queue that is subscribed, both deleted at the end. */
  subscribedTopic(options?: TopicOptions): Promise<SubscribedTopic>
  /** The ARN of a topic that does not exist. */
  missing(): string
  publisher(options?: SnsPublisherOptions, on?: SnsClient): Publisher & Closable
}

export function openTopics(): TopicWorld {
  const queues = openWorld()
  const sns = new SNS(clientSettings())
  const topics: string[] = []
  const opened: AsyncDisposable[] = []
  return {
    queues,
    sns,
    async subscribedTopic({ raw = false, fifo = false, filter } = {}) {
      const queue = await (fifo ? queues.fifoQueue() : queues.queue())
      const name = `ackord-test-${ownName()}${fifo ? '.fifo' : ''}`
      const { TopicArn: topic = '' } = await sns.createTopic({ Name: name, Attributes: fifo ? { FifoTopic: 'true' } : {} })
      topics.push(topic)
      const Attributes = { RawMessageDelivery: String(raw), ...(filter !== undefined && { FilterPolicy: JSON.stringify(filter) }) }
      await sns.subscribe({ TopicArn: topic, Protocol: 'sqs', Endpoint: await queues.arnOf(queue), Attributes })
      return { topic, queue }
    },
    missing: () => `arn:aws:sns:eu-central-1:000000000000:ackord-test-${ownName()}`,
    publisher(options = {}, on = sns) {
      const publisher = snsPublisher(on, options)
      opened.push(publisher)
      return publisher
    },
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]()
      for (const topic of topics) await sns.deleteTopic({ TopicArn: topic })
      await queues[Symbol.asyncDispose]()
      sns.destroy()
    },
  }
}
