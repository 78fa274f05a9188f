import { readFileSync } from 'node:fs'
import { AckordError, eventHandler, type Message, type RawMessage, Router, type RouterOptions, silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { type EventBridgeEvent, lambdaEventBridge, lambdaSqs, type SqsEvent, type SqsEventRecord } from '../../src/lambda/index.ts'

/** An event in the form that AWS documents. */
function recorded<Event>(name: string): Event {
  return JSON.parse(readFileSync(new URL(`events/${name}.json`, import.meta.url), 'utf8')) as Event
}

const runtime = new VirtualRuntime()
const context = (remaining = 30_000) => ({ getRemainingTimeInMillis: () => remaining })

/** A router that handles every message by one function. */
function routerOf(handle: (message: Message) => unknown, options: RouterOptions = {}): Router {
  const router = new Router({ runtime, logger: silentLogger, concurrency: 10, ...options })
  for (const type of ['order.placed', 'order.place', 'my-queue', 'OrderPlaced', 'orders.fifo']) {
    router.handle({
      type,
      handle: async (message) => {
        await handle(message)
        return []
      },
    })
  }
  return router
}

function record(id: string, more: Partial<SqsEventRecord> = {}): SqsEventRecord {
  return {
    messageId: id,
    body: JSON.stringify({
      specversion: '1.0',
      id: `e-${id}`,
      source: '/shop',
      type: 'order.place',
      datacontenttype: 'application/json',
      data: id,
    }),
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1545082649183' },
    messageAttributes: {},
    eventSourceARN: 'arn:aws:sqs:us-east-2:123456789012:my-queue',
    ...more,
  }
}

function grouped(id: string, group: string): SqsEventRecord {
  const attributes = { ApproximateReceiveCount: '1', MessageGroupId: group }
  return record(id, { attributes, eventSourceARN: 'arn:aws:sqs:us-east-2:123456789012:orders.fifo' })
}

const failures = (...ids: readonly string[]) => ({ batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })) })

