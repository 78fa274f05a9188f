import { snsPublisher, sqsSource } from '@ackord/aws'
import { silentLogger } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { SNS } from '@aws-sdk/client-sns'
import { SQS } from '@aws-sdk/client-sqs'
import { clientSettings, sqsUrl } from '../../packages/aws/test/support/world.ts'
import type { CarrierKind } from './carrier.ts'

/** A topic with one queue, which gets its messages in envelopes. The emulator has no disk: if killed, it would lose all data. */
export const snsCarrier: CarrierKind = {
  name: 'SNS and SQS',
  fault: 'loses its connections',
  async open(name) {
    const proxy = await startFaultProxy(sqsUrl)
    const [sns, sqs] = [new SNS(clientSettings(proxy.url)), new SQS(clientSettings(proxy.url))]
    const { TopicArn } = await sns.createTopic({ Name: name })
    const { QueueUrl } = await sqs.createQueue({ QueueName: name })
    const { Attributes: { QueueArn } = {} } = await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ['QueueArn'] })
    await sns.subscribe({ TopicArn, Protocol: 'sqs', Endpoint: QueueArn })
    const publisher = snsPublisher(sns, { topic: () => TopicArn ?? '', timeout: 1000 })
    // What is on its way when a connection is cut comes again when its visibility timeout is over.
    const settings = { visibilityTimeout: 3000, waitTime: 1000, logger: silentLogger, backoff: () => 50 }
    const source = sqsSource(sqs, { queue: name, ...settings })
    return {
      publisher,
      source,
      async crash() {
        proxy.cut()
      },
      async [Symbol.asyncDispose]() {
        await source.close()
        await publisher.close()
        await sns.deleteTopic({ TopicArn })
        await sqs.deleteQueue({ QueueUrl })
        for (const client of [sns, sqs]) client.destroy()
        await proxy[Symbol.asyncDispose]()
      },
    }
  },
}
