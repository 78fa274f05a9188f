import { type Metrics, type Publisher, Router, type SharedPorts } from '@ackord/core'
import { expect, it } from 'vitest'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { trackedMessage } from '../../../core/test/support/tracked-message.ts'
import { createInboxMiddleware, MemoryOutboxStore, type OutboxStore, openInbox, outboxSource, Relay } from '../../src/index.ts'

const metrics: Metrics = { count() {}, observe() {}, gauge() {} }

function openParts() {
  const inherited = new Map<string, SharedPorts>()
  const part = (name: string) => ({ inheritPorts: (ports: SharedPorts) => void inherited.set(name, ports) })
  const publisherNamed = (name: string): Publisher => ({ publish: async () => [], ...part(name) })
  const store: OutboxStore = Object.assign(new MemoryOutboxStore(), part('store'))
  return { inherited, store, publisherNamed }
}

it('a relay passes its logger and metrics on to the store, each of its publishers, and the publisher of its dead letter', () => {
  const { inherited, store, publisherNamed } = openParts()
  const logger = recordingLogger()
  new Relay(store, {
    publisher: { orders: publisherNamed('orders'), '*': publisherNamed('the rest') },
    deadLetter: { publisher: publisherNamed('dead letter'), destination: 'dead' },
    logger,
    metrics,
  })
  expect([...inherited.keys()]).toEqual(['store', 'orders', 'the rest', 'dead letter'])
  for (const ports of inherited.values()) {
    ports.logger?.info({}, 'arrived')
    expect(ports.metrics).toBeDefined()
  }
  expect(logger.lines).toHaveLength(4)
})

it('a relay has nothing to pass on if it was given nothing', () => {
  const { inherited, store, publisherNamed } = openParts()
  new Relay(store, { publisher: publisherNamed('publisher') })
  expect([...inherited.values()]).toEqual(new Array(2).fill({ logger: undefined, metrics: undefined }))
})

it('a relay works with a store and a publisher that inherit nothing', () => {
  expect(() => new Relay(new MemoryOutboxStore(), { publisher: { publish: async () => [] }, logger: recordingLogger() })).not.toThrow()
})

it('a source of records passes its logger on to the store', async () => {
  const { inherited, store } = openParts()
  await using _source = outboxSource(store, { logger: recordingLogger() })
  expect(inherited.get('store')?.logger).toBeDefined()
})

it('an inbox counts and logs its duplicates by the ports of the router', async () => {
  const counted: string[] = []
  const logger = recordingLogger()
  const inbox = createInboxMiddleware({
    inbox: openInbox({ consumer: 'orders' }),
    store: { record: () => 'duplicate' },
    info: {},
  })
  const { message } = trackedMessage({}, { type: 'order.place', id: 'm-1', source: '/shop' })
  const router = new Router({ logger, metrics: { ...metrics, count: (name) => void counted.push(name) } })
    .use(inbox)
    .handle({ type: 'order.place', handle: async () => [] })
  async function* input() {
    yield message
  }
  for await (const _output of router.pipe(input())) throw new Error('There is no output.')
  expect(counted).toContain('ackord.inbox.duplicates')
  expect(logger.at('debug')).toMatchObject([
    { text: 'A duplicate was skipped.', fields: { consumer: 'orders', id: 'm-1', source: '/shop' } },
  ])
})
