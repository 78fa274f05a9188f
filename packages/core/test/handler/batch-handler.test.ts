import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import {
  type BatchFunction,
  type BatchMessage,
  batchHandler,
  defineEvent,
  eventHandler,
  type Handler,
  Message,
  middleware,
  RejectError,
  Router,
  rootContext,
  type StandardSchema,
} from '../../src/index.ts'

interface Order {
  readonly id: string
}

const orderPlaced = defineEvent<Order>('order.placed')
const orderIndexed = defineEvent<Order>('order.indexed')
const limits = { size: 10, wait: 100 }

function placed(id: string, data: unknown = { id }): Message {
  return new Message(data, { id, type: 'order.placed', source: '/shop' })
}

/** Calls the handler without a router: with the message alone. */
function call(handler: Handler, message = placed('1')): Promise<readonly Message[]> {
  return handler.handle(message, message.context(rootContext()))
}

describe('a batch handler that is called without a batch', () => {
  it('gets the message alone, with its id, source and attributes, and returns its events', async () => {
    const received: BatchMessage<Order>[] = []
    const handler = batchHandler(
      { type: orderPlaced, source: '/index', attributes: { team: 'search' }, ...limits },
      (messages, context) => {
        received.push(...messages)
        expect(context.signal.aborted).toBe(false)
        return new Map(messages.map((message) => [message, [orderIndexed(message.data)]]))
      },
    )
    const [output] = await call(handler)
    expect(received).toMatchObject([{ data: { id: '1' }, id: '1', source: '/shop', attributes: { type: 'order.placed' } }])
    expect(output).toMatchObject({ data: { id: '1' }, type: 'order.indexed', source: '/index', attributes: { team: 'search' } })
    expect(handler).toMatchObject({ type: 'order.placed', batch: { size: 10, wait: 100, batches: 1 } })
  })

  it('fails with the reason that the function gave for the message', async () => {
    const reason = new RejectError('no')
    const naming: BatchFunction<Order>[] = [
      ([message]) => {
        throw message?.failed(reason)
      },
      async ([message]) => {
        throw new Error('wrapped', { cause: new AggregateError([new Error('other'), message?.failed(reason)]) })
      },
    ]
    for (const work of naming) await expect(call(batchHandler({ type: orderPlaced, ...limits }, work))).rejects.toBe(reason)
  })

  it('names the message in the error, and says whether it is worth another attempt', () => {
    const errors: Error[] = []
    const handler = batchHandler({ type: orderPlaced, ...limits }, ([message]) => {
      if (message !== undefined) errors.push(message.failed(new RejectError('no')), message.failed(new Error('later')))
    })
    void call(handler)
    expect(errors).toMatchObject([
      { code: 'ACKORD_BATCH_MESSAGE_FAILED', retryable: false, message: expect.stringMatching(/order\.placed.*1.*failed: no/) },
      { code: 'ACKORD_BATCH_MESSAGE_FAILED', retryable: true, cause: { message: 'later' } },
    ])
  })

  it('does not show the data where an error is printed with its properties', () => {
    const handler = batchHandler({ type: orderPlaced, ...limits }, ([message]) => {
      expect(inspect(message?.failed(new Error('later')), { depth: 9 })).not.toContain('secret')
    })
    return call(handler, placed('1', { id: 'secret' }))
  })

  it('validates the data of each message before the function is called', async () => {
    const schema = {
      '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'is invalid' }] }) },
    } as StandardSchema<Order>
    let calls = 0
    const handler = batchHandler({ type: 'order.placed', schema, ...limits }, () => {
      calls += 1
    })
    await expect(call(handler)).rejects.toMatchObject({ code: 'ACKORD_VALIDATION_FAILED', retryable: false })
    expect(calls).toBe(0)
  })

  it.each([
    ['an array', (messages: readonly BatchMessage<Order>[]) => messages.map(() => []), /returned an array/],
    ['a Map with other keys', () => new Map([['1', []]]), /the key a string|must be messages of the batch/],
    [
      'a Map with something else than arrays',
      ([one]: readonly BatchMessage<Order>[]) => new Map([[one, orderIndexed({ id: '1' })]]),
      /Return an array of events/,
    ],
  ])('is told when it returns %s', async (_, work, text) => {
    const handler = batchHandler<Order>({ type: orderPlaced, ...limits }, work as never)
    await expect(call(handler)).rejects.toMatchObject({ code: 'ACKORD_INVALID_OUTPUT', message: expect.stringMatching(text) })
  })

  it('may change the array that it gets', async () => {
    const handler = batchHandler({ type: orderPlaced, source: '/index', ...limits }, (messages) => {
      const own = messages as BatchMessage<Order>[]
      const [first] = own.splice(0)
      return first === undefined ? undefined : new Map([[first, [orderIndexed(first.data)]]])
    })
    expect(await call(handler)).toHaveLength(1)
  })
})

