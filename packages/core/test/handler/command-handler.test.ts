import { runInNewContext } from 'node:vm'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type AckordError, type ErrorCode, isAckordError } from '../../src/errors.ts'
import type { Handler } from '../../src/handler/handler.ts'
import { dotCase, kebabCase } from '../../src/handler/naming.ts'
import { commandHandler } from '../../src/handler/typed-handler.ts'
import { messageKey, rootContext } from '../../src/message/context.ts'
import { defineEvent } from '../../src/message/define-event.ts'
import { ackingOf, Message } from '../../src/message/message.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { Router } from '../../src/router/router.ts'
import { trackedMessage } from '../support/tracked-message.ts'

class PlaceOrder {
  static made = 0
  readonly orderId: string
  constructor(orderId: string) {
    PlaceOrder.made += 1
    this.orderId = orderId
  }
  get label(): string {
    return `order ${this.orderId}`
  }
}

class OrderPlaced {
  readonly orderId: string
  constructor(orderId: string) {
    this.orderId = orderId
  }
}

const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const context = rootContext()
const source = '/orders'

function command(data: unknown, type = 'order.place'): Message {
  return new Message(data, { type, id: 'c-1' })
}

async function failureOf(promise: Promise<unknown>, code: ErrorCode): Promise<AckordError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!isAckordError(error, code)) throw new Error(`expected ${code}`, { cause: error })
  return error
}

describe('commandHandler with a string as type', () => {
  it('passes the data unchanged and the context, and returns the events', async () => {
    const data = { orderId: 'o-1' }
    const message = command(data)
    const inner = message.context(context)
    const handler = commandHandler({ type: 'order.place', source }, async (received: typeof data, receivedContext) => {
      expect(received).toBe(data)
      expect(receivedContext).toBe(inner)
      expect(receivedContext.get(messageKey)).toBe(message)
      return [orderPlaced({ orderId: received.orderId })]
    })
    expect(handler.type).toBe('order.place')
    const outputs = await handler.handle(message, inner)
    expect(outputs).toHaveLength(1)
    expect(outputs[0]?.data).toEqual({ orderId: 'o-1' })
    expect(outputs[0]?.attributes).toEqual({ type: 'order.placed', source: '/orders' })
  })

  it.each([
    ['an asynchronous function', async () => [orderPlaced({ orderId: '1' }), orderPlaced({ orderId: '2' })]],
    ['a synchronous function', () => [orderPlaced({ orderId: '1' }), orderPlaced({ orderId: '2' })]],
  ])('accepts %s and keeps the order of its events', async (_, handle) => {
    const outputs = await commandHandler({ type: 'order.place', source }, handle).handle(command({}), context)
    expect(outputs.map((output) => output.data)).toEqual([{ orderId: '1' }, { orderId: '2' }])
  })

  it('treats nothing, undefined and an empty array as no events', async () => {
    for (const handle of [() => {}, async () => {}, () => undefined, async () => []]) {
      expect(await commandHandler({ type: 'a', source }, handle).handle(command({}), context)).toEqual([])
    }
  })

  it.each([new Error('no stock'), 'a text', undefined, null, { code: 5 }])('rethrows %s unchanged', async (thrown) => {
    const failing = [
      commandHandler({ type: 'a', source }, () => {
        throw thrown
      }),
      commandHandler({ type: 'a', source }, async () => {
        throw thrown
      }),
    ]
    for (const handler of failing) {
      const caught: unknown = await handler.handle(command({}), context).then(
        () => 'nothing was thrown',
        (error: unknown) => error,
      )
      expect(caught).toBe(thrown)
    }
  })

  it('does not await the data', async () => {
    const data = Promise.resolve('not data')
    const received: unknown[] = []
    await commandHandler({ type: 'a', source }, (value) => void received.push(value)).handle(command(data), context)
    expect(received[0]).toBe(data)
  })
})

