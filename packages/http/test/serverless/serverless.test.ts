import { readFileSync } from 'node:fs'
import { AckordError, type Message, Router, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import {
  azureEventGrid,
  azureQueue,
  azureServiceBus,
  type CloudflareBatch,
  type CloudflareMessage,
  cloudflareQueue,
  type GoogleCloudEvent,
  googleCloudEvent,
} from '../../src/serverless/index.ts'

/** An event in the form that its platform documents. */
function recorded<Event>(name: string): Event {
  return JSON.parse(readFileSync(new URL(`events/${name}.json`, import.meta.url), 'utf8')) as Event
}

const runtime = new VirtualRuntime()
const ports = { runtime, logger: silentLogger }

/** The attributes of a message, its data and the number of its deliveries. */
type Seen = Readonly<Record<string, unknown>>

/** A router that handles messages of any type, and records them. */
function openRouter(handle: (message: Message) => unknown = () => {}) {
  const seen: Seen[] = []
  const router = new Router({ ...ports, concurrency: 10, redeliveryDelay: () => 1500 })
  const types = ['order.placed', 'orders', 'google.cloud.pubsub.topic.v1.messagePublished', 'google.cloud.storage.object.v1.finalized']
  for (const type of [...types, 'Microsoft.Storage.BlobCreated', 'OrderPlaced']) {
    router.handle({
      type,
      async handle(message) {
        seen.push({ ...message.attributes, data: message.data, deliveries: message.deliveryCount })
        await handle(message)
        return []
      },
    })
  }
  return { router, seen }
}

const failing = () => {
  throw new Error('out of stock')
}
const event = { specversion: '1.0', id: 'e1', source: '/shop', type: 'order.placed', datacontenttype: 'application/json' }
const read = { ...event, data: { total: 1 } }

describe('googleCloudEvent()', () => {
  it('reads a CloudEvent, with its extensions', async () => {
    const { router, seen } = openRouter()
    await googleCloudEvent(router, ports)(recorded('google-storage'))
    expect(seen).toMatchObject([{ id: '1096434104173400', bucket: 'some-bucket', data: { name: 'folder/Test.cs', size: '352' } }])
  })

  it('unwraps a message of Pub/Sub', async () => {
    const { router, seen } = openRouter()
    await googleCloudEvent(router, ports)(recorded('google-pubsub'))
    expect(seen).toMatchObject([
      {
        ...{ id: '2070443601311540', source: '//pubsub.googleapis.com/projects/sample-project/topics/orders', partitionkey: 'customer-7' },
        ...{ data: { total: 12 }, traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      },
    ])
  })

  it.each([
    [
      'in binary mode',
      { total: 1 },
      { 'ce-id': 'e1', 'ce-source': '/shop', 'ce-type': 'order.placed', 'ce-specversion': '1.0', 'content-type': 'application/json' },
    ],
    ['in structured mode', read, { 'content-type': 'application/cloudevents+json' }],
    ['that is not declared', read, {}],
  ])('reads a CloudEvent in a message of Pub/Sub %s', async (_mode, content, attributes) => {
    const { router, seen } = openRouter()
    const pubsub = recorded<GoogleCloudEvent>('google-pubsub')
    const message = { data: Buffer.from(JSON.stringify(content)).toString('base64'), messageId: 'm1', attributes }
    await googleCloudEvent(router, ports)({ ...pubsub, data: { message, subscription: 's' } })
    expect(seen).toMatchObject([{ ...event, data: { total: 1 } }])
  })

  it('reads data that the framework has left as bytes', async () => {
    const { router, seen } = openRouter()
    await googleCloudEvent(router, ports)({ ...event, data: Buffer.from('{"total":1}') } as GoogleCloudEvent)
    expect(seen).toMatchObject([{ id: 'e1', data: { total: 1 } }])
  })

  it('throws if the event must be delivered again, and not if it is in the dead letter', async () => {
    await expect(googleCloudEvent(openRouter(failing).router, ports)(recorded('google-storage'))).rejects.toThrow('out of stock')
    const publisher = recordingPublisher()
    const { router } = openRouter(() => {
      throw new AckordError('ACKORD_INVALID_MESSAGE', 'poison', { retryable: false })
    })
    await expect(googleCloudEvent(router, ports)(recorded('google-storage'))).rejects.toThrow('poison')
    await googleCloudEvent(router, { ...ports, deadLetter: { publisher, destination: 'dead' } })(recorded('google-storage'))
    expect(publisher.calls).toHaveLength(1)
  })

  it('throws for what is no CloudEvent', async () => {
    const handler = googleCloudEvent(openRouter().router, ports)
    await expect(handler({ data: 'x' } as unknown as GoogleCloudEvent)).rejects.toThrow('must get a CloudEvent')
  })

  it('ends before its time-out, although the handler still runs', async () => {
    const gate = deferred()
    const handled = googleCloudEvent(openRouter(() => gate.promise).router, { ...ports, timeout: 10_000 })(recorded('google-storage'))
    const failed = expect(handled).rejects.toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT' })
    await runtime.advance(9500)
    await failed
    gate.resolve()
  })

  it('drains the outbox', async () => {
    const drains: unknown[] = []
    const relay = { drain: async (options: object) => drains.push(options) }
    await googleCloudEvent(openRouter().router, { ...ports, relay })(recorded('google-storage'))
    expect(drains).toEqual([{ deadline: 5000, count: false }])
  })
})

describe('azureServiceBus()', () => {
  const options = { trigger: { type: 'serviceBusTrigger', queueName: 'orders' } }
  const triggerMetadata = {
    ...{ messageId: 'm1', deliveryCount: 2, enqueuedTimeUtc: '2026-01-01T00:00:00.000Z', contentType: 'application/json' },
    ...{ correlationId: 'c1', sessionId: 's1', sequenceNumber: 4, applicationProperties: {} },
  }

  it('reads a message by its properties', async () => {
    const { router, seen } = openRouter()
    await azureServiceBus(router, ports)({ total: 1 }, { options, triggerMetadata })
    expect(seen).toEqual([
      {
        ...{ id: 'm1', source: 'orders', type: 'orders', time: '2026-01-01T00:00:00.000Z', correlationid: 'c1', partitionkey: 's1' },
        ...{ datacontenttype: 'application/json', data: { total: 1 }, deliveries: 2 },
      },
    ])
  })

  it('reads a CloudEvent in binary mode, as the AMQP publisher writes it, and in structured mode', async () => {
    const { router, seen } = openRouter()
    const handler = azureServiceBus(router, ports)
    const properties = (prefix: string) =>
      Object.fromEntries(['specversion', 'id', 'source', 'type'].map((name) => [prefix + name, event[name as 'id']]))
    for (const prefix of ['cloudEvents:', 'cloudEvents_']) {
      await handler({ total: 1 }, { options, triggerMetadata: { ...triggerMetadata, applicationProperties: properties(prefix) } })
    }
    await handler(read, { options, triggerMetadata: { ...triggerMetadata, contentType: 'application/cloudevents+json' } })
    expect(seen).toMatchObject([read, read, read])
  })

  it('reads a batch, and throws if one of its messages failed', async () => {
    const { router, seen } = openRouter(({ data }) => (data === 2 ? failing() : undefined))
    const metadata = {
      ...{ messageIdArray: ['m1', 'm2', 'm3'], deliveryCountArray: [1, 3, 1], contentTypeArray: ['application/json', null, ''] },
      ...{ applicationPropertiesArray: [{}, {}, {}] },
    }
    const handled = azureServiceBus(router, ports)([1, 2, [3]], { options, triggerMetadata: metadata })
    await expect(handled).rejects.toThrow('out of stock')
    expect(seen).toMatchObject([
      { id: 'm1', data: 1, deliveries: 1 },
      { id: 'm2', data: 2, deliveries: 3 },
      { id: 'm3', data: [3], deliveries: 1 },
    ])
  })

  it('reads a single message whose JSON is an array', async () => {
    const { router, seen } = openRouter()
    await azureServiceBus(router, ports)([1, 2], { options, triggerMetadata })
    expect(seen).toMatchObject([{ id: 'm1', data: [1, 2] }])
  })
})

describe('azureQueue()', () => {
  it('reads a message of a storage queue, and throws if it must be delivered again', async () => {
    const context = {
      options: { trigger: { type: 'queueTrigger', queueName: 'orders' } },
      triggerMetadata: { id: 'q1', dequeueCount: 1, insertionTime: '2026-01-01T00:00:00.000Z', popReceipt: 'p' },
    }
    const { router, seen } = openRouter()
    await azureQueue(router, ports)({ total: 1 }, context)
    await azureQueue(router, ports)(read, context)
    expect(seen).toMatchObject([{ id: 'q1', source: 'orders', data: { total: 1 }, deliveries: 1 }, read])
    await expect(azureQueue(openRouter(failing).router, ports)('1', context)).rejects.toThrow('out of stock')
  })
})

describe('azureEventGrid()', () => {
  it('reads CloudEvents, and events in the schema of Event Grid', async () => {
    const { router, seen } = openRouter()
    const handler = azureEventGrid(router, ports)
    await handler(read, {})
    await handler(recorded('azure-event-grid'), {})
    expect(seen).toMatchObject([
      read,
      {
        ...{ id: '831e1650-001e-001b-66ab-eeb76e069631', type: 'Microsoft.Storage.BlobCreated', time: '2017-06-26T18:41:00.958Z' },
        ...{
          subject: '/blobServices/default/containers/test-container/blobs/new-file.txt',
          data: { api: 'PutBlockList', contentLength: 524288 },
        },
      },
    ])
    await expect(handler({ foo: 1 }, {})).rejects.toThrow('must get a CloudEvent')
  })
})

describe('cloudflareQueue()', () => {
  function batchOf(...bodies: readonly unknown[]): { readonly batch: CloudflareBatch; readonly settled: unknown[] } {
    const settled: unknown[] = []
    const messages = bodies.map((body, index): CloudflareMessage => {
      const id = `c${index + 1}`
      const retry: CloudflareMessage['retry'] = (options) => settled.push([id, 'retry', options])
      return { id, timestamp: new Date('2026-01-01T00:00:00Z'), body, attempts: 1, ack: () => settled.push([id, 'ack']), retry }
    })
    return { batch: { queue: 'orders', messages }, settled }
  }

  it('acks what was handled, and retries what failed after its delay, in seconds', async () => {
    const { router, seen } = openRouter(({ data }) => (data === 'bad' ? failing() : undefined))
    const { batch, settled } = batchOf({ total: 1 }, '"bad"', read, new TextEncoder().encode('5').buffer)
    await cloudflareQueue(router, ports)(batch)
    expect(settled.toSorted()).toEqual([
      ['c1', 'ack'],
      ['c2', 'retry', { delaySeconds: 2 }],
      ['c3', 'ack'],
      ['c4', 'ack'],
    ])
    expect(seen).toMatchObject([
      { id: 'c1', source: 'orders', type: 'orders', time: '2026-01-01T00:00:00.000Z', data: { total: 1 }, deliveries: 1 },
      { id: 'c2', data: 'bad' },
      read,
      { id: 'c4', data: 5 },
    ])
  })

  it('rejects a batch that is none', async () => {
    await expect(cloudflareQueue(openRouter().router, ports)({} as CloudflareBatch)).rejects.toThrow(
      'must get a batch of Cloudflare Queues',
    )
  })
})
