import { defineEvent, jsonMarshaler, MemoryBroker, marshal, publishAll, silentLogger } from '@ackord/core'
import type { Redis, StreamOutbox } from '@ackord/redis'
import { telemetry } from '@ackord/telemetry'
import { Injectable } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import { expect, it } from 'vitest'
import { ownName } from '../../../../scripts/test-run.mjs'
import { redisKinds } from '../../../redis/test/support/redis-clients.ts'
import { Recorder } from '../../../telemetry/test/support/recorder.ts'
import { AckordModule, InjectDatabase, InjectOutbox, OnCommand, OnEvent } from '../../src/index.ts'

const placeOrder = defineEvent<{ id: string }>('order.place')
const orderPlaced = defineEvent<{ id: string }>('order.placed')
const orderNoted = defineEvent<{ id: string }>('order.noted')

it('an instance on Redis has two consumers with one outbox, and telemetry by one option', async () => {
  const kind = redisKinds.find(({ cluster }) => !cluster)
  if (kind === undefined) throw new Error('There is no client for a single server.')
  const keyPrefix = `ackord-test-${ownName()}:`
  await using opened = await kind.open({ keyPrefix, options: { logger: silentLogger } })
  const broker = new MemoryBroker({ logger: silentLogger })
  const recorder = new Recorder()
  const steps: string[] = []
  const billed: string[] = []

  @Injectable()
  class Handlers {
    @InjectDatabase() readonly redis!: Redis
    @InjectOutbox() readonly outbox!: StreamOutbox

    @OnCommand(placeOrder, { consumer: 'orders' })
    async place({ id }: { id: string }) {
      const transaction = this.redis.transaction()
      if (transaction === undefined) throw new Error('There is no transaction.')
      await this.redis.commands().setex(this.redis.key('ackord', 'order'), 60, id)
      await this.outbox.append(transaction, orderNoted({ id }))
      return [orderPlaced({ id })]
    }

    @OnEvent(orderPlaced, { consumer: 'billing' })
    bill({ id }: { id: string }) {
      billed.push(id)
    }

    @OnEvent(orderNoted, { consumer: 'billing' })
    note({ id }: { id: string }) {
      billed.push(`note of ${id}`)
    }
  }

  const root = AckordModule.forRoot({
    redis: opened.redis,
    consumers: { orders: { source: broker.source('orders') }, billing: { source: broker.source('events') } },
    publisher: broker,
    destination: 'events',
    eventSource: '/orders',
    telemetry: telemetry({ tracerProvider: recorder.tracerProvider }),
    logger: silentLogger,
    onClose: () => steps.push('closed'),
  })
  const module = await Test.createTestingModule({ imports: [root], providers: [Handlers] }).compile()
  module.useLogger(false)
  await module.init()
  const message = marshal(placeOrder({ id: 'o-1' }, { id: 'm-1', source: '/shop' }), jsonMarshaler)
  await publishAll(broker, 'orders', [message, message])
  await broker.idle('orders')
  while (billed.length < 2) await new Promise((resolve) => setImmediate(resolve))
  await module.close()

  expect(billed.toSorted()).toEqual(['note of o-1', 'o-1'])
  expect(steps).toEqual(['closed'])
  const spans = recorder.spans.map(({ name }) => name.split(' ')[0])
  // The command, its duplicate and two events.
  expect(spans.filter((name) => name === 'process')).toHaveLength(4)
  expect(spans).toContain('send')
  expect(String(await opened.command('GET', `${keyPrefix}${opened.redis.key('ackord', 'order')}`))).toBe('o-1')
  const keys = (await opened.command('KEYS', `${keyPrefix}*`)) as string[]
  await opened.command('DEL', ...keys)
})
