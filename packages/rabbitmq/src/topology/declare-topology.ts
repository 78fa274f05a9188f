import { AckordError, InvalidOptionError } from '@ackord/core'
import { checkChoice, checkName, rejectUnknownOptions } from '@ackord/core/internal'
import { type RabbitmqChannel, replyCode, serverVersion } from '../client.ts'
import { retryTopology } from './retry-topology.ts'
import type { RabbitmqBinding, RabbitmqExchangeOptions, RabbitmqQueueOptions, RabbitmqTopology, RabbitmqTopologyQueue } from './topology.ts'

/** The part of amqplib's connection that is used. */
export interface TopologyConnection {
  createChannel(): Promise<TopologyChannel>
}

interface TopologyChannel {
  assertExchange(exchange: string, type: string, options: { durable: boolean; arguments: Record<string, unknown> }): Promise<unknown>
  assertQueue(queue: string, options: { durable: boolean; arguments: Record<string, unknown> }): Promise<unknown>
  bindQueue(queue: string, exchange: string, routingKey: string, args: Record<string, unknown>): Promise<unknown>
  close(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * Creates exchanges, then queues, then bindings, unless they exist. Idempotent, so that every instance may call it when it starts. Nothing is
 * deleted or changed: rejects if something exists with other properties, and the rest is not declared.
 */
export async function declareTopology(connection: TopologyConnection, topology: RabbitmqTopology): Promise<void> {
  const steps = stepsOf(topology)
  let channel = await openChannel(connection)
  for (const { what, declare } of steps) {
    try {
      if ((await declare(channel)) === 'again') {
        channel = await openChannel(connection)
        await declare(channel)
      }
    } catch (cause) {
      // RabbitMQ has closed the channel, unless the client itself has refused the call.
      await channel.close().catch(() => {})
      throw refused(what, cause)
    }
  }
  await channel.close()
}

async function openChannel(connection: TopologyConnection): Promise<TopologyChannel> {
  const channel = await connection.createChannel()
  // RabbitMQ closes the channel with the reason; the call that caused it rejects with the same reason.
  channel.on('error', () => {})
  return channel
}

interface Step {
  readonly what: string
  readonly declare: (channel: TopologyChannel) => Promise<unknown>
}

/** Everything is validated before anything is sent. */
function stepsOf(topology: RabbitmqTopology): readonly Step[] {
  if (typeof topology !== 'object' || topology === null) {
    throw new InvalidOptionError('topology', 'must be an object { exchanges, queues, bindings }.')
  }
  const { exchanges = {}, queues = {}, bindings = [], ...unknown } = topology
  rejectUnknownOptions('A topology', unknown)
  return [
    ...Object.entries(exchanges).map(([name, options]) => exchangeStep(name, options)),
    ...Object.entries(queues).map(([name, options]) => queueStep(name, options)),
    ...bindings.map(bindingStep),
    ...Object.entries(queues).flatMap(([name, { retry = false }]) => retrySteps(name, retry)),
  ]
}

function exchangeStep(name: string, options: RabbitmqExchangeOptions): Step {
  checkName('exchanges', name)
  const { type = 'topic', durable = true, arguments: more = {}, ...unknown } = options
  rejectUnknownOptions(`Exchange '${name}'`, unknown)
  checkChoice('type', type, ['direct', 'fanout', 'headers', 'topic'])
  if (typeof durable !== 'boolean') throw new InvalidOptionError('durable', 'must be true or false.')
  return { what: `exchange '${name}'`, declare: (channel) => channel.assertExchange(name, type, { durable, arguments: { ...more } }) }
}

function retrySteps(name: string, retry: boolean): readonly Step[] {
  if (typeof retry !== 'boolean') throw new InvalidOptionError(`queues['${name}'].retry`, 'must be true or false.')
  return retry ? stepsOf(retryTopology(name)) : []
}

function queueStep(name: string, { retry: _retry, ...options }: RabbitmqTopologyQueue): Step {
  checkName('queues', name)
  const declaration = queueDeclaration(options)
  return { what: `queue '${name}'`, declare: queueDeclarer(name, declaration) }
}

function bindingStep({ exchange, queue, routingKey = '', arguments: more = {}, ...unknown }: RabbitmqBinding): Step {
  rejectUnknownOptions('A binding', unknown)
  checkName('exchange', exchange)
  checkName('queue', queue)
  if (typeof routingKey !== 'string') throw new InvalidOptionError('routingKey', 'must be a string.')
  return {
    what: `the binding of queue '${queue}' to exchange '${exchange}'`,
    declare: (channel) => channel.bindQueue(queue, exchange, routingKey, { ...more }),
  }
}

function refused(what: string, cause: unknown): AckordError {
  const code = replyCode(cause)
  const reason =
    code === 406
      ? 'it exists with other properties. Delete it, or declare it as it is'
      : code === 404
        ? 'one of the two does not exist. Declare it too'
        : code === 403
          ? 'the user is not allowed to configure it'
          : 'RabbitMQ refused it, or the connection was lost; the cause says why'
  return new AckordError('ACKORD_SOURCE_FAILED', `Cannot declare ${what}: ${reason}.`, {
    cause,
    retryable: code !== 403 && code !== 404 && code !== 406,
  })
}

const deliveryLimit = 'x-delivery-limit'
const mismatch = 406

/** `again`: RabbitMQ has closed the channel, and the call must be repeated on another one. */
export type QueueDeclarer = (channel: Pick<RabbitmqChannel, 'assertQueue'>) => Promise<'declared' | 'again'>

/**
 * Creates a queue, unless it exists. From RabbitMQ 4 on a quorum queue drops messages that were delivered twenty times, which can happen during an outage of the database. So it
 * is declared without a limit, unless the caller sets one. Older servers have no limit, and refuse the argument. RabbitMQ refuses to declare an existing queue with a limit that
 * it was not created with: such a queue is declared as the caller has it, or it could not be consumed after an upgrade of the server.
 */
export function queueDeclarer(queue: string, declaration: QueueDeclaration): QueueDeclarer {
  const { durable, arguments: given } = declaration
  const ownLimit = given['x-queue-type'] !== 'quorum' || deliveryLimit in given
  let limitRefused = false

  return async (channel) => {
    if (ownLimit || limitRefused || serverVersion(channel).major < 4) {
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

/** The options of amqplib's `assertQueue`. */
export interface QueueDeclaration {
  durable: boolean
  arguments: Record<string, unknown>
}

export function queueDeclaration(options: RabbitmqQueueOptions): QueueDeclaration {
  if (typeof options !== 'object' || options === null)
    throw new InvalidOptionError('declare', "must be an object such as { type: 'quorum' }.")
  const { type = 'quorum', durable = true, arguments: more = {}, ...unknown } = options
  rejectUnknownOptions('declare', unknown)
  checkChoice('declare.type', type, ['quorum', 'classic'])
  if (typeof durable !== 'boolean') throw new InvalidOptionError('declare.durable', 'must be true or false.')
  if (type === 'quorum' && !durable) throw new InvalidOptionError('declare.durable', 'must be true for a quorum queue.')
  return { durable, arguments: { 'x-queue-type': type, ...more } }
}