describe('commandHandler with a class as type', () => {
  afterEach(() => {
    PlaceOrder.made = 0
  })

  it('names the type after the class', () => {
    expect(commandHandler({ type: PlaceOrder, source }, () => {}).type).toBe('PlaceOrder')
    expect(commandHandler({ type: PlaceOrder, source, naming: dotCase }, () => {}).type).toBe('place.order')
    expect(commandHandler({ type: PlaceOrder, source, naming: kebabCase }, () => {}).type).toBe('place-order')
  })

  it('passes an instance on, also one of a subclass', async () => {
    class PlaceUrgentOrder extends PlaceOrder {}
    for (const data of [new PlaceOrder('o-1'), new PlaceUrgentOrder('o-1')]) {
      const received: unknown[] = []
      await commandHandler({ type: PlaceOrder, source }, (value) => void received.push(value)).handle(command(data), context)
      expect(received[0]).toBe(data)
    }
  })

  it('creates an instance from a plain object without running the constructor or changing the object', async () => {
    const data = JSON.parse('{"orderId":"o-1"}')
    const received: PlaceOrder[] = []
    await commandHandler({ type: PlaceOrder, source }, (value) => void received.push(value)).handle(command(data), context)
    expect(received[0]).toBeInstanceOf(PlaceOrder)
    expect(received[0]?.label).toBe('order o-1')
    expect(PlaceOrder.made).toBe(0)
    expect(Object.getPrototypeOf(data)).toBe(Object.prototype)
  })

  it('treats an object without prototype as a plain one', async () => {
    const data = Object.assign(Object.create(null), { orderId: 'o-2' })
    const labels: string[] = []
    await commandHandler({ type: PlaceOrder, source }, (value) => void labels.push(value.label)).handle(command(data), context)
    expect(labels).toEqual(['order o-2'])
  })

  it('runs no setter and changes no prototype for members of the payload', async () => {
    const data = JSON.parse('{"orderId":"o-1","label":"mine","__proto__":{"admin":true}}')
    const received: PlaceOrder[] = []
    await commandHandler({ type: PlaceOrder, source }, (value) => void received.push(value)).handle(command(data), context)
    expect(received[0]).toBeInstanceOf(PlaceOrder)
    expect(received[0]).not.toHaveProperty('admin')
    expect(received[0]?.label).toBe('mine')
  })

  it.each([
    ['null', null, 'null'],
    ['nothing', undefined, 'undefined'],
    ['an array', ['secret'], 'an array'],
    ['a text', 'secret', 'a string'],
    ['bytes', new Uint8Array([1]), 'an instance of Uint8Array'],
    ['an instance of another class', new OrderPlaced('secret'), 'an instance of OrderPlaced'],
  ])('rejects %s permanently instead of running with an empty command', async (_, data, found) => {
    let calls = 0
    const handler = commandHandler({ type: PlaceOrder, source }, () => void calls++)
    const error = await failureOf(handler.handle(command(data), context), 'ACKORD_WRONG_DATA')
    expect(error.retryable).toBe(false)
    expect(error.message).toContain(`an instance of PlaceOrder or a plain object; it is ${found}`)
    expect(error.message).toContain("(id 'c-1')")
    expect(error.message).not.toContain('secret')
    expect(calls).toBe(0)
  })

  it("creates the instance from the schema's output", async () => {
    const schema = z.object({ orderId: z.string().trim() })
    const received: PlaceOrder[] = []
    const handler = commandHandler({ type: PlaceOrder, schema, source }, (value) => void received.push(value))
    await handler.handle(command({ orderId: ' o-1 ', more: 1 }), context)
    expect(received[0]).toBeInstanceOf(PlaceOrder)
    expect({ ...received[0] }).toEqual({ orderId: 'o-1' })
  })

  it('rejects a class without a name', () => {
    const anonymous = (() => class {})()
    expect(() => commandHandler({ type: anonymous, source }, () => {})).toThrow('type is a class without a name')
  })
})

describe('commandHandler with a definition as type', () => {
  it('takes type and schema from it', async () => {
    const placeOrder = defineEvent('order.place', z.object({ orderId: z.string().trim() }))
    const received: unknown[] = []
    const handler = commandHandler({ type: placeOrder, source }, (value) => void received.push(value))
    expect(handler.type).toBe('order.place')
    await handler.handle(command({ orderId: ' o-1 ' }), context)
    expect(received[0]).toEqual({ orderId: 'o-1' })
    await failureOf(handler.handle(command({}), context), 'ACKORD_VALIDATION_FAILED')
  })

  it('accepts a schema of its own only if the definition has none', async () => {
    const schema = z.object({ orderId: z.string() })
    const bare = defineEvent<{ orderId: string }>('order.place')
    const handler = commandHandler({ type: bare, schema, source }, () => {})
    await failureOf(handler.handle(command({}), context), 'ACKORD_VALIDATION_FAILED')
    const complete = defineEvent('order.place', schema)
    expect(() => commandHandler({ type: complete, schema, source }, () => {})).toThrow(
      "schema is already defined by the event 'order.place'",
    )
  })
})

