import { Message, Router } from '@ackord/core'
import { recordingLogger } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { streamOutbox, transactional } from '../../src/index.ts'
import { streamPublisher, streamSource } from '../../src/streams/index.ts'
import { type RedisKind, redisKinds } from '../support/redis-clients.ts'
import { until } from '../support/until.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]
const backlog = 3_000
const prefetch = 50

it('full memory is not made fuller by a backlog, and costs two log lines', async () => {
  await using server = await startRedis({ args: ['--maxmemory-policy', 'noeviction', '--appendonly', 'no'] })
  const logger = recordingLogger()
  await using client = await ioredis6.open({ url: server.url, options: { logger } })
  const { redis, command } = client
  const signal = new AbortController().signal
  await using publisher = streamPublisher(redis)
  const messages = Array.from(
    { length: backlog },
    (_, index) => new Message(new TextEncoder().encode('1'), { id: `m${index}`, source: '/shop', type: 'order.place', specversion: '1.0' }),
  )
  await publisher.publish('orders', messages, { signal })

  const handled = async () => Number((await command('GET', redis.key('ackord', 'count'))) ?? 0)
  const usedMemory = async () => Number(/used_memory:(\d+)/.exec(String(await command('INFO', 'memory')))?.[1])
  const pending = async () => Number(((await command('XPENDING', 'orders', 'orders')) as unknown[])[0])

  const router = new Router({ source: '/orders', concurrency: 20, logger })
    .use(
      transactional(redis, {
        inbox: { consumer: 'orders' },
        outbox: { outbox: streamOutbox(redis, { logger }), destination: 'events' },
        transaction: { logger },
      }),
    )
    .handle({
      type: 'order.place',
      async handle() {
        await redis.commands().incr(redis.key('ackord', 'count'))
        return []
      },
    })
  const run = router.run(streamSource(redis, { stream: 'orders', group: 'orders', prefetch, logger }))
  await until('some are handled', async () => (await handled()) > 100)
  await command('CONFIG', 'SET', 'maxmemory', '1')
  await until('the router pauses', () => router.health().paused)
  const [memory, count] = [await usedMemory(), await handled()]

  // Long enough to read, refuse and nack all messages, as an earlier version did.
  await new Promise((resolve) => setTimeout(resolve, 4_000))
  expect(await handled()).toBeLessThanOrEqual(count + 20)
  expect(await pending()).toBeLessThanOrEqual(2 * prefetch)
  expect((await usedMemory()) - memory).toBeLessThan(200_000)
  expect(logger.lines.filter(({ level }) => level !== 'debug').map(({ text }) => text)).toEqual([
    expect.stringContaining('The store refuses writes.'),
  ])

  await command('CONFIG', 'SET', 'maxmemory', '0')
  await until('all are handled', async () => (await handled()) === backlog)
  await router.stop()
  await run
  expect(await handled()).toBe(backlog)
  expect(logger.lines.filter(({ level }) => level === 'error')).toEqual([])
}, 60_000)
