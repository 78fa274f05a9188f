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

it('rejects with the reason of its signal when that comes first', async () => {
  const reason = new Error('stop')
  const hanging = { publish: () => new Promise<never>(() => {}) }
  const controller = new AbortController()
  const publishing = publishAll(hanging, 'orders', messages, { signal: controller.signal })
  controller.abort(reason)
  await expect(publishing).rejects.toBe(reason)
})
