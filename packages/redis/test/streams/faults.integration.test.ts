import { commandHandler, Message, type Publisher, type RawMessage, Router } from '@ackord/core'
import { recordingLogger, startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startRedis, startRedisCluster } from '../../../../scripts/servers/index.mjs'
import { redisKinds, redisUrl } from '../support/redis-clients.ts'
import { event, idsOf, never, numbered, open, openStreams, type StreamWorld, take, until } from './world.ts'

const singles = redisKinds.filter(({ cluster }) => !cluster)
const patient = { backoff: () => 20, claimIdle: 400, claimInterval: 50 }

/** Publishes until all messages are confirmed, as a relay would. */
async function publishPersistently(publisher: Publisher, stream: string, messages: readonly RawMessage[]): Promise<void> {
  let left = [...messages]
  while (left.length > 0) {
    const results = await publisher.publish(stream, left, { signal: never }).catch(() => left.map(() => ({ ok: false })))
    left = left.filter((_, index) => results[index]?.ok !== true)
  }
}

function forwarding(seen: (id: string | undefined) => void): Router {
  const router = new Router({ concurrency: 4, logger: recordingLogger(), source: '/forwarder', redeliveryDelay: () => 5 })
  router.handle(
    commandHandler<{ id: string }>({ type: 'test.event', source: '/forwarder' }, async (command) => {
      seen(command.id)
      return [new Message(command, { id: `out-${command.id}`, type: 'test.forwarded' })]
    }),
  )
  return router
}

async function idsIn(world: StreamWorld, stream: string): Promise<string[]> {
  const entries = (await world.command('XRANGE', stream, '-', '+')) as [string, string[]][]
  return entries.map(([, fields]) => fields[fields.indexOf('id') + 1] ?? '')
}