describe('lambdaSqs()', () => {
  it('reads the documented event of a queue, and messages that are no CloudEvents', async () => {
    const seen: unknown[] = []
    const handler = lambdaSqs(
      routerOf(({ data, attributes, deliveryCount, origin }) => {
        seen.push({ data, ...attributes, deliveryCount, origin })
      }),
      { runtime },
    )
    expect(await handler(recorded<SqsEvent>('sqs'), context())).toEqual(failures())
    expect(seen).toEqual([
      {
        ...{
          data: { total: 12.5 },
          id: 'order-17',
          source: '/shop',
          type: 'order.placed',
          specversion: '1.0',
          datacontenttype: 'application/json',
        },
        ...{ deliveryCount: 1, origin: 'my-queue' },
      },
      {
        ...{
          data: { foo: 3 },
          id: '2e1424d4-f796-459a-8184-9c92662be6da',
          source: 'my-queue',
          type: 'my-queue',
          time: '2018-12-17T21:37:30.636Z',
        },
        ...{ deliveryCount: 2, origin: 'my-queue' },
      },
      {
        ...{
          data: { total: 7 },
          id: 'order-18',
          source: '/shop',
          type: 'order.placed',
          specversion: '1.0',
          datacontenttype: 'application/json',
        },
        ...{ deliveryCount: 1, origin: 'my-queue' },
      },
    ])
  })

  it('reports the messages that failed, and nothing else', async () => {
    const handler = lambdaSqs(
      routerOf(({ data }) => {
        if (data === 'b') throw new Error('out of stock')
      }),
      { runtime, logger: silentLogger },
    )
    expect(await handler({ Records: ['a', 'b', 'c'].map((id) => record(id)) }, context())).toEqual(failures('b'))
  })

  it('with a FIFO queue handles each group in order, and reports the rest of a group after a failure without handling it', async () => {
    const handled: unknown[] = []
    const router = routerOf(async ({ data }) => {
      handled.push(data)
      await settlePromises()
      if (data === 'a2') throw new Error('out of stock')
    })
    const event = { Records: [grouped('a1', 'a'), grouped('b1', 'b'), grouped('a2', 'a'), grouped('a3', 'a'), grouped('b2', 'b')] }
    expect(await lambdaSqs(router, { runtime, logger: silentLogger })(event, context())).toEqual(failures('a2', 'a3'))
    expect(handled.toSorted()).toEqual(['a1', 'a2', 'b1', 'b2'])
    expect(handled.indexOf('a1')).toBeLessThan(handled.indexOf('a2'))
  })

  it('publishes a rejected message to the dead letter, and reports it only without one, or if that fails', async () => {
    const reject = () => {
      throw new AckordError('ACKORD_INVALID_MESSAGE', 'poison', { retryable: false })
    }
    const event = { Records: [record('p')] }
    const logger = silentLogger
    expect(await lambdaSqs(routerOf(reject), { runtime, logger })(event, context())).toEqual(failures('p'))
    const publisher = recordingPublisher()
    const withLetter = lambdaSqs(routerOf(reject), { runtime, logger, deadLetter: { publisher, destination: 'orders-dead' } })
    expect(await withLetter(event, context())).toEqual(failures())
    expect(publisher.calls).toMatchObject([
      { destination: 'orders-dead', messages: [{ attributes: { id: 'e-p', deadletterdestination: 'my-queue' } }] },
    ])
    const down = recordingPublisher(async () => [{ ok: false, error: new Error('down') }])
    const withDead = lambdaSqs(routerOf(reject), { runtime, logger, deadLetter: { publisher: down, destination: 'orders-dead' } })
    expect(await withDead(event, context())).toEqual(failures('p'))
  })

  it('rejects a message that cannot be read', async () => {
    const publisher = recordingPublisher()
    const bad = record('bad', {
      body: 'no JSON',
      messageAttributes: { 'content-type': { dataType: 'String', stringValue: 'application/cloudevents+json' } },
    })
    const handler = lambdaSqs(
      routerOf(() => {}),
      { runtime, logger: silentLogger, deadLetter: { publisher, destination: 'orders-dead' } },
    )
    expect(await handler({ Records: [bad, record('good')] }, context())).toEqual(failures())
    const letters = publisher.calls.flatMap(({ messages }) => messages as readonly RawMessage[])
    expect(letters.map(({ data }) => new TextDecoder().decode(data))).toEqual(['no JSON'])
  })

  it('answers before the time limit of the platform, and reports the messages whose handlers still run or wait', async () => {
    const gate = deferred()
    const router = routerOf(async ({ data }) => (data === 'slow' ? await gate.promise : undefined), { concurrency: 2 })
    let answer: unknown
    const records = [record('slow'), record('a'), record('slow2', { body: record('slow').body }), record('b')]
    const answering = lambdaSqs(router, { runtime, logger: silentLogger })({ Records: records }, context(10_000)).then((given) => {
      answer = given
    })
    await runtime.advance(8999)
    expect(answer).toBeUndefined()
    await runtime.advance(501)
    expect(answer).toEqual(failures('slow', 'slow2', 'b'))
    gate.resolve()
    await answering
  })

  it('does not begin a message without time', async () => {
    const handled: unknown[] = []
    const handler = lambdaSqs(
      routerOf(({ data }) => void handled.push(data)),
      { runtime, logger: silentLogger },
    )
    expect(await handler({ Records: [record('a')] }, context(900))).toEqual(failures('a'))
    expect(handled).toEqual([])
  })

  it('without partial failures fails as a whole', async () => {
    const router = routerOf(({ data }) => {
      if (data !== 'a') throw new Error(`${data} failed`)
    })
    const handler = lambdaSqs(router, { runtime, logger: silentLogger, partialFailures: false })
    await expect(handler({ Records: [record('a'), record('b')] }, context())).rejects.toThrow('b failed')
    await expect(handler({ Records: [record('c'), record('b')] }, context())).rejects.toThrow('2 of 2 messages must be delivered again')
  })

  it('fails for an event that is none of SQS, instead of answering that everything was handled', async () => {
    const handler = lambdaSqs(
      routerOf(() => {}),
      { runtime },
    )
    // @ts-expect-error: the function has another trigger.
    await expect(handler({ detail: {} }, context())).rejects.toThrow('must get an event of SQS')
    // @ts-expect-error: the function was called by hand.
    await expect(handler({ Records: [{ body: 'x' }] }, context())).rejects.toThrow('a record without messageId')
    // @ts-expect-error: the wrapper has lost the context.
    await expect(handler({ Records: [record('a')] })).rejects.toThrow('must be the context that Lambda passes')
  })

  it('reports every message after the router was stopped', async () => {
    const router = routerOf(() => {})
    await router.stop()
    expect(await lambdaSqs(router, { runtime, logger: silentLogger })({ Records: [record('a')] }, context())).toEqual(failures('a'))
  })

  it('drains the outbox before it answers, within the time that is left, and a failure of that changes nothing', async () => {
    const drains: unknown[] = []
    const relay = {
      drain: async (options: object) => {
        drains.push(options)
        throw new Error('the broker is down')
      },
    }
    const router = routerOf(() => {})
    const handler = lambdaSqs(router, { runtime, logger: silentLogger, relay })
    expect(await handler({ Records: [record('a')] }, context())).toEqual(failures())
    expect(await handler({ Records: [record('a')] }, context(3000))).toEqual(failures())
    expect(
      await lambdaSqs(router, { runtime, relay, drainTimeout: 800, logger: silentLogger })({ Records: [record('a')] }, context()),
    ).toEqual(failures())
    expect(drains).toEqual([
      { deadline: 5000, count: false },
      { deadline: 2750, count: false },
      { deadline: 800, count: false },
    ])
  })

  it('rejects unknown options, a handler without handleOne(), and a relay without drain()', () => {
    const router = routerOf(() => {})
    // @ts-expect-error: a misspelt option.
    expect(() => lambdaSqs(router, { deadLeter: 'discard' })).toThrow("has no option 'deadLeter'")
    // @ts-expect-error: a handler of messages.
    expect(() => lambdaSqs(eventHandler({ type: 'order.place' }, () => {}))).toThrow('handler.handleOne must be a function')
    // @ts-expect-error: a publisher.
    expect(() => lambdaSqs(router, { relay: recordingPublisher() })).toThrow('relay.drain must be a function')
  })
})

