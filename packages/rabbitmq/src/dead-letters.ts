import { AckordError, InvalidOptionError, idle, type Logger, Message, type Publisher, systemRuntime } from '@ackord/core'
import {
  type DeadLetterQueue,
  type DeadLetters,
  type DeadLettersOptions,
  deadLetterPort,
  PartPorts,
  type StoredLetter,
} from '@ackord/core/broker'
import { checkName, rejectUnknownOptions } from '@ackord/core/internal'
import {
  type CountHeader,
  countHeader,
  type RabbitmqChannel,
  type RabbitmqConnection,
  type RabbitmqMessage,
  serverVersion,
} from './client.ts'
import { DeliveryGuard, deliveriesBefore } from './delivery-guard.ts'
import { rabbitmqPublisher } from './publisher/rabbitmq-publisher.ts'
import { readMessage } from './source/read-message.ts'

/** A channel of amqplib that also looks through queues. */
export interface DeadLetterChannel extends RabbitmqChannel {
  checkQueue(queue: string): Promise<{ readonly messageCount: number }>
  get(queue: string): Promise<RabbitmqMessage | false>
  nackAll(requeue: boolean): void
}

export interface DeadLetterConnection extends RabbitmqConnection {
  createChannel(): Promise<DeadLetterChannel>
}

export interface RabbitmqDeadLettersOptions extends DeadLettersOptions {
  /**
   * The delivery limit of the queue, 2 or more. A quorum queue drops messages that were delivered more often, and up to RabbitMQ 4.2 each look at letters is a delivery. When letters were
   * delivered half as often, looking at them is refused with `ACKORD_DELIVERY_LIMIT`. `'none'` never refuses: for queues without a limit, such as those that Ackord declares.
   * Default: 20, as in RabbitMQ 4.
   */
  readonly deliveryLimit?: number | 'none' | undefined
}

/**
 * The dead letters in a queue, for the dashboard: `createDashboard({ deadLetters: { orders: rabbitmqDeadLetters(connection, 'orders.dead') } })`. Each look at letters counts as a
 * delivery, and hides them from other consumers meanwhile.
 */
export function rabbitmqDeadLetters(
  connection: DeadLetterConnection,
  queue: string,
  options: RabbitmqDeadLettersOptions = {},
): DeadLetters {
  const { publisher, logger: givenLogger, deliveryLimit = 20, ...unknown } = options
  rejectUnknownOptions('rabbitmqDeadLetters()', unknown)
  checkName('queue', queue)
  if (deliveryLimit !== 'none' && !(Number.isSafeInteger(deliveryLimit) && deliveryLimit >= 2))
    throw new InvalidOptionError('deliveryLimit', "must be a whole number, 2 or more, or 'none'.")
  const { logger } = new PartPorts({ logger: givenLogger })
  const guard = new DeliveryGuard(queue, deliveryLimit === 'none' ? Infinity : deliveryLimit)
  return deadLetterPort({ open: () => openQueue(connection, queue, { guard, publisher, logger }), logger })
}

interface LookSettings {
  readonly guard: DeliveryGuard
  readonly publisher: Publisher | undefined
  readonly logger: Logger
}

/**
 * The letters of a queue are fetched one by one and stay unacked until they are removed. The others return to their places at the end. Other consumers do
 * not see them meanwhile.
 */
