import { expect, it } from 'vitest'
import { createPolledSource, type PolledSourceDriver } from '../../src/broker/polled-source.ts'
import { createReceiver } from '../../src/broker/receiver.ts'
import { constantBackoff, type RawMessage } from '../../src/index.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

interface Item {
  readonly id: string
}

function open(overrides: Partial<PolledSourceDriver<Item>> = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const queue: Item[] = []
  const log: string[] = []
  const ids = (items: readonly Item[]) => items.map(({ id }) => id).join(' ')
  const source = createPolledSource<Item>(
    () => ({
      backoff: constantBackoff(100, { jitter: 0 }),
      runtime,
      fields: {},
      lost: 'lost',
      restored: 'restored',
      prefetch: 2,
      pollInterval: 50,
      leaseTime: 30_000,
      claim: async (limit) => queue.splice(0, limit),
      renew: async (items) => void log.push(`renew ${ids(items)}`),
      release: async (items, { seen }) => void log.push(`release ${ids(items)} ${seen ? 'seen' : 'unseen'}`),
      ack: async ({ id }) => {
        log.push(`ack ${id}`)
        return true
      },
      nack: async ({ id }, delay) => {
        log.push(`nack ${id} ${delay}`)
        return true
      },
      read: ({ id }) => ({ data: new Uint8Array(), attributes: { id }, deliveryCount: 1 }),
      ...overrides,
    }),
    createReceiver({ logger }),
  )
  const stop = new AbortController()
  const messages = source.messages({ signal: stop.signal })[Symbol.asyncIterator]()
  const next = async (): Promise<RawMessage> => {
    const { value, done } = await messages.next()
    if (done === true) throw new Error('The iteration has ended.')
    return value
  }
  return { runtime, logger, queue, log, source, stop, messages, next }
}

it('claims as many messages as prefetch allows, and more when one is settled', async () => {
  const { runtime, queue, log, next } = open()
  queue.push({ id: '1' }, { id: '2' }, { id: '3' })
  const [first, second] = [await next(), await next()]
  expect([first.id, second.id, queue.length]).toEqual(['1', '2', 1])
  await first.ack()
  await second.nack(new Error('not now'), { retryAfter: 20 })
  await runtime.advance(50)
  expect((await next()).id).toBe('3')
  expect(log).toEqual(['ack 1', 'nack 2 20'])
})

it('renews the leases of unsettled messages, and of no others', async () => {
  const { runtime, queue, log, next } = open()
  queue.push({ id: '1' })
  const message = await next()
  await runtime.advance(10_100)
  expect(log).toEqual(['renew 1'])
  await message.ack()
  await runtime.advance(20_000)
  expect(log).toEqual(['renew 1', 'ack 1'])
})

it('releases messages that were not yielded when it is left, and the rest when it is disposed', async () => {
  const { queue, log, source, messages, next } = open()
  queue.push({ id: '1' }, { id: '2' })
  const message = await next()
  await messages.return?.()
  expect(log).toEqual(['release 2 unseen'])
  await source[Symbol.asyncDispose]()
  expect(log).toEqual(['release 2 unseen', 'release 1 seen'])
  await expect(message.ack()).rejects.toMatchObject({ code: 'ACKORD_SHUTDOWN' })
})

it('rejects a verdict on a message whose lease has expired', async () => {
  const { queue, next } = open({ ack: async () => false })
  queue.push({ id: '1' })
  await expect((await next()).ack()).rejects.toMatchObject({ code: 'ACKORD_LEASE_LOST' })
})

it('continues after a failed claim, at the start and later, and earlier messages can be settled', async () => {
  let down = true
  const given: Item[] = [{ id: '1' }, { id: '2' }]
  const { runtime, logger, log, next, stop } = open({
    claim: async () => {
      if (down) throw new Error('unreachable')
      return given.splice(0, 1)
    },
  })
  const first = next()
  await runtime.advance(100)
  down = false
  await runtime.advance(100)
  const message = await first
  down = true
  await runtime.advance(50)
  await message.ack()
  down = false
  await runtime.advance(200)
  expect((await next()).id).toBe('2')
  expect(log).toContain('ack 1')
  expect(logger.lines.map(({ text }) => text)).toEqual(['lost', 'restored', 'lost', 'restored'])
  stop.abort()
  await settlePromises()
})
