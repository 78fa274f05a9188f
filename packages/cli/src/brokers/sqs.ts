import type { Logger } from '@ackord/core'
import type { ServiceUrl } from '../settings/urls.ts'
import { version } from '../version.ts'
import { awsSettings, isDenied } from './aws-settings.ts'
import type { Broker } from './broker.ts'
import { loadPackages } from './optional-packages.ts'

/**
 * A destination is a queue, which must exist. `sqs:` is SQS as the environment configures it, and `sqs:?region=…` that of a region. `sqs://host:port` is another endpoint over HTTP,
 * such as an emulator, and `sqss://host` one over TLS. User and password are an access key and its secret.
 */
export async function openSqs(option: string, url: ServiceUrl, logger: Logger): Promise<Broker> {
  const [{ sqsPublisher, sqsSource }, { SQS }] = await loadPackages(option, [
    ['@ackord/aws', version, () => import('@ackord/aws')],
    ['@aws-sdk/client-sqs', '3', () => import('@aws-sdk/client-sqs')],
  ])
  const client = new SQS(awsSettings(option, 'sqs', url))
  const exists = async (queue: string) => {
    try {
      await client.getQueueUrl({ QueueName: queue })
      return true
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }
  // Shows that SQS answers and accepts the credentials, which may be limited to other queues.
  await exists('ackord-connection-check').catch((error: unknown) => {
    if (!isDenied(error)) throw error
  })
  const publisher = sqsPublisher(client)

  return {
    address: url.address,
    publisher,
    // Only the demo reads: it should not wait long for the messages of a process that was killed.
    source: (topic) => sqsSource(client, { queue: topic, visibilityTimeout: 5000, waitTime: 1000, logger }),
    async createTopic(topic) {
      await client.createQueue({ QueueName: topic })
    },
    async removeTopic(topic) {
      try {
        const { QueueUrl } = await client.getQueueUrl({ QueueName: topic })
        await client.deleteQueue({ QueueUrl })
      } catch (error) {
        if (!isMissing(error)) throw error
      }
    },
    async problemOf(destination) {
      const advice = `map the destination to one that exists: --map ${destination}=queue`
      if (!/^([\w-]{1,80}|[\w-]{1,75}\.fifo)$/.test(destination)) return `'${destination}' cannot be the name of a queue; ${advice}`
      return (await exists(destination)) ? undefined : `There is no queue '${destination}'. Create it, or ${advice}`
    },
    async [Symbol.asyncDispose]() {
      await publisher.close()
      client.destroy()
    },
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && error.name === 'QueueDoesNotExist'
}
