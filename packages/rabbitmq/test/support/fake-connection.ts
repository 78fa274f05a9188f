import { EventEmitter } from 'node:events'
import { type Deferred, deferred } from '@ackord/testkit'
import type { RabbitmqChannel, RabbitmqConfirmChannel, RabbitmqConnection, RabbitmqMessage } from '../../src/index.ts'

/** A test-controlled fake of amqplib, for orders of events that a server cannot be made to produce. */
export class FakeConnection extends EventEmitter implements RabbitmqConnection {
  readonly channels: FakeChannel[] = []
  /** The outcomes of the next channel openings; `hang` simulates a connection that is being re-established. Without outcomes channels open immediately. */
  readonly outcomes: (Error | 'hang')[] = []
  readonly hanging: Deferred<FakeChannel>[] = []

  waitForConnect(): Promise<void> {
    return Promise.resolve()
  }

  createChannel(): Promise<FakeChannel> {
    const outcome = this.outcomes.shift()
    if (outcome instanceof Error) return Promise.reject(outcome)
    if (outcome === 'hang') {
      const hanging = deferred<FakeChannel>()
      this.hanging.push(hanging)
      return hanging.promise
    }
    const channel = new FakeChannel()
    this.channels.push(channel)
    return Promise.resolve(channel)
  }

  createConfirmChannel(): Promise<FakeChannel> {
    return this.createChannel()
  }

  get last(): FakeChannel {
    const channel = this.channels.at(-1)
    if (channel === undefined) throw new Error('No channel was opened.')
    return channel
  }
}

interface Published {
  readonly exchange: string
  readonly headers: Record<string, unknown>
  readonly confirm: (error: Error | null) => void
}

export class FakeChannel extends EventEmitter implements RabbitmqChannel, RabbitmqConfirmChannel {
  readonly acked: number[] = []
  readonly requeued: number[] = []
  readonly published: Published[] = []
  /** The return value of `publish`: whether the write buffer has room. */
  room = true
  closed = false
  /** The error that `publish` throws. */
  refusal: Error | undefined
  readonly #unconfirmed = new Set<(error: Error | null) => void>()
  #onMessage: ((message: RabbitmqMessage | null) => void) | undefined
  #tag = 0

  constructor() {
    super()
    this.on('close', () => {
      for (const confirm of this.#unconfirmed) confirm(new Error('channel closed'))
    })
  }

  get consuming(): boolean {
    return this.#onMessage !== undefined
  }

  async assertQueue(): Promise<void> {}

  async assertExchange(): Promise<void> {}

  async bindQueue(): Promise<void> {}

  async prefetch(): Promise<void> {}

  async consume(_queue: string, onMessage: (message: RabbitmqMessage | null) => void): Promise<void> {
    this.#onMessage = onMessage
  }

  async cancel(): Promise<void> {
    this.#onMessage = undefined
  }

  ack(message: RabbitmqMessage): void {
    this.acked.push(message.fields.deliveryTag)
  }

  nack(message: RabbitmqMessage): void {
    this.requeued.push(message.fields.deliveryTag)
  }

  publish(
    exchange: string,
    _routingKey: string,
    _content: Buffer,
    options: { headers: Record<string, unknown> },
    onConfirm: (error: unknown) => void,
  ): boolean {
    if (this.refusal !== undefined) throw this.refusal
    const confirm = (error: Error | null) => {
      if (this.#unconfirmed.delete(confirm)) onConfirm(error)
    }
    this.#unconfirmed.add(confirm)
    this.published.push({ exchange, headers: options.headers, confirm })
    return this.room
  }

  async close(): Promise<void> {
    this.lose()
  }

  deliver(id: string): void {
    this.#tag += 1
    this.#onMessage?.(native({ properties: { messageId: id } }, this.#tag))
  }

  cancelByServer(): void {
    this.#onMessage?.(null)
  }

  /** In the same order as amqplib: the error first, then 'close'. */
  lose(error?: Error): void {
    if (this.closed) return
    this.closed = true
    if (error !== undefined) this.emit('error', error)
    this.emit('close')
  }
}

export function native(
  parts: { readonly content?: Buffer; readonly redelivered?: boolean; readonly properties?: RabbitmqMessage['properties'] } = {},
  deliveryTag = 1,
): RabbitmqMessage {
  const { content = Buffer.alloc(0), redelivered = false, properties = {} } = parts
  return { content, fields: { deliveryTag, redelivered, exchange: '', routingKey: 'orders' }, properties }
}
