import { expect, it } from 'vitest'
import { Operations } from '../../src/trace/operations.ts'

const broker = { system: 'rabbitmq', serverAddress: 'broker.example', serverPort: 5672 }

it('an operation has the same attributes, as the same object, for each message of a destination', () => {
  const operations = new Operations('process', 'process')
  const first = operations.on('orders', broker)
  expect(operations.on('orders', broker)).toBe(first)
  expect(first).toMatchObject({
    spanName: 'process orders',
    attributes: {
      'messaging.system.name': 'rabbitmq',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'orders',
      'server.address': 'broker.example',
      'server.port': 5672,
    },
  })
})

it('a connection that has changed its server is noticed', () => {
  const operations = new Operations('process', 'process')
  operations.on('orders', broker)
  expect(operations.on('orders', { ...broker, serverAddress: 'other.example' }).attributes['server.address']).toBe('other.example')
})

it('a destination that is a URL is shown without its secrets', () => {
  const { spanName, attributes } = new Operations('send', 'send').on('https://user:secret@shop.example/hook?token=secret', undefined)
  expect(JSON.stringify([spanName, attributes])).not.toContain('secret')
})

it('destinations beyond a thousand are shown as one, so that invented names fill no metrics server', () => {
  const operations = new Operations('send', 'send')
  const names = new Set(
    Array.from({ length: 5000 }, (_, index) => operations.on(`reply-${index}`, broker).attributes['messaging.destination.name']),
  )
  expect(names.size).toBe(1001)
  expect(names).toContain('other')
  expect(operations.on('reply-7', broker).attributes['messaging.destination.name']).toBe('reply-7')
})
