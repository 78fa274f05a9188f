import { sqsPublisher, sqsSource } from '@ackord/aws'
import { silentLogger } from '@ackord/core'
import { startFaultProxy } from '@ackord/testkit'
import { SQS } from '@aws-sdk/client-sqs'
import { clientSettings, sqsUrl } from '../../packages/aws/test/support/world.ts'
import type { CarrierKind } from './carrier.ts'

/** The emulator has no disk: if killed, it would lose all data. */
export const sqsCarrier: CarrierKind = {
  name: 'SQS',
  fault: 'loses its connections',
  async open(queue) {
    const proxy = await startFaultProxy(sqsUrl)
    const [publishing, consuming] = [new SQS(clientSettings(proxy.url)), new SQS(clientSettings(proxy.url))]
    const { QueueUrl } = await publishing.createQueue({ QueueName: queue })
    const publisher = sqsPublisher(publishing, { timeout: 1000 })
    // What is on its way when a connection is cut comes again when its visibility timeout is over.
    const settings = { visibilityTimeout: 3000, waitTime: 1000, logger: silentLogger, backoff: () => 50 }
    const source = sqsSource(consuming, { queue, ...settings })
    return {
      publisher,
      source,
      async crash() {
        proxy.cut()
      },
      async [Symbol.asyncDispose]() {
        await source.close()
        await publisher.close()
        await publishing.deleteQueue({ QueueUrl })
        for (const client of [publishing, consuming]) client.destroy()
        await proxy[Symbol.asyncDispose]()
      },
    }
  },
}
