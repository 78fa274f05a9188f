import { MemoryBroker, type RawMessage } from '@ackord/core'
import { decodePayload, encodePayload, encrypted, type PayloadCodec, staticKeys } from '@ackord/core/payload'
import { expect, it } from 'vitest'
import type { LuaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import { type StreamOutbox, streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { createService } from '../../../src/service.ts'
import { brokenInvariants } from './invariants.ts'
import { hour, idsOf, LuaWorld, lease, record } from './lua-world.ts'

const codec = encrypted({ keys: staticKeys({ current: 'k', keys: { k: new Uint8Array(32).fill(7) } }) })

/** The data of these records as a reader decodes it. */
async function decoded(records: readonly { readonly message: RawMessage }[]): Promise<string[]> {
  const messages = await Promise.all(records.map(({ message }) => decodePayload(message, [codec])))
  return messages.map(({ data }) => new TextDecoder().decode(data))
}

it('enqueue() encodes events, and stores an event that is encrypted again once', async () => {
  await using world = await LuaWorld.open({ outbox: { codecs: [codec] } })
  expect(await world.store.enqueue([record('e1'), record('e2')])).toEqual(['inserted', 'inserted'])
  expect(await world.store.enqueue([record('e2'), record('e3')])).toEqual(['duplicate', 'inserted'])
  // Attributes are not encrypted, and tell one event from another.
  expect(await world.store.enqueue([record('e3', { attributes: { subject: 'other' } })])).toEqual(['conflict'])
  const claimed = await world.store.claim({ limit: 10, lease })
  expect(claimed.map(({ message }) => message.dataContentType)).toEqual(Array(3).fill('application/vnd.ackord.encrypted'))
  expect(await decoded(claimed)).toEqual(['e1', 'e2', 'e3'])
  expect(await brokenInvariants(world)).toEqual([])
})

it('append() of an event that is encrypted again is no conflict, also if the caller has encrypted it', async () => {
  await using world = await LuaWorld.open({ outbox: { codecs: [codec] } })
  const plain = world.another({ codecs: [] })
  await world.redis.write((transaction) => world.store.append(transaction, record('e1')))
  await world.redis.write((transaction) => world.store.append(transaction, [record('e1'), record('e2')]))
  const { destination, message } = record('e2')
  const again = { destination, message: await encodePayload(message, [codec]) }
  await world.redis.write((transaction) => plain.append(transaction, again))
  expect(await decoded(await world.store.claim({ limit: 10, lease }))).toEqual(['e1', 'e2'])
})

it('cancel() finds a delayed event that was encoded, in its own transaction and later', async () => {
  await using world = await LuaWorld.open({ outbox: { codecs: [codec] } })
  const reference = (id: string) => ({ destination: 'orders', source: '/shop', id })
  await world.redis.write(async (transaction) => {
    await world.store.append(transaction, [record('e1', { delay: hour }), record('e2', { delay: hour }), record('e3', { delay: hour })])
    await world.store.cancel(transaction, [reference('e1')])
  })
  await world.redis.write((transaction) => world.store.cancel(transaction, [reference('e2')]))
  await world.advance(hour + 1000)
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['e3'])
})

it('prepare() refuses an outbox with codecs, and stores what encodePayload() returns', async () => {
  await using world = await LuaWorld.open({ outbox: { codecs: [codec] } })
  expect(() => world.store.prepare([record('e1')])).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('encodePayload()') }),
  )
  const { destination, message } = record('e1', { data: Buffer.from('secret') })
  const prepared = world.another({ codecs: [] }).prepare([{ destination, message: await encodePayload(message, [codec]) }])
  const texts = prepared.args.map((argument) => Buffer.from(argument).toString('latin1')).join()
  expect([texts.includes('order.placed'), texts.includes('secret')]).toEqual([true, false])
})

it('a transaction whose event cannot be encoded writes nothing, even if the error is caught', async () => {
  const failing: PayloadCodec = {
    encode: () => Promise.reject(new Error('the bucket is gone')),
    decode: (message) => message,
  }
  await using world = await LuaWorld.open({ outbox: { codecs: [failing] } })
  const written = world.redis.write(async (transaction) => {
    await world.store.append(transaction, record('e1')).catch(() => {})
    await world.another({ codecs: [] }).append(transaction, record('e2'))
  })
  await expect(written).rejects.toMatchObject({ code: 'ACKORD_CODEC_FAILED', cause: { message: 'the bucket is gone' } })
  expect(await world.store.claim({ limit: 10, lease })).toEqual([])
})

it('a service with codecs rejects an outbox without them, whose append() would store plain data', async () => {
  await using world = await LuaWorld.open()
  const { redis, tag } = world
  const create = (outbox: LuaOutbox | StreamOutbox, codecs?: readonly PayloadCodec[]) =>
    createService({ redis, outbox, codecs, publisher: new MemoryBroker() })
  for (const plain of [world.store, streamOutbox(redis, { tags: [tag] })]) {
    expect(() => create(plain, [codec])).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('outbox has no codecs') }),
    )
    expect(create(plain).outbox).toBe(plain)
  }
  for (const encoding of [world.another({ codecs: [codec] }), streamOutbox(redis, { tags: [tag], codecs: [codec] })]) {
    expect(create(encoding, [codec]).outbox).toBe(encoding)
  }
})
