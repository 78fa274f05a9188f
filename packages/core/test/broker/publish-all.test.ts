import { expect, it } from 'vitest'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { publishAll } from '../../src/broker/publisher.ts'
import { marshal } from '../../src/message/marshal.ts'
import { jsonMarshaler } from '../../src/message/marshaler.ts'
import { Message } from '../../src/message/message.ts'

const messages = [1, 2].map((data) => marshal(new Message(data, { type: 'a' }), jsonMarshaler))

it('resolves when the broker has confirmed all messages', async () => {
  const broker = new MemoryBroker({ history: 10 })
  await publishAll(broker, 'orders', messages)
  expect(broker.published('orders')).toHaveLength(2)
})

it('rejects when one is not confirmed, so that no result can be forgotten', async () => {
  const broker = new MemoryBroker()
  broker.fail('orders', new Error('down'))
  await expect(publishAll(broker, 'orders', messages)).rejects.toMatchObject({
    code: 'ACKORD_PUBLISH_FAILED',
    message: expect.stringContaining('2 of 2'),
  })
})

it('says why in its own message, with the causes of the first failure and without passwords', async () => {
  const broker = new MemoryBroker()
  const cause = new Error('connect ECONNREFUSED amqp://app:secret@rabbit:5672')
  broker.fail('orders', new Error('The broker is down.', { cause }))
  await expect(publishAll(broker, 'orders', messages)).rejects.toThrow(
    "2 of 2 messages to 'orders' were not confirmed. The first failure: The broker is down. Cause: connect ECONNREFUSED amqp://rabbit:5672",
  )
  const error: unknown = await publishAll(broker, 'orders', messages.slice(1)).catch((reason: unknown) => reason)
  expect(String(error)).toBe(
    "AckordError: 1 of 1 messages to 'orders' were not confirmed: The broker is down. Cause: connect ECONNREFUSED amqp://rabbit:5672",
  )
})

it('names the first failure, whatever value the publisher reports as its error', async () => {
  const failing = (error: unknown) => ({ publish: async () => [{ ok: true }, { ok: false, error }] as const })
  const messageOf = (error: unknown) => publishAll(failing(error), 'orders', messages).catch((reason: Error) => reason.message)
  expect(await messageOf(new Error('too\nlarge'))).toBe("1 of 2 messages to 'orders' were not confirmed: too\\nlarge")
  expect(await messageOf('a text')).toMatch(/were not confirmed: A value that is not an error was thrown: a string\.$/)
  expect(await messageOf(undefined)).toBe("1 of 2 messages to 'orders' were not confirmed.")
})

it('keeps its message short if the failure has a long one', async () => {
  const broker = new MemoryBroker()
  broker.fail('orders', new Error('x'.repeat(100_000)))
  const error = await publishAll(broker, 'orders', messages).catch((reason: Error) => reason)
  expect((error as Error).message.length).toBeLessThan(1200)
})

it('rejects with the reason of its signal when that comes first', async () => {
  const reason = new Error('stop')
  const hanging = { publish: () => new Promise<never>(() => {}) }
  const controller = new AbortController()
  const publishing = publishAll(hanging, 'orders', messages, { signal: controller.signal })
  controller.abort(reason)
  await expect(publishing).rejects.toBe(reason)
})
