import type { RabbitmqChannel } from './client.ts'
import type { QueueDeclaration } from './queue-options.ts'
import { replyCode } from './reply-code.ts'

const deliveryLimit = 'x-delivery-limit'
const mismatch = 406

/** `again`: RabbitMQ has closed the channel, and has to be asked once more on another one. */
export type QueueDeclarer = (channel: Pick<RabbitmqChannel, 'assertQueue'>) => Promise<'declared' | 'again'>

/**
 * Creates a queue, unless it exists. From RabbitMQ 4 on a quorum queue drops what was delivered twenty times, which an outage of the database is enough for; so it
 * is told that there is no limit, unless the caller has one. Older servers have none, and refuse to be told. A queue that was made there, or by others, is refused with
 * a limit that it was not made with: then it is declared as the caller has it, or nothing could be consumed once the server was upgraded.
 */
export function queueDeclarer(queue: string, declaration: QueueDeclaration): QueueDeclarer {
  const { durable, arguments: given } = declaration
  const ownLimit = given['x-queue-type'] !== 'quorum' || deliveryLimit in given
  let limitRefused = false

  return async (channel) => {
    if (ownLimit || limitRefused || majorVersion(channel) < 4) {
      await channel.assertQueue(queue, { durable, arguments: given })
      return 'declared'
    }
    try {
      await channel.assertQueue(queue, { durable, arguments: { ...given, [deliveryLimit]: -1 } })
      return 'declared'
    } catch (error) {
      if (replyCode(error) !== mismatch) throw error
      limitRefused = true
      return 'again'
    }
  }
}

/** 0 if the client does not tell. */
export function majorVersion(channel: object): number {
  // amqplib's channels have the connection that they belong to, also where it was made again.
  const { connection } = channel as { readonly connection?: { readonly serverProperties?: { readonly version?: unknown } } }
  const major = Number.parseInt(String(connection?.serverProperties?.version), 10)
  return Number.isNaN(major) ? 0 : major
}