describe.each(singles)('faults, from a publisher through routers to a publisher, on $name', { timeout: 60_000 }, (kind) => {
  it('loses nothing when connections are cut and the server is killed and restarted', async () => {
    await using server = await startRedis()
    await using world = await openStreams(kind, { url: server.url, options: { deadline: 1000 } })
    const ids = numbered(120)
    const handled = new Map<string | undefined, number>()
    const count = () => handled.size
    const destination = `${world.stream}-out`
    const routers = [1, 2].map(() => forwarding((id) => handled.set(id, (handled.get(id) ?? 0) + 1)))
    const publisher = world.publisher()
    const runs = routers.map((router) => router.run(world.source({ ...patient, prefetch: 10 }), { publisher, destination }))

    await publishPersistently(
      publisher,
      world.stream,
      ids.slice(0, 40).map((id) => event(id)),
    )
    await until(() => count() >= 20)
    await world.command('CLIENT', 'KILL', 'TYPE', 'normal').catch(() => {})
    await publishPersistently(
      publisher,
      world.stream,
      ids.slice(40, 80).map((id) => event(id)),
    )
    await until(() => count() >= 60)
    await server.kill('SIGKILL')
    await server.restart()
    await publishPersistently(
      publisher,
      world.stream,
      ids.slice(80).map((id) => event(id)),
    )
    await until(() => count() >= ids.length)
    await until(async () => new Set(await idsIn(world, destination).catch(() => [])).size >= ids.length)
    await Promise.all(routers.map((router) => router.stop()))
    await Promise.all(runs)

    const published = await idsIn(world, destination)
    expect([...new Set(published)].sort()).toEqual(ids.map((id) => `out-${id}`).sort())
    expect(await world.pending()).toBe(0)
    const duplicates = [...handled.values()].reduce((sum, times) => sum + times - 1, 0)
    // Duplicates are allowed but bounded: at most the messages in flight when a fault occurred.
    expect(duplicates).toBeLessThanOrEqual(80)
  })

  it.each(['none', 'perKey'] as const)(
    'finds entries whose answer was lost on the way, however the client deals with that, in order %s',
    async (order) => {
      let cuts = 0
      await using proxy = await startFaultProxy(redisUrl, (bytes) => {
        if (!bytes.includes('XREADGROUP') || cuts > 0) return 'pass'
        cuts += 1
        return 'cut after'
      })
      await using world = await openStreams(kind, { url: proxy.url, options: { deadline: 400 } })
      await world.fill(['m0', 'm1'])
      const messages = await take(open(world.source({ ...patient, order, block: 100, claimIdle: 3_600_000 })), 2)
      expect(cuts).toBe(1)
      expect(idsOf(messages).sort()).toEqual(['m0', 'm1'])
      for (const message of messages) expect(await message.ack()).toBe(true)
      expect(await world.pending()).toBe(0)
    },
  )

  it('counts a verdict whose answer was lost as carried out', async () => {
    let cuts = 0
    await using proxy = await startFaultProxy(redisUrl, (bytes) => {
      if (!bytes.includes('ackord-waiting') || !bytes.includes('\r\nack\r\n') || cuts > 0) return 'pass'
      cuts += 1
      return 'cut after'
    })
    await using world = await openStreams(kind, { url: proxy.url, options: { deadline: 400 } })
    await world.fill(['m'])
    const [message] = await take(open(world.source(patient)), 1)
    expect(await message?.ack()).toBe(true)
    expect(cuts).toBe(1)
    expect(await world.pending()).toBe(0)
  })

  it('handles all messages after a FLUSHALL in the middle', async () => {
    await using server = await startRedis()
    await using world = await openStreams(kind, { url: server.url })
    const handled = new Set<string | undefined>()
    const router = forwarding((id) => handled.add(id))
    const publisher = world.publisher()
    const run = router.run(world.source(patient), { publisher, destination: `${world.stream}-out` })
    await publishPersistently(
      publisher,
      world.stream,
      numbered(20, 'before-').map((id) => event(id)),
    )
    await until(() => handled.size > 0)
    await world.command('FLUSHALL')
    const after = numbered(20, 'after-')
    await publishPersistently(
      publisher,
      world.stream,
      after.map((id) => event(id)),
    )
    await until(() => after.every((id) => handled.has(id)))
    await router.stop()
    await run
    expect(await world.pending()).toBe(0)
  })

  it('delivers the messages of a crashed consumer to another one', async () => {
    await using world = await openStreams(kind)
    const ids = numbered(30)
    await world.fill(ids)
    const doomed = await world.another()
    const crashing = world
      .source({ ...patient, prefetch: 10 }, doomed)
      .messages({ signal: never })
      [Symbol.asyncIterator]()
    await crashing.next()
    await until(async () => (await world.pending()) >= 8)
    // From now on this consumer neither settles nor renews anything.
    await doomed[Symbol.asyncDispose]()
    const handled = new Set<string | undefined>()
    const router = forwarding((id) => handled.add(id))
    const run = router.run(world.source(patient), { publisher: world.publisher(), destination: `${world.stream}:7` })
    await until(() => handled.size === ids.length)
    await router.stop()
    await run
    expect(await world.pending()).toBe(0)
  })
})

describe('faults of a cluster', { timeout: 60_000 }, () => {
  it.each(redisKinds.filter(({ cluster }) => cluster))('loses nothing when all nodes are killed and restarted, on $name', async (kind) => {
    await using cluster = await startRedisCluster()
    await using world = await openStreams(kind, { url: cluster.url, options: { deadline: 1000 } })
    const ids = numbered(90)
    const handled = new Set<string | undefined>()
    const router = forwarding((id) => handled.add(id))
    const publisher = world.publisher({ shards: 3 })
    const run = router.run(world.source({ ...patient, shards: 3, prefetch: 30 }), { publisher, destination: `${world.stream}-out` })
    await publishPersistently(
      publisher,
      world.stream,
      ids.slice(0, 45).map((id) => event(id)),
    )
    await until(() => handled.size >= 20)
    await cluster.kill('SIGKILL')
    await cluster.restart()
    await publishPersistently(
      publisher,
      world.stream,
      ids.slice(45).map((id) => event(id)),
    )
    await until(() => handled.size >= ids.length)
    const left = async () => {
      const counts = await Promise.all([0, 1, 2].map((index) => world.pending('billing', `${world.stream}:${index}`)))
      return counts.reduce((sum, count) => sum + count, 0)
    }
    await until(async () => (await left()) === 0)
    await router.stop()
    await run
    expect([...handled].sort()).toEqual([...ids].sort())
  })
})
