import { bytesMarshaler, Message } from '@ackord/core'
import { trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { type StreamOutboxOptions, streamOutbox, transactional } from '../../../src/index.ts'
import { deliver } from '../../support/deliver.ts'
import { quiet } from '../../support/handling-world.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { lease, record, StreamWorld } from './stream-world.ts'

const single = redisKinds.filter(({ cluster }) => !cluster)

/** Complete attributes: a router or marshaler would add nothing. */
const attributes = {
  id: 'e1',
  type: 'order.placed',
  source: '/shop',
  specversion: '1.0',
  time: '2026-01-01T00:00:00Z',
  correlationid: 'c',
  datacontenttype: 'application/octet-stream',
}
const maxSize = 'orders'.length + Buffer.byteLength(JSON.stringify(attributes)) + 1000
const refused = { code: 'ACKORD_INVALID_OUTPUT', retryable: false, message: expect.stringContaining(`maxSize is ${maxSize}`) }

const sized = (size: number) => record('e1', { data: new Uint8Array(size), attributes })

describe.each(single)('maxSize of a stream outbox: $name', (kind) => {
  it('rejects a message whose event is one byte too large, and stores nothing of it', async () => {
    await using world = await StreamWorld.open({ kind, outbox: { maxSize }, options: quiet })
    const { redis, store, tag } = world
    const inbox = { consumer: 'orders', tag }
    const outbox = { outbox: store, destination: 'orders', marshaler: bytesMarshaler }
    const orders = [1000, 1001].map((size) => trackedMessage(`m${size}`, { data: size }))
    await deliver(
      {
        use: [transactional(redis, { inbox, outbox, transaction: quiet })],
        async handle(message, context) {
          await redis.commands(context).set(redis.key(tag, 'order', String(message.data)), 'placed')
          return [new Message(new Uint8Array(message.data as number), attributes)]
        },
      },
      ...orders,
    )
    expect(orders.map(({ verdicts }) => verdicts)).toEqual([['ack'], ['reject']])
    expect(orders[1]?.calls[0]?.error).toMatchObject(refused)
    const written = orders.map(({ message }) => redis.key(tag, 'order', String(message.id).slice(1)))
    expect(await Promise.all(written.map((key) => world.command('GET', key)))).toEqual(['placed', null])
    const claimed = await store.claim({ limit: 10, lease })
    expect(claimed.map(({ message }) => message.data.byteLength)).toEqual([1000])
    for (const key of (await world.command('KEYS', `{${tag}}*`)) as string[]) await world.command('DEL', key)
  })

  it('append() refuses a record before anything is queued, so that the transaction can continue', async () => {
    await using world = await StreamWorld.open({ kind, outbox: { maxSize } })
    const { redis, store } = world
    await redis.write(async (transaction) => {
      await expect(store.append(transaction, [sized(1), sized(1001)])).rejects.toMatchObject(refused)
      await store.append(transaction, [sized(1000)])
    })
    expect(Number(await world.command('XLEN', world.key('to')))).toBe(1)
    await expect(redis.write((transaction) => store.append(transaction, [sized(1001)]))).rejects.toMatchObject(refused)
    expect(Number(await world.command('XLEN', world.key('to')))).toBe(1)
  })
})

it('counts the message and not the fields that a marshal() of the user’s own makes', async () => {
  const outbox: StreamOutboxOptions = {
    marshal: ({ data }) => ({ length: String(data.byteLength) }),
    unmarshal: (fields) => new Message(new Uint8Array(Number(Buffer.from(fields.get('length') ?? []).toString())), attributes),
    maxSize,
  }
  await using world = await StreamWorld.open({ outbox })
  await world.append(sized(1000))
  await expect(world.append(sized(1001))).rejects.toMatchObject(refused)
  const claimed = await world.store.claim({ limit: 10, lease })
  expect(claimed.map(({ message }) => message.data.byteLength)).toEqual([1000])
})

it('is 5 MB by default', async () => {
  await using world = await StreamWorld.open()
  await expect(world.append(sized(5_242_880))).rejects.toThrow('maxSize is 5242880')
  expect((await world.store.stats()).destinations).toEqual([])
})

it('does not keep operators from re-arming stored records, whatever their own limit is', async () => {
  await using world = await StreamWorld.open()
  await world.append(sized(2000))
  const operators = world.another({ maxSize: 1 })
  const [claim] = await operators.claim({ limit: 1, lease })
  if (claim === undefined) throw new Error('Expected one claimed record.')
  await operators.settle([{ id: claim.id, token: claim.token, result: 'parked', error: 'no' }])
  expect(await operators.rearm({ ids: [claim.id] }, { attributes: { note: 'again' } })).toBe(1)
  const [again] = await operators.claim({ limit: 1, lease })
  expect([again?.message.attributes['note'], again?.message.data.byteLength]).toEqual(['again', 2000])
})

it.each([0, -1, 1.5, Number.NaN, Infinity])('cannot be %s, and the constructor throws', async (wrong) => {
  await using world = await StreamWorld.open()
  expect(() => streamOutbox(world.redis, { maxSize: wrong })).toThrow(/maxSize.* must be a whole number, 1 or more/)
})