describe('outputs of a commandHandler', () => {
  const outputsOf = (outputs: unknown, options: object = {}) =>
    commandHandler({ type: 'order.place', source, ...options }, () => outputs as object[]).handle(command({}), context)

  it('become events named after their class', async () => {
    const event = new OrderPlaced('o-1')
    const [asNamed] = await outputsOf([event])
    expect(asNamed?.type).toBe('OrderPlaced')
    expect(asNamed?.data).toBe(event)
    const [dotted] = await outputsOf([event], { naming: dotCase })
    expect(dotted?.attributes).toEqual({ type: 'order.placed', source: '/orders' })
  })

  it("get the handler's source if they have none", async () => {
    const outputs = await outputsOf([
      orderPlaced({ orderId: '1' }),
      orderPlaced({ orderId: '2' }, { source: '/mine' }),
      orderPlaced({ orderId: '3' }, { source: undefined }),
      orderPlaced({ orderId: '4' }, { source: '' }),
    ])
    expect(outputs.map((output) => output.source)).toEqual(['/orders', '/mine', '/orders', '/orders'])
  })

  it('get no id, time or specversion here: the router adds them', async () => {
    const [output] = await outputsOf([orderPlaced({ orderId: '1' })])
    expect(Object.keys(output?.attributes ?? {}).sort()).toEqual(['source', 'type'])
  })

  it('get the attributes of the options unless they have their own', async () => {
    const attributes = { tenant: 'a', subject: 'default', priority: 3 }
    const [first, second] = await outputsOf(
      [orderPlaced({ orderId: '1' }, { subject: 'own', priority: undefined, extra: true }), new OrderPlaced('2')],
      { attributes },
    )
    expect(first?.attributes).toEqual({
      tenant: 'a',
      subject: 'own',
      priority: 3,
      extra: true,
      type: 'order.placed',
      source: '/orders',
    })
    expect(second?.attributes).toEqual({ ...attributes, type: 'OrderPlaced', source: '/orders' })
  })

  it('keep their acking and values', async () => {
    const { message } = trackedMessage({}, { type: 'order.placed' })
    const [output] = await outputsOf([message])
    expect(output && ackingOf(output)).toBe(ackingOf(message))
    expect(message.attributes).toEqual({ type: 'order.placed' })
  })

  it('do not change when the options object does', async () => {
    const attributes: Record<string, string> = { tenant: 'a' }
    const handler = commandHandler({ type: 'a', source, attributes }, () => [orderPlaced({ orderId: '1' })])
    attributes['id'] = 'shared'
    attributes['tenant'] = 'b'
    const [output] = await handler.handle(command({}), context)
    expect(output?.attributes).toEqual({ tenant: 'a', type: 'order.placed', source: '/orders' })
  })

  it.each([
    ['a plain object', { secret: 1 }, 'a plain object'],
    ['an object without prototype', Object.create(null), 'a plain object'],
    ['a plain object of another realm', runInNewContext('({ secret: 1 })'), 'a plain object'],
    ['null', null, 'null'],
    ['undefined', undefined, 'undefined'],
    ['a text', 'secret', 'a string'],
    ['a number', 5, 'a number'],
    ['an array', ['secret'], 'an array'],
    ['a definition that was not called', orderPlaced, 'a function'],
    ['a promise', Promise.resolve(), 'an instance of Promise'],
    ['a date', new Date(), 'an instance of Date'],
    ['a map', new Map(), 'an instance of Map'],
    ['a URL', new URL('https://example.org/secret'), 'an instance of URL'],
    ['bytes', Buffer.from('secret'), 'an instance of Buffer'],
    ['an error', new RangeError('secret'), 'an instance of RangeError'],
    ['an error of a class of their own', new (class Refused extends Error {})('secret'), 'an instance of Refused'],
  ])('are rejected with index and kind if one is %s', async (_, output, kind) => {
    const error = await failureOf(outputsOf([orderPlaced({ orderId: '1' }), output]), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain("Output 1 of the handler of a message of type 'order.place'")
    expect(error.message).toContain(`is ${kind}.`)
    expect(error.message).toContain('defineEvent()')
    expect(error.message).not.toContain('secret')
  })

  it('are rejected if there is a hole among them', async () => {
    // biome-ignore lint/suspicious/noSparseArray: the hole is the case.
    const error = await failureOf(outputsOf([, orderPlaced({ orderId: '1' })]), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain('Output 0')
  })

  it('are rejected if one is a message of another copy of the package', async () => {
    const real = orderPlaced({ orderId: '1' })
    class Foreign {
      data = real.data
      attributes = real.attributes
      ack() {}
      withAttributes() {}
    }
    const error = await failureOf(outputsOf([new Foreign()]), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain('another copy of @ackord/core')
  })

  it('are rejected if the class of one has no name', async () => {
    const anonymous = (() => class {})()
    const error = await failureOf(outputsOf([new anonymous()]), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain('a class without a name')
  })

  it.each([
    ['a single message', orderPlaced({ orderId: 'secret' }), 'an instance of Message'],
    ['a single instance', new OrderPlaced('secret'), 'an instance of OrderPlaced'],
    ['null', null, 'null'],
    ['a set', new Set([1]), 'an instance of Set'],
    ['an iterator', [orderPlaced({ orderId: '1' })].values(), ''],
    ['a generator', (function* () {})(), ''],
    ['true', true, 'a boolean'],
  ])('are rejected with a hint if they are %s', async (_, result, kind) => {
    const error = await failureOf(outputsOf(result), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain(`returned ${kind}`)
    expect(error.message).toContain('Return an array')
    expect(error.message).not.toContain('secret')
  })
})

describe('a copy of a commandHandler', () => {
  it('is called by its own function', async () => {
    const calls: string[] = []
    const inner = commandHandler({ type: 'a', source: '/s' }, async () => void calls.push('inner'))
    const around: Handler = {
      ...inner,
      async handle(message, context) {
        calls.push('around')
        return await inner.handle(message, context)
      },
    }
    const router = new Router({ logger: silentLogger }).handle(around)
    for await (const _ of router.pipe(once(new Message(null, { type: 'a', id: '1', source: '/t' })))) throw new Error('It has no outputs.')
    expect(calls).toEqual(['around', 'inner'])
  })
})

async function* once(message: Message): AsyncGenerator<Message> {
  yield message
}

describe('options of a commandHandler', () => {
  const make =
    (options: object, handle: unknown = () => {}) =>
    () =>
      commandHandler({ type: 'a', source, ...options } as never, handle as never)

  it.each([
    ['an empty type', { type: '' }, 'type must be a non-empty string'],
    ['no type', { type: undefined }, 'type must be a string, a class or an event'],
    ['a number as type', { type: 5 }, 'it is a number'],
    ['an arrow function as type', { type: () => {} }, 'it is a function'],
    ['an empty source', { source: '' }, 'source must be a non-empty string'],
    ['no source', { source: undefined }, 'source must be a non-empty string'],
    ['an invalid schema', { schema: { parse() {} } }, 'schema must be a Standard Schema'],
    ['naming that is not a function', { naming: 'dot' }, 'naming must be a function'],
    ['an attribute that no broker carries', { attributes: { a: {} } }, "Attribute 'a' of the option `attributes`"],
  ])('reject %s', (_, options, problem) => {
    expect(make(options)).toThrow(problem)
  })

  it.each(['id', 'type', 'source', 'specversion', 'time'])('reject the attribute %s, which all outputs would share', (name) => {
    expect(make({ attributes: { [name]: '1' } })).toThrow(
      expect.toSatisfy((error) => isAckordError(error, 'ACKORD_INVALID_OPTION') && error.message.includes(`'${name}'`)),
    )
    expect(make({ attributes: { [name]: undefined } })).not.toThrow()
  })

  it('reject a missing function', () => {
    expect(make({}, null)).toThrow('The function of a handler must be a function')
    expect(make({}, 'handle')).toThrow('The function of a handler must be a function')
  })
})