describe('lambdaEventBridge()', () => {
  const logger = silentLogger

  it('reads the documented event by its envelope, and a CloudEvent in its detail', async () => {
    const seen: unknown[] = []
    const handler = lambdaEventBridge(
      routerOf(({ data, attributes: { id, source, type } }) => void seen.push({ data, id, source, type })),
      { runtime },
    )
    const event = recorded<EventBridgeEvent>('event-bridge')
    await handler(event, context())
    const detail = {
      specversion: '1.0',
      id: 'order-19',
      source: '/shop',
      type: 'order.placed',
      datacontenttype: 'application/json',
      data: { total: 3 },
    }
    await handler({ ...event, detail }, context())
    expect(seen).toEqual([
      { data: { orderId: '17' }, id: '53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa', source: 'shop.orders', type: 'OrderPlaced' },
      { data: { total: 3 }, id: 'order-19', source: '/shop', type: 'order.placed' },
    ])
  })

  it('fails if the event must be delivered again, after the outbox was drained', async () => {
    let drains = 0
    const relay = {
      drain: async () => {
        drains += 1
      },
    }
    const router = routerOf(() => {
      throw new Error('out of stock')
    })
    const handler = lambdaEventBridge(router, { runtime, logger, relay })
    await expect(handler(recorded('event-bridge'), context())).rejects.toThrow('out of stock')
    expect(drains).toBe(1)
  })

  it('fails for another event', async () => {
    const handler = lambdaEventBridge(
      routerOf(() => {}),
      { runtime, logger },
    )
    await expect(handler(recorded('sqs'), context())).rejects.toThrow('must get an event of EventBridge')
  })
})
