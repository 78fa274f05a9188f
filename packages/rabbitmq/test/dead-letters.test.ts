import { silentLogger } from '@ackord/core'
import { expect, it } from 'vitest'
import { type DeadLetterChannel, type DeadLetterConnection, type RabbitmqMessage, rabbitmqDeadLetters } from '../src/index.ts'
import { FakeChannel, FakeConnection } from './support/fake-connection.ts'

const signal = new AbortController().signal
const look = { limit: 100, signal }

/** A channel to a server of this version, whose queue has one letter. */
class LetterChannel extends FakeChannel implements DeadLetterChannel {
  readonly connection: { readonly serverProperties: { readonly version: string } }
  readonly calls: string[] = []
  readonly #headers: Record<string, unknown>
  readonly #redelivered: boolean
  #read = false
  #ready = 1

  constructor(version: string, headers: Record<string, unknown>, redelivered: boolean) {
    super()
    this.connection = { serverProperties: { version } }
    this.#headers = headers
    this.#redelivered = redelivered
  }

  async checkQueue() {
    return { messageCount: this.#ready }
  }

  async get(): Promise<RabbitmqMessage | false> {
    if (this.#read) return false
    this.#read = true
    this.#ready = 0
    this.calls.push('get')
    const fields = { deliveryTag: 1, redelivered: this.#redelivered, exchange: '', routingKey: 'dead' }
    return { content: Buffer.from('{}'), fields, properties: { messageId: 'a', type: 'order.place', headers: this.#headers } }
  }

  nackAll(requeue: boolean): void {
    this.#ready = 1
    this.calls.push(`nackAll ${requeue}`)
  }

  override async close(): Promise<void> {
    this.calls.push('close')
  }
}

function openLetters(version: string, headers: Record<string, unknown>, redelivered = true) {
  const channels: LetterChannel[] = []
  const connection: DeadLetterConnection = Object.assign(new FakeConnection(), {
    async createChannel() {
      const channel = new LetterChannel(version, headers, redelivered)
      channels.push(channel)
      return channel
    },
  })
  const letters = rabbitmqDeadLetters(connection, 'orders.dead', { logger: silentLogger })
  return { letters, calls: () => channels.map(({ calls }) => calls.join(', ')) }
}

it('letters are returned with a nack before their channel is closed: RabbitMQ 4.3 counts a closed channel as a failed delivery, and a nack not', async () => {
  const { letters, calls } = openLetters('4.3.6', { 'x-delivery-count': 15, 'x-acquired-count': 40 })
  expect((await letters.list(look)).letters).toHaveLength(1)
  expect((await letters.list(look)).letters).toHaveLength(1)
  expect(calls()).toEqual(['get, nackAll true, close', 'get, nackAll true, close'])
})

it('letters that were delivered too often are not fetched again by the next look', async () => {
  const { letters, calls } = openLetters('4.2.9', { 'x-delivery-count': 15 })
  await expect(letters.list(look)).rejects.toMatchObject({ code: 'ACKORD_DELIVERY_LIMIT' })
  await expect(letters.find('a', look)).rejects.toMatchObject({ code: 'ACKORD_DELIVERY_LIMIT' })
  expect(calls()).toEqual(['get, nackAll true, close', 'close'])
})

it("a sender's count in a letter that was never delivered is ignored", async () => {
  const { letters } = openLetters('4.0.5', { 'x-delivery-count': 99 }, false)
  expect((await letters.list(look)).letters).toHaveLength(1)
})

it.each([0, 1, 2.5, Number.NaN, Infinity, '20'])('a delivery limit of %s is rejected', (deliveryLimit) => {
  const create = () => rabbitmqDeadLetters(new FakeConnection() as never, 'orders.dead', { deliveryLimit: deliveryLimit as number })
  expect(create).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option: 'deliveryLimit' }))
})
