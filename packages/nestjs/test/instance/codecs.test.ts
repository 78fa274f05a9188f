import { defineEvent, jsonMarshaler, MemoryBroker, marshal, silentLogger } from '@ackord/core'
import { decodePayload, encodePayload, encrypted, type PayloadCodec, staticKeys } from '@ackord/core/payload'
import type { OutboxWriter } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { Injectable } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { expect, it } from 'vitest'
import { nodeKind } from '../../../sql/test/sqlite/support/sqlite-world.ts'
import { AckordModule, getOutboxToken, OnEvent } from '../../src/index.ts'

const orderPlaced = defineEvent<{ orderId: string }>('order.placed')
const orderPaid = defineEvent<{ orderId: string }>('order.paid')
const codec: PayloadCodec = encrypted({ keys: staticKeys({ current: 'k', keys: { k: new Uint8Array(32).fill(7) } }), plainText: 'reject' })

it('passes its codecs to its consumers and to its outbox', async () => {
  await using world = await nodeKind.open()
  const { database } = world
  const broker = new MemoryBroker({ logger: silentLogger, history: 10 })
  const handled = deferred<string>()

  @Injectable()
  class Handlers {
    @OnEvent(orderPlaced)
    placed({ orderId }: { readonly orderId: string }) {
      handled.resolve(orderId)
      return [orderPaid({ orderId })]
    }
  }
  const options = {
    database,
    logger: silentLogger,
    consumer: 'orders',
    source: broker.source('orders'),
    publisher: broker,
    destination: 'events',
    eventSource: '/shop',
    codecs: [codec],
    codecTimeout: 5000,
  }
  const module = await Test.createTestingModule({ imports: [AckordModule.forRoot(options)], providers: [Handlers] }).compile()
  module.useLogger(false)
  await module.init()
  try {
    const outbox = module.get<OutboxWriter<unknown>>(getOutboxToken(), { strict: false })
    await database.write((transaction) => outbox.append(transaction, orderPaid({ orderId: 'o-1' })))
    const message = marshal(orderPlaced({ orderId: 'o-2' }, { id: 'm-1', source: '/website' }), jsonMarshaler)
    await broker.publish('orders', [await encodePayload(message, [codec])])
    expect(await handled.promise).toBe('o-2')
    await expect.poll(() => broker.published('events').length, { timeout: 30_000, interval: 10 }).toBe(2)
    const decoded = await Promise.all(broker.published('events').map((event) => decodePayload(event, [codec])))
    const orders = decoded.map(({ data }) => jsonMarshaler.unmarshal(data, undefined))
    expect(orders).toHaveLength(2)
    expect(orders).toEqual(expect.arrayContaining([{ orderId: 'o-1' }, { orderId: 'o-2' }]))
  } finally {
    await module.close()
  }
})