async function openQueue(connection: DeadLetterConnection, queue: string, settings: LookSettings): Promise<DeadLetterQueue> {
  const { publisher: givenPublisher, logger } = settings
  const channel = await connection.createChannel()
  // The call that fails rejects with the same reason.
  channel.on('error', () => {})
  const { messageCount: count } = await checkQueue(channel, queue)
  const header = countHeader(serverVersion(channel))
  // From 4.3 on a nack does not count.
  const guard = header === 'x-delivery-count' ? settings.guard : undefined
  const fetching = new Fetching(channel, queue, { count, header })
  try {
    guard?.checkQueue(count)
  } catch (error) {
    await channel.close().catch(() => {})
    throw error
  }
  const publisher = givenPublisher ?? rabbitmqPublisher(connection, { logger })
  const fetched = new Map<string, RabbitmqMessage>()

  function letterOf(native: RabbitmqMessage, number: number): StoredLetter {
    const position = `#${number}`
    fetched.set(position, { ...native, content: Buffer.alloc(0) })
    const { headers = {} } = native.properties
    const moved = { origin: text(headers['x-first-death-queue']), reason: text(headers['x-first-death-reason']) }
    try {
      const { data, attributes } = readMessage(native, queue)
      return { position, message: new Message(data, attributes), ...moved }
    } catch (error) {
      const attributes = { datacontenttype: text(native.properties.contentType) }
      return { position, message: new Message(new Uint8Array(native.content), attributes), problem: String(error), ...moved }
    }
  }

  return {
    count,
    publisher,
    undeletable: 0,
    async *letters(signal) {
      for (let number = 1; number <= count && !signal.aborted; number += 1) {
        const native = await fetching.next()
        // Another consumer has taken the rest.
        if (native === false) return
        guard?.checkLetter(native, count)
        yield letterOf(native, number)
      }
    },
    async remove(letters) {
      for (const { position } of letters) {
        const native = fetched.get(position)
        if (native !== undefined) fetching.ack(native)
        fetched.delete(position)
      }
      // RabbitMQ does not answer an ack. It handles what a channel sends in order, so its next answer says that it has the acks.
      await channel.checkQueue(queue)
    },
    async [Symbol.asyncDispose]() {
      // A lost channel has returned its letters already.
      await fetching.returnAll().catch(() => {})
      if (givenPublisher === undefined) await publisher[Symbol.asyncDispose]?.()
      await channel.close().catch(() => {})
    },
  }
}

/** Milliseconds. Together they are shorter than the time that a queue gets to be closed. */
const fetchLimit = 2000
const returnLimit = 2000
const pollInterval = 10

/** The letters that a channel has fetched, and their return to the queue. */
class Fetching {
  readonly #channel: DeadLetterChannel
  readonly #queue: string
  readonly #count: number
  readonly #header: CountHeader
  #fetched = 0
  #unsettled = 0
  /** The last letter. A look may end before RabbitMQ has answered. */
  #last: Promise<RabbitmqMessage | false> = Promise.resolve(false)

  /** `count`: how many the queue has. `header`: where it counts the deliveries of each. */
  constructor(channel: DeadLetterChannel, queue: string, { count, header }: { readonly count: number; readonly header: CountHeader }) {
    this.#channel = channel
    this.#queue = queue
    this.#count = count
    this.#header = header
  }

  /** `false`: there is no letter left. */
  async next(): Promise<RabbitmqMessage | false> {
    this.#last = this.#channel.get(this.#queue)
    const native = await this.#last
    if (native === false) return false
    this.#fetched += 1
    this.#unsettled += 1
    return native
  }

  ack(native: RabbitmqMessage): void {
    this.#channel.ack(native, false)
    this.#unsettled -= 1
  }

  /**
   * Returns the letters that were not acked. With a nack: RabbitMQ 4.3 counts a channel that is closed as a failed delivery of its messages. Resolves when the queue has them again,
   * so that the next look does not miss some.
   */
  async returnAll(): Promise<void> {
    await this.#last
    if (this.#unsettled === 0) return
    await this.#fetchReturned()
    const { messageCount } = await this.#channel.checkQueue(this.#queue)
    const expected = messageCount + this.#unsettled
    this.#channel.nackAll(true)
    const end = systemRuntime.monotonic() + returnLimit
    // RabbitMQ does not answer a nack. Another consumer may take letters as soon as they are back: then the time runs out.
    while ((await this.#channel.checkQueue(this.#queue)).messageCount < expected && systemRuntime.monotonic() < end)
      await idle(systemRuntime, pollInterval)
  }

  /**
   * A quorum queue delivers returned messages first, in the order in which they returned. The other letters that earlier looks have returned are fetched too, or they would be before
   * those of this look.
   */
  async #fetchReturned(): Promise<void> {
    const end = systemRuntime.monotonic() + fetchLimit
    for (let native = await this.#last; this.#fetched < this.#count && systemRuntime.monotonic() < end; native = await this.next())
      if (native === false || deliveriesBefore(native, this.#header) === 0) return
  }
}

async function checkQueue(channel: DeadLetterChannel, queue: string): Promise<{ readonly messageCount: number }> {
  try {
    return await channel.checkQueue(queue)
  } catch (cause) {
    throw new AckordError('ACKORD_SOURCE_FAILED', `There is no queue '${queue}', or access to it is denied.`, { cause })
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
