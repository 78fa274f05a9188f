import { type Context, Message, type RawMessage, Router, type Runtime, silentLogger, systemRuntime } from '@ackord/core'
import { type Fault, startFaultProxy } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { type InboxOptions, transactional } from '../../src/index.ts'
import { placed } from '../support/deliver.ts'
import { openHandlingWorld, quiet } from '../support/handling-world.ts'
import { redisKinds, redisUrl } from '../support/redis-clients.ts'

const count = 1_000
const lease = 60
const deadline = 250

/** mulberry32: the same seed produces the same faults, as far as timing allows. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

function after(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}

/** A stalled process does not renew its leases: the renewal timer, the only unreferenced one, never fires. */
const stalling: Runtime = {
  ...systemRuntime,
  setTimeout: (callback, delay, options) =>
    options?.keepAlive === false ? { cancel() {} } : systemRuntime.setTimeout(callback, delay, options),
}

/** A broker that redelivers each message until it is acked, and some while they are still being handled. */
function impatientBroker(random: () => number) {
  const waiting: string[] = []
  const acked = new Set<string>()
  let open = 0
  let wake: (() => void) | undefined
  const offer = (id: string) => {
    waiting.push(id)
    wake?.()
  }
  for (let index = 0; index < count; index += 1) offer(`m${index}`)
  const settled = (id: string) => {
    open -= 1
    if (!acked.has(id)) offer(id)
    wake?.()
  }
  const messageOf = (id: string): RawMessage =>
    new Message(
      new TextEncoder().encode('null'),
      { id, type: 'order.place', source: '/shop', specversion: '1.0' },
      {
        acking: {
          ack() {
            acked.add(id)
            settled(id)
          },
          // A real broker honours the requested delay; this one caps it at the lease.
          nack: (_, { retryAfter = 0 }) => void after(Math.min(retryAfter, lease)).then(() => settled(id)),
          reject(error) {
            throw error
          },
        },
      },
    )
  return {
    acked,
    async *messages() {
      for (;;) {
        const id = waiting.shift()
        if (id !== undefined) {
          open += 1
          // Redelivers early, while the message is being handled.
          if (random() < 0.1) setTimeout(() => offer(id), random() * 2 * lease)
          yield messageOf(id)
        } else if (acked.size === count && open === 0) return
        else
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
    },
  }
}

const clients = redisKinds.filter(({ name }) => name === 'ioredis 6' || name === 'node-redis')

describe('messages under stalls beyond the lease, early redelivery, cut connections and late bytes', () => {
  const runs = clients.flatMap((kind) => (['exclusive', 'optimistic'] as const).map((mode) => ({ kind, mode })))
  for (const [index, { kind, mode }] of runs.entries()) {
    it(`B1, B3, B5: none lost, none doubled, on ${kind.name}, ${mode}`, async () => {
      const seed = 20_260 + index
      const random = seeded(seed)
      const faults = { before: 0, after: 0, late: 0, stalls: 0 }
      let asked = 0
      const decide = (): Fault => {
        // Every fourth call and not a random one: commits are coalesced, so there may be few calls.
        asked += 1
        if (asked % 4 !== 0) return 'pass'
        const kind = (['before', 'after', 'late'] as const)[(asked / 4) % 3] ?? 'late'
        faults[kind] += 1
        return kind === 'late' ? { late: after(random() * 400) } : `cut ${kind}`
      }
      let faulty = true
      await using proxy = await startFaultProxy(redisUrl, (bytes) => (faulty && bytes.includes('EVAL') ? decide() : 'pass'))
      const plain = new Ioredis(redisUrl)
      const world = await openHandlingWorld(kind, { url: proxy.url, options: { deadline, runtime: stalling, coalesce: 4 } })
      try {
        const { redis, key, outbox } = world
        const broker = impatientBroker(random)
        const inbox: InboxOptions = world.inbox({ mode, lease })
        const handle = async ({ id }: Message, context: Context) => {
          await redis.commands(context).hincrby(key('effects'), id ?? '', 1)
          if (random() < 0.03) {
            faults.stalls += 1
            await after(lease * (1 + random()))
          }
          if (random() < 0.02) throw new Error('now and then')
          return [placed(id)]
        }
        await new Router({ source: '/orders', concurrency: 32, logger: silentLogger, redeliveryDelay: () => 5 })
          .use(transactional(redis, { inbox, outbox: { outbox, destination: 'events' }, transaction: quiet }))
          .handle({ type: 'order.place', handle })
          .run(broker)
        faulty = false
        await proxy.idle()

        const effects = Object.values(await plain.hgetall(key('effects')))
        const events = await plain.xrange(key('events'), '-', '+')
        const ids = new Set(events.map(([, fields]) => (JSON.parse(fields[1] as string) as { id: string }).id))
        const doubled = effects.filter((times) => times !== '1').length
        const found = { lost: count - effects.length, doubled, events: events.length, ids: ids.size }
        expect(found, `seed ${seed}`).toEqual({ lost: 0, doubled: 0, events: count, ids: count })
        // The test proves nothing unless each fault occurred.
        for (const [fault, times] of Object.entries(faults)) expect(times, fault).toBeGreaterThan(4)
      } finally {
        faulty = false
        const keys = await plain.keys(`{${world.tag}}*`)
        if (keys.length > 0) await plain.del(...keys)
        plain.disconnect()
        await Promise.resolve(world[Symbol.asyncDispose]()).catch(() => {})
      }
    }, 60_000)
  }
})
