import type { Publisher, PublishResult, RawMessage, Source } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { until } from '../pipeline/until.ts'
import { release as current, type Release } from './release.ts'
import { type SharedStore, storeKinds } from './stores.ts'

const { release: previous } = (await import(new URL('previous-release.mjs', import.meta.url).href)) as { readonly release: Release }

const orderCount = 200
const keyCount = 10
const releases = { previous, current }

interface Published {
  readonly id: string
  readonly key: string
}

/** Collects the events that all relays publish, in publishing order. */
class Topic {
  readonly published: Published[] = []

  readonly publish = async (_destination: string, messages: readonly RawMessage[]) => {
    for (const { attributes } of messages) this.published.push({ id: String(attributes.id), key: String(attributes.partitionkey) })
    return messages.map(() => ({ ok: true }) as const)
  }
}

/** Fails each event once, and then for good: a relay lets it wait, and then parks it. */
class RefusingTopic {
  readonly #refused = new Set<unknown>()

  readonly publish = async (_destination: string, messages: readonly RawMessage[]): Promise<readonly PublishResult[]> =>
    messages.map(({ id }) => {
      const error = new Error(`There is no route for ${id}.`)
      if (this.#refused.has(id)) return { ok: false, error, permanent: true }
      this.#refused.add(id)
      return { ok: false, error }
    })
}

/** A service of one release on the shared store, with a relay that publishes to the topic; without a topic there is no relay. */
async function startService(release: Release, shared: SharedStore, topic: Publisher | undefined) {
  const { Router, Relay, MemoryBroker, Message, eventHandler, silentLogger } = release
  const store = await shared.connect(release)
  const broker = new MemoryBroker({ logger: silentLogger })
  const router = new Router({ concurrency: 4, logger: silentLogger })
  router.use(store.middleware)
  router.handle(
    eventHandler<{ readonly id: string; readonly key: string }>({ type: 'order.placed', source: '/orders' }, async ({ id, key }) => {
      await store.apply(id)
      return [new Message({ id }, { type: 'order.accepted', source: '/orders', id: `accepted-${id}`, partitionkey: key })]
    }),
  )
  const options = { pollInterval: 20, batchSize: 20, backoff: () => 0, logger: silentLogger }
  const relay = topic && new Relay(store.outbox, { publisher: topic, ...options }).start()
  const source: Source = broker.source('orders')
  const running = router.run(source)
  return {
    async place(index: number) {
      const order = { id: `o-${index}`, key: `k-${index % keyCount}` }
      const attributes = { id: order.id, type: 'order.placed', source: '/shop', specversion: '1.0', datacontenttype: 'application/json' }
      await broker.publish('orders', [new Message(new TextEncoder().encode(JSON.stringify(order)), attributes)])
    },
    async [Symbol.asyncDispose]() {
      await router.stop()
      await running
      await relay?.stop()
      await store[Symbol.asyncDispose]()
    },
  }
}

describe.each(storeKinds)('during a rolling deployment on $name', (kind) => {
  it.each([
    ['the tables of the new release', 'current'],
    ['the tables of the release before', 'previous'],
  ] as const)(
    'services and relays of both releases work on %s, each order is applied once, and its event published',
    async (_, creator) => {
      await using shared = await kind.open()
      await shared.migrate(releases[creator])
      const topic = new Topic()
      {
        await using old = await startService(previous, shared, topic)
        await using renewed = await startService(current, shared, topic)
        for (let index = 0; index < orderCount; index += 1) {
          // Each order is delivered to both services, as in a redelivery.
          await Promise.all([old.place(index), renewed.place(index)])
        }
        await until(async () => new Set(topic.published.map(({ id }) => id)).size === orderCount, 'every event is published')
      }
      const applied = await shared.applied()
      expect(applied.size).toBe(orderCount)
      expect([...applied].filter(([, count]) => count !== 1)).toEqual([])
      expect(topic.published.length).toBe(orderCount)
      expect(topic.published.every(({ id }) => id.startsWith('accepted-o-'))).toBe(true)
    },
    120_000,
  )

  it('the new release publishes the records that the previous one has stored and not published', async () => {
    await using shared = await kind.open()
    await shared.migrate(previous)
    const topic = new Topic()
    {
      await using old = await startService(previous, shared, undefined)
      for (let index = 0; index < 20; index += 1) await old.place(index)
      await until(async () => (await shared.applied()).size === 20, 'every order is applied')
    }
    await shared.migrate(current)
    await using renewed = await startService(current, shared, topic)
    for (let index = 0; index < 40; index += 1) await renewed.place(index)
    await until(async () => new Set(topic.published.map(({ id }) => id)).size === 40, 'the events of both are published')
    expect([...(await shared.applied())].filter(([, count]) => count !== 1)).toEqual([])
  }, 120_000)
})

describe.each(storeKinds.filter(({ hasTables }) => hasTables))('the failures of relays of both releases on $name', (kind) => {
  it.each([
    ['with a cause and a history on the tables of the new release', 'current'],
    ['without them on the tables of the release before', 'previous'],
  ] as const)(
    'are settled %s',
    async (_, creator) => {
      await using shared = await kind.open()
      await shared.migrate(releases[creator])
      await using operator = await shared.connect(current)
      const { outbox } = operator
      const parked = async () => (await outbox.list({ state: 'parked' }, { limit: 100 })).records
      const refusedBy = async (release: Release) => {
        await using _service = await startService(release, shared, new RefusingTopic())
        await until(async () => (await parked()).length === 20, 'every event is parked')
      }
      {
        await using old = await startService(previous, shared, undefined)
        for (let index = 0; index < 20; index += 1) await old.place(index)
        await until(async () => (await shared.applied()).size === 20, 'every order is applied')
      }

      await refusedBy(previous)
      for (const { lastError, cause } of await parked()) expect([lastError, cause]).toEqual([expect.stringMatching(/no route/), undefined])

      expect(await outbox.rearm({ filter: {} })).toBe(20)
      await refusedBy(current)
      const isCurrent = creator === 'current'
      for (const { id, lastError, cause } of await parked()) {
        expect([lastError, cause]).toEqual([expect.stringMatching(/no route/), isCurrent ? expect.any(String) : undefined])
        expect(await outbox.history?.(id)).toHaveLength(isCurrent ? 2 : 0)
      }

      // The relay of the previous release also publishes records that have a cause and a history, and fails them.
      expect(await outbox.rearm({ filter: {} })).toBe(20)
      await refusedBy(previous)
      expect(await outbox.rearm({ filter: {} })).toBe(20)
      const topic = new Topic()
      await using _service = await startService(previous, shared, topic)
      await until(async () => topic.published.length === 20, 'every event is published')
    },
    120_000,
  )
})

describe.each(storeKinds.filter(({ hasTables, order }) => hasTables && order === 'none'))(
  'requests with an idempotency key on $name',
  (kind) => {
    it('are rejected on the tables of the release before, and answered when these are migrated', async () => {
      await using shared = await kind.open()
      await shared.migrate(previous)
      await using store = await shared.connect(current)
      const { requests } = store
      if (requests === undefined) throw new Error('The current release has this store.')
      const key = { scope: 'POST /orders', key: 'k1' }
      const claim = () => requests.claim(key, { fingerprint: 'f1', lease: 60_000 })
      await expect(claim()).rejects.toMatchObject({ code: 'ACKORD_SCHEMA', message: expect.stringContaining('createSchema(database)') })
      await shared.migrate(current)
      const claimed = await claim()
      if (claimed.state !== 'claimed') throw new Error(`The key is ${claimed.state}.`)
      await requests.write(key, claimed.token, async () => ({ status: 204, headers: [], body: new Uint8Array() }), { retention: 60_000 })
      expect(await claim()).toMatchObject({ state: 'answered', answer: { status: 204 } })
    })
  },
)