describe('batchHandler()', () => {
  it.each([
    [{ size: 1 }, /size must be a whole number, 2 or more/],
    [{ wait: -1 }, /wait must be a number of milliseconds/],
    [{ wait: Infinity }, /wait must be/],
    [{ batches: 0 }, /batches must be/],
    [{ batch: 2 }, /batchHandler\(\) has no option 'batch'/],
  ])('rejects %j', (options, text) => {
    expect(() => batchHandler({ type: orderPlaced, ...limits, ...options }, () => {})).toThrow(text)
    expect(() => batchHandler({ type: orderPlaced, ...limits }, 'no' as never)).toThrow(/function of a handler/)
  })
})

describe('a router with a batch handler', () => {
  const handler = batchHandler({ type: orderPlaced, ...limits }, () => {})
  const gathering = middleware({ gathersBatches: true }, (next) => next)
  const leased = middleware({ role: 'leasedInbox' }, (next) => next)
  const start = async (router: Router) => await router.pipe(noMessages()).next()

  it('refuses to start without a middleware that gathers its messages, and says why on Redis', async () => {
    await expect(start(new Router({ concurrency: 10 }).handle(handler))).rejects.toMatchObject({
      code: 'ACKORD_BATCH_UNSUPPORTED',
      message: expect.stringMatching(/'order\.placed' has no middleware .* Add transactional\(\) of @ackord\/sql/),
    })
    await expect(start(new Router({ concurrency: 10 }).use(leased).handle(handler, { name: 'index' }))).rejects.toMatchObject({
      code: 'ACKORD_BATCH_UNSUPPORTED',
      message: expect.stringMatching(/'index' requires transactional\(\) of @ackord\/sql: on Redis/),
    })
    expect(await start(new Router({ concurrency: 10 }).handle(handler, { use: [gathering] }))).toMatchObject({ done: true })
  })

  it('refuses a concurrency that could never fill a batch, and settling by hand', async () => {
    await expect(start(new Router({ concurrency: 9 }).use(gathering).handle(handler))).rejects.toThrow(
      /concurrency of the router is 9, and the batch handler 'order\.placed' has the size 10/,
    )
    await expect(start(new Router({ concurrency: 10, ackStrategy: 'manual' }).use(gathering).handle(handler))).rejects.toThrow(/'manual'/)
    expect(() => new Router().handle(handler, { concurrency: 5 })).toThrow(/concurrency counts messages: it must be at least the size/)
  })

  it('warns if it cannot fill the batches of all its handlers', async () => {
    const warnings: object[] = []
    const logger = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) }
    const other = batchHandler({ type: 'other', ...limits, batches: 2 }, () => {})
    const router = new Router({ concurrency: 29, logger }).use(gathering).handleAll(
      handler,
      other,
      eventHandler({ type: 'third' }, () => {}),
    )
    await start(router)
    expect(warnings[0]).toEqual({ concurrency: 29, wanted: 30 })
  })
})

async function* noMessages(): AsyncGenerator<Message> {}
