import { silentLogger } from '@ackord/core'
import { type ClaimedRecord, type NewOutboxRecord, type OutboxAdmin, type OutboxStore, Relay } from '@ackord/outbox'
import { startFaultProxy } from '@ackord/testkit'
import { describe, expect, it, vi } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import type { ClientSettings } from './redis-clients.ts'

const megabyte = 1024 * 1024
const lease = 60_000

/** An outbox on a server of its own. */
interface BytesWorld extends AsyncDisposable {
  readonly store: OutboxStore & OutboxAdmin
  append(records: readonly NewOutboxRecord[]): Promise<void>
  /** Makes the leases of these records expire. */
  expire(held: readonly ClaimedRecord[]): Promise<void>
  command(...words: string[]): Promise<unknown>
}

interface BytesSuite {
  readonly name: string
  /** `parts`: the number of slots that the outbox uses. */
  open(settings: ClientSettings, parts: number): Promise<BytesWorld>
  record(id: string, data: Uint8Array, destination: string): NewOutboxRecord
}

/** Claims of both outboxes respect `maxBytes`, and the deadline over a slow connection. */
export function testClaimBytes({ name, open, record }: BytesSuite): void {
  const sized = (id: string, megabytes: number, destination = 'orders') =>
    record(id, new Uint8Array(megabytes * megabyte - 1000), destination)
  const many = (count: number, megabytes: number, destination?: string) =>
    Array.from({ length: count }, (_, index) => sized(`e${index + 1}`, megabytes, destination))
  const idsOf = (claimed: readonly ClaimedRecord[]) => claimed.map(({ message }) => message.id)
  const published = ({ id, token }: ClaimedRecord) => ({ id, token, result: 'published' }) as const

  describe(`claims of ${name} are limited in bytes`, { timeout: 60_000 }, () => {
    it('stops before the record that would exceed it, and claims the rest next', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 1)
      await world.append(many(5, 1))
      expect(idsOf(await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease }))).toEqual(['e1', 'e2'])
      expect(idsOf(await world.store.claim({ limit: 1, maxBytes: 2 * megabyte, lease }))).toEqual(['e3'])
      expect(idsOf(await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease }))).toEqual(['e4', 'e5'])
      expect(await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease })).toEqual([])
    })

    it('claims the first record however large it is, and alone', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 1)
      await world.append([sized('small', 1), sized('large', 4), sized('last', 1)])
      expect(idsOf(await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease }))).toEqual(['small'])
      expect(idsOf(await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease }))).toEqual(['large'])
      expect(idsOf(await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease }))).toEqual(['last'])
    })

    it('counts no attempt for the records that did not fit', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 1)
      await world.append(many(4, 1))
      await world.store.claim({ limit: 10, maxBytes: 1, lease })
      const { records } = await world.store.list({ state: 'ready' }, { limit: 10 })
      expect(records.map(({ message, attempts }) => [message.id, attempts])).toEqual([
        ['e2', 0],
        ['e3', 0],
        ['e4', 0],
      ])
    })

    it('limits released records, failed records and those of a dead relay', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 1)
      await world.append(many(9, 1))
      const held = await world.store.claim({ limit: 9, lease })
      expect(held).toHaveLength(9)
      await world.store.release(held.slice(0, 3))
      await world.store.settle(held.slice(3, 6).map(({ id, token }) => ({ id, token, result: 'failed', error: 'refused', retryAfter: 0 })))
      await world.expire(held.slice(6))
      const seen: (string | undefined)[] = []
      for (let round = 0; round < 9 && seen.length < 9; round += 1) {
        const claimed = await world.store.claim({ limit: 10, maxBytes: 2 * megabyte, lease })
        expect(claimed.length).toBeGreaterThan(0)
        expect(claimed.length).toBeLessThanOrEqual(2)
        seen.push(...idsOf(claimed))
      }
      expect(seen.sort()).toEqual(many(9, 1).map(({ message }) => message.attributes.id))
    })

    it('shares the bytes among destinations and slots; a large record of one does not block the others', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 3)
      await world.append(many(6, 4, 'large'))
      await world.append(many(20, 1, 'small'))
      const seen: ClaimedRecord[] = []
      for (let round = 0; round < 30 && seen.length < 26; round += 1) {
        const claimed = await world.store.claim({ limit: 10, maxBytes: 3 * megabyte, lease })
        expect(claimed.length).toBeGreaterThan(0)
        const bytes = claimed.reduce((sum, { message }) => sum + message.data.length, 0)
        if (claimed.length > 1) expect(bytes).toBeLessThanOrEqual(3 * megabyte)
        seen.push(...claimed)
      }
      expect(seen).toHaveLength(26)
      // Both destinations are interleaved: neither waits until the other is finished.
      const order = seen.map(({ destination }) => destination)
      expect(order.indexOf('large')).toBeLessThan(order.lastIndexOf('small'))
      expect(order.indexOf('small')).toBeLessThan(order.lastIndexOf('large'))
    })

    it('reads no more records into the memory of the server than it returns', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 1)
      for (let at = 0; at < 30; at += 10) await world.append(many(10, 4).map((_, index) => sized(`e${at + index}`, 4)))
      const before = await memoryOf(world, 'used_memory_peak')
      expect(await world.store.claim({ limit: 30, maxBytes: 8 * megabyte, lease })).toHaveLength(2)
      // Well below the 120 MB of all records.
      expect((await memoryOf(world, 'used_memory_peak')) - before).toBeLessThan(60 * megabyte)
      expect(await memoryOf(world, 'used_memory_lua')).toBeLessThan(60 * megabyte)
    })
  })

  describe(`claims of ${name} over a slow connection`, { timeout: 120_000 }, () => {
    it('late answers neither accumulate nor count attempts, and smaller claims succeed', async () => {
      await using server = await startRedis()
      await using proxy = await startFaultProxy(server.url)
      await using world = await open({ url: proxy.url, options: { deadline: 3000, logger: silentLogger } }, 1)
      await world.append(many(6, 1))
      // Six megabytes take six seconds, twice the deadline.
      proxy.slow({ bytesPerSecond: megabyte })
      const claim = () => world.store.claim({ limit: 10, maxBytes: 8 * megabyte, lease })
      await expect(claim()).rejects.toMatchObject({ code: 'ACKORD_REDIS_UNANSWERED' })
      await expect(claim()).rejects.toThrow('has not answered an earlier claim')
      proxy.slow()
      await vi.waitFor(async () => {
        const { records } = await world.store.list({ state: 'ready' }, { limit: 10 })
        expect(records.map(({ attempts }) => attempts)).toEqual([0, 0, 0, 0, 0, 0])
      }, 30_000)
      // Half of the bytes that the failed claims asked for.
      const claimed = await claim()
      expect(claimed.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1])
      expect(await world.store.settle(claimed.map(published))).toEqual(['applied', 'applied', 'applied', 'applied'])
      expect(await claim()).toHaveLength(2)
    })

    it('a relay drains a backlog of large records', async () => {
      await using server = await startRedis()
      await using world = await open({ url: server.url }, 1)
      for (let at = 0; at < 40; at += 10) await world.append(many(10, 4).map((_, index) => sized(`e${at + index}`, 4)))
      const arrived = new Set<string | undefined>()
      const relay = new Relay(limited(world.store, 16 * megabyte), {
        pollInterval: 50,
        logger: silentLogger,
        publisher: {
          async publish(_, messages) {
            for (const { id } of messages) arrived.add(id)
            return messages.map(() => ({ ok: true }))
          },
        },
      })
      relay.start()
      await vi.waitFor(() => expect(arrived.size).toBe(40), 60_000)
      await relay.stop()
    })
  })
}

/** A store that limits the bytes of claims even if the relay sets no limit. */
function limited(store: OutboxStore, maxBytes: number): OutboxStore {
  return { ...store, claim: (options) => store.claim({ maxBytes, ...options }) }
}

async function memoryOf(world: BytesWorld, field: string): Promise<number> {
  return Number(new RegExp(`${field}:(\\d+)`).exec(String(await world.command('INFO', 'memory')))?.[1])
}
