import { expect, it, vi } from 'vitest'
import { MemoryBroker, type MemorySourceOptions } from '../../src/broker/memory/memory-broker.ts'
import { AckordError } from '../../src/errors.ts'
import { Message } from '../../src/message/message.ts'
import { Router } from '../../src/router/router.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { recordingLogger } from '../support/recording-logger.ts'

const attributes = { type: 'order.place', id: 'o-1', source: '/shop', datacontenttype: 'application/json' }
const order = new Message(new TextEncoder().encode('{"card":"4111"}'), attributes)
const final = new AckordError('ACKORD_INVALID_MESSAGE', 'It makes no sense.', { retryable: false })

/** The line about one message, which the handler treats like this. */
async function lineOf(handle: (message: Message) => Promise<never>, source: MemorySourceOptions, options: RouterOptions = {}) {
  const logger = recordingLogger()
  await using broker = new MemoryBroker()
  await broker.publish('orders', [order])
  const router = new Router({ logger, redeliveryDelay: () => 60_000, ...options }).handle({ type: 'order.place', handle })
  const run = router.run(broker.source('orders', source))
  await vi.waitFor(() => expect(router.health()).toMatchObject({ failed: 1, inFlight: 0 }))
  await router.stop()
  await run
  const lines = logger.lines.filter(({ text }) => text.startsWith('A message was not handled. '))
  expect(lines).toHaveLength(1)
  return Object.fromEntries(lines.flatMap(({ fields }) => Object.entries(fields)).filter(([name]) => name !== 'err'))
}

const known = { type: 'order.place', id: 'o-1', source: '/shop', origin: 'orders', deliveryCount: 1 }

it('names a nacked message, where it came from, and when it comes again', async () => {
  const fields = await lineOf(() => Promise.reject(new Error('The database is down.')), { deadLetter: 'dead' })
  expect(fields).toEqual({ ...known, verdict: 'nack', retryAfter: 60_000 })
})

it('names a rejected message, where it came from, and where it goes', async () => {
  expect(await lineOf(() => Promise.reject(final), { deadLetter: 'dead' })).toEqual({ ...known, verdict: 'reject', deadLetter: 'dead' })
})

it('says that a rejected message is discarded, and nothing where there is no dead letter', async () => {
  expect(await lineOf(() => Promise.reject(final), { deadLetter: 'discard' })).toMatchObject({ verdict: 'reject', deadLetter: 'discard' })
  expect(await lineOf(() => Promise.reject(final), {})).toEqual({ ...known, verdict: 'reject' })
})

it('has the verdict of a handler that settled the message before it failed', async () => {
  const nacked = await lineOf(async (message) => {
    await message.nack(new Error('not now'), { retryAfter: 30_000 })
    throw new Error('too late')
  }, {})
  expect(nacked).toEqual({ ...known, verdict: 'nacked', retryAfter: 30_000 })
  const rejected = await lineOf(
    async (message) => {
      await message.reject(final)
      throw new Error('too late')
    },
    { deadLetter: 'dead' },
  )
  expect(rejected).toEqual({ ...known, verdict: 'rejected', deadLetter: 'dead' })
})

it('knows the origin of a message that cannot be decoded', async () => {
  const logger = recordingLogger()
  await using broker = new MemoryBroker()
  await broker.publish('orders', [order.copy(new TextEncoder().encode('no JSON'))])
  const router = new Router({ logger }).handle({ type: 'order.place', handle: async () => [] })
  const run = router.run(broker.source('orders', { deadLetter: 'dead' }))
  await broker.idle('orders')
  await router.stop()
  await run
  expect(logger.at('error')).toMatchObject([{ fields: { origin: 'orders', deadLetter: 'dead', verdict: 'reject' } }])
})

it('does not send the origin to the dead letter', async () => {
  await using broker = new MemoryBroker()
  await broker.publish('orders', [order])
  const router = new Router({ logger: recordingLogger() }).handle({ type: 'order.place', handle: () => Promise.reject(final) })
  const run = router.run(broker.source('orders', { deadLetter: 'dead' }))
  await broker.idle('orders')
  await router.stop()
  await run
  const letters = broker.source('dead').messages({ signal: new AbortController().signal })[Symbol.asyncIterator]()
  const letter = (await letters.next()).value as Message
  expect(Object.keys(letter.attributes)).not.toContain('origin')
  await letters.return?.()
})
