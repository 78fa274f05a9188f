import { describe, expect, it, vi } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { redisKinds } from '../support/redis-clients.ts'
import { next, numbered, open, openStreams, type StreamWorld, take } from './world.ts'

const singles = redisKinds.filter(({ cluster }) => !cluster)
const orders = ['none', 'perKey'] as const

/** The number of commands that the server has executed. A script counts as one. */
async function callsOf(world: StreamWorld): Promise<number> {
  const stats = String(await world.command('INFO', 'commandstats'))
  return [...stats.matchAll(/cmdstat_(?:xgroup|xreadgroup|xpending|xinfo|eval|evalsha)\S*:calls=(\d+)/g)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  )
}

function linesOf(world: StreamWorld): number {
  return world.logger.at('warn').length + world.logger.at('error').length
}

describe.each(orders)('a group that was lost, with order %s', { timeout: 60_000 }, (order) => {
  it.each(singles)('is created again after the server restarted without its data: $name', async (kind) => {
    await using server = await startRedis({ args: ['--appendonly', 'no'] })
    await using world = await openStreams(kind, { url: server.url, options: { deadline: 1000 } })
    await world.fill(['before'])
    const messages = open(world.source({ order }))
    await (await next(messages)).ack()
    const pulled = next(messages)
    await server.kill()
    await server.restart()
    await vi.waitFor(() => world.fill(['after']), 15_000)
    const message = await pulled
    expect(message.id).toBe('after')
    await message.ack()
    // One line for the connection, one for the group, and some for calls that were in progress.
    expect(linesOf(world)).toBeLessThan(10)
  })

  it('is created as soon as memory allows it, with few attempts until then', async () => {
    await using server = await startRedis()
    await using world = await openStreams(singles[0], { url: server.url })
    await world.fill(['first'])
    await world.command('CONFIG', 'SET', 'maxmemory', '1')
    const messages = open(world.source({ order, backoff: () => 100 }))
    const pulled = next(messages)
    const before = await callsOf(world)
    await new Promise((resolve) => setTimeout(resolve, 2000))
    // Three loops that pause for 100 ms: 60 attempts of a few commands each.
    expect((await callsOf(world)) - before).toBeLessThan(300)
    expect(linesOf(world)).toBeLessThan(5)
    await world.command('CONFIG', 'SET', 'maxmemory', '0')
    const message = await pulled
    expect(message.id).toBe('first')
    await message.ack()
  })
})

describe('entries of dead consumers', { timeout: 240_000 }, () => {
  it.each(singles)('2,000 of them are taken over as fast as they are handled: $name', async (kind) => {
    await using world = await openStreams(kind)
    const { command, stream } = world
    await world.fill(numbered(2000))
    await command('XGROUP', 'CREATE', stream, 'billing', '0')
    await command('XREADGROUP', 'GROUP', 'billing', 'dead-1', 'COUNT', '2000', 'STREAMS', stream, '>')
    const pending = (await command('XPENDING', stream, 'billing', '-', '+', '10000')) as [string][]
    await command('XCLAIM', stream, 'billing', 'dead-1', '0', ...pending.map(([id]) => id), 'IDLE', '120000', 'JUSTID')

    const start = performance.now()
    const messages = open(world.source({ prefetch: 100 }))
    const seen = new Set<string | undefined>()
    while (seen.size < 2000) {
      const message = await next(messages)
      seen.add(message.id)
      await message.ack()
    }
    // With one prefetch per search for idle entries, this would take 13 minutes.
    expect(performance.now() - start).toBeLessThan(120_000)
    expect(await world.pending()).toBe(0)
  })

  it('do not wait for a busy stream to become empty, and do not delay it', async () => {
    await using world = await openStreams()
    const { command, stream } = world
    await world.fill(numbered(300, 'dead'))
    await command('XGROUP', 'CREATE', stream, 'billing', '0')
    await command('XREADGROUP', 'GROUP', 'billing', 'dead-1', 'COUNT', '300', 'STREAMS', stream, '>')
    const pending = (await command('XPENDING', stream, 'billing', '-', '+', '10000')) as [string][]
    await command('XCLAIM', stream, 'billing', 'dead-1', '0', ...pending.map(([id]) => id), 'IDLE', '120000', 'JUSTID')
    await world.fill(numbered(3000, 'fresh'))

    const messages = open(world.source({ prefetch: 20 }))
    const order: string[] = []
    while (order.length < 3300) {
      const message = await next(messages)
      order.push(String(message.id))
      await message.ack()
    }
    expect(new Set(order).size).toBe(3300)
    expect(order.findLastIndex((id) => id.startsWith('dead'))).toBeLessThan(2000)
    expect(order.findIndex((id) => id.startsWith('fresh'))).toBeLessThan(300)
  })

  it('are taken over, and new entries are read, while slow handlers have most of the prefetch', async () => {
    await using world = await openStreams()
    const { command, stream } = world
    await world.fill(numbered(50, 'dead'))
    await command('XGROUP', 'CREATE', stream, 'billing', '0')
    await command('XREADGROUP', 'GROUP', 'billing', 'dead-1', 'COUNT', '50', 'STREAMS', stream, '>')
    const pending = (await command('XPENDING', stream, 'billing', '-', '+', '10000')) as [string][]
    await command('XCLAIM', stream, 'billing', 'dead-1', '0', ...pending.map(([id]) => id), 'IDLE', '120000', 'JUSTID')
    await world.fill(numbered(50, 'fresh'))

    const messages = open(world.source({ prefetch: 16 }))
    const slow = await take(messages, 14)
    const start = performance.now()
    const seen = new Set(slow.map(({ id }) => id))
    while (seen.size < 100) {
      const message = await next(messages)
      seen.add(message.id)
      await message.ack()
    }
    // The next search that does not depend on free prefetch would come after claimInterval, 30 seconds.
    expect(performance.now() - start).toBeLessThan(20_000)
    for (const message of slow) await message.ack()
    expect(await world.pending()).toBe(0)
  })

  it('hold no more than prefetch while they are taken over', async () => {
    await using world = await openStreams()
    const { command, stream } = world
    await world.fill(numbered(100))
    await command('XGROUP', 'CREATE', stream, 'billing', '0')
    await command('XREADGROUP', 'GROUP', 'billing', 'dead-1', 'COUNT', '100', 'STREAMS', stream, '>')
    const pending = (await command('XPENDING', stream, 'billing', '-', '+', '10000')) as [string][]
    await command('XCLAIM', stream, 'billing', 'dead-1', '0', ...pending.map(([id]) => id), 'IDLE', '120000', 'JUSTID')
    const messages = open(world.source({ prefetch: 10 }))
    for (let round = 0; round < 5; round += 1) {
      const held = await take(messages, 5)
      const list = (await command('XPENDING', stream, 'billing', '-', '+', '10000')) as [string, string][]
      expect(list.filter(([, consumer]) => consumer !== 'dead-1').length).toBeLessThanOrEqual(10)
      for (const message of held) await message.ack()
    }
  })
})
