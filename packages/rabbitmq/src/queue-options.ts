import { InvalidOptionError } from '@ackord/core'
import { checkChoice, checkNoMore } from '@ackord/core/internal'

export interface RabbitmqQueueOptions {
  /**
   * `quorum` queues are replicated, survive the loss of a node and count deliveries; `classic` ones live on one node and do not.
   * Default: 'quorum'.
   */
  readonly type?: 'quorum' | 'classic' | undefined
  /** Whether the queue survives a restart of RabbitMQ; a quorum queue always does. Default: true. */
  readonly durable?: boolean | undefined
  /**
   * Further arguments, such as `x-max-length` or `x-single-active-consumer`. Default: none; for a quorum queue on RabbitMQ 4 and newer `x-delivery-limit` is -1, or it
   * would drop what was delivered twenty times.
   */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
}

/** What amqplib's `assertQueue` takes. */
export interface QueueDeclaration {
  durable: boolean
  arguments: Record<string, unknown>
}

export function queueDeclaration(options: RabbitmqQueueOptions): QueueDeclaration {
  if (typeof options !== 'object' || options === null)
    throw new InvalidOptionError('declare', "must be an object such as { type: 'quorum' }.")
  const { type = 'quorum', durable = true, arguments: more = {}, ...unknown } = options
  checkNoMore('declare', unknown)
  checkChoice('declare.type', type, ['quorum', 'classic'])
  if (typeof durable !== 'boolean') throw new InvalidOptionError('declare.durable', 'must be true or false.')
  if (type === 'quorum' && !durable) throw new InvalidOptionError('declare.durable', 'must be true for a quorum queue.')
  return { durable, arguments: { 'x-queue-type': type, ...more } }
}
