import type { Closable, Publisher } from '@ackord/core'
import { usageError } from '../output/errors.ts'
import type { ServiceUrl } from '../settings/urls.ts'
import { version } from '../version.ts'
import { awsSettings, isDenied } from './aws-settings.ts'
import type { Broker } from './broker.ts'
import { loadPackages } from './optional-packages.ts'

/**
 * A destination is the ARN of a topic. `sns:` is SNS as the environment configures it, and `sns:?region=…` that of a region; `sns://host:port` is another endpoint over HTTP, and
 * `snss://host` one over TLS.
 */
export async function openSns(option: string, url: ServiceUrl): Promise<Broker> {
  const [{ snsPublisher }, { SNS }] = await loadPackages(option, [
    ['@ackord/aws', version, () => import('@ackord/aws')],
    ['@aws-sdk/client-sns', '3', () => import('@aws-sdk/client-sns')],
  ])
  const client = new SNS(awsSettings(option, 'sns', url))
  // Shows that SNS answers and accepts the credentials, which may be limited to other operations.
  await isThere(() => client.listTopics())
  return publishingOnly('SNS', url, client, snsPublisher(client), async (destination) => {
    const advice = `map the destination to the ARN of one that exists: --map ${destination}=arn`
    if (!destination.startsWith('arn:')) return `'${destination}' is no ARN of a topic; ${advice}`
    const exists = await isThere(() => client.getTopicAttributes({ TopicArn: destination }))
    return exists ? undefined : `There is no topic '${destination}'. Create it, or ${advice}`
  })
}

/** A destination is the name or the ARN of an event bus. The URLs are as those of SNS. */
export async function openEventBridge(option: string, url: ServiceUrl): Promise<Broker> {
  const [{ eventBridgePublisher }, { EventBridge }] = await loadPackages(option, [
    ['@ackord/aws', version, () => import('@ackord/aws')],
    ['@aws-sdk/client-eventbridge', '3', () => import('@aws-sdk/client-eventbridge')],
  ])
  const client = new EventBridge(awsSettings(option, 'eventbridge', url))
  await isThere(() => client.describeEventBus({ Name: 'default' }))
  return publishingOnly('EventBridge', url, client, eventBridgePublisher(client), async (destination) => {
    if (await isThere(() => client.describeEventBus({ Name: destination }))) return undefined
    return `There is no event bus '${destination}'. Create it, or map the destination to one that exists: --map ${destination}=bus`
  })
}

/** Whether AWS finds what the request asks for. An answer that denies the operation counts: publishing may be allowed. */
async function isThere(ask: () => Promise<unknown>): Promise<boolean> {
  try {
    await ask()
    return true
  } catch (error) {
    if (isDenied(error)) return true
    if (error instanceof Error && /^(NotFound|ResourceNotFound)/.test(error.name)) return false
    throw error
  }
}

/** Messages are read elsewhere: from the queues that subscribe to a topic, or that are targets of an event bus. */
function publishingOnly(
  service: string,
  { address }: ServiceUrl,
  client: { destroy(): void },
  publisher: Publisher & Closable,
  problemOf: (destination: string) => Promise<string | undefined>,
): Broker {
  const unreadable = () => usageError(`${service} has no messages to read, which the demo requires.`, 'Use SQS instead: --broker sqs:')
  return {
    address,
    publisher,
    problemOf,
    source() {
      throw unreadable()
    },
    createTopic: () => Promise.reject(unreadable()),
    removeTopic: () => Promise.resolve(),
    async [Symbol.asyncDispose]() {
      await publisher.close()
      client.destroy()
    },
  }
}
