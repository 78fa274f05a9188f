import { describe, expect, it } from 'vitest'
import { createPublisher } from '../../src/broker/create-publisher.ts'
import { MemoryBroker } from '../../src/broker/memory/memory-broker.ts'
import { Message } from '../../src/message/message.ts'

describe('close()', () => {
  it('of a publisher is its disposal: calls in flight end first, later ones are rejected, and it happens once', async () => {
    const steps: string[] = []
    let confirm = () => {}
    const publisher = createPublisher<string>({
      broker: 'Test',
      route: (destination) => destination,
      write: () => 'written',
      send(messages) {
        confirm = () => {
          for (const message of messages) message.settle({ ok: true })
        }
      },
      close: async () => void steps.push('closed'),
    })
    const message = new Message(new Uint8Array(), { id: 'm1', type: 't', source: '/s' })
    const options = { signal: new AbortController().signal }
    const publishing = publisher.publish('orders', [message], options).then(() => steps.push('published'))
    const closing = publisher.close()
    await expect(publisher.publish('orders', [message], options)).rejects.toThrow('closed')
    confirm()
    await Promise.all([publishing, closing, publisher.close(), publisher[Symbol.asyncDispose]()])
    expect(steps).toEqual(['published', 'closed'])
  })

  it('of a source ends its iteration, and returns the messages that were not settled', async () => {
    const broker = new MemoryBroker()
    await broker.publish('orders', [new Message(new Uint8Array(), { id: 'm1', type: 't', source: '/s' })])
    const source = broker.source('orders')
    const reading = source.messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
    expect((await reading.next()).value?.id).toBe('m1')
    await Promise.all([source.close(), source.close()])
    expect((await reading.next()).done).toBe(true)
    const other = broker.source('orders').messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
    expect((await other.next()).value?.id).toBe('m1')
  })
})
