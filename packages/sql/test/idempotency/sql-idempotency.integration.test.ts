import { rootContext } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import type { IdempotencyStore, StoredAnswer } from '@ackord/outbox'
import { deferred } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { cleanIdempotency, type SqlIdempotencyOptions, sqlIdempotency } from '../../src/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import { type OpenClientWorld, onEachClient } from '../support/client-worlds.ts'
import { failureOf } from '../support/world.ts'

const key = { scope: 'POST /orders', key: 'k1' }
const answer: StoredAnswer = { status: 201, headers: [], body: new TextEncoder().encode('placed') }
const retention = 60_000

async function claimed(store: IdempotencyStore<unknown>, lease = 60_000, which = key): Promise<string> {
  const found = await store.claim(which, { fingerprint: 'f1', lease })
  if (found.state !== 'claimed') throw new Error(`The key is ${found.state}.`)
  return found.token
}

/** Holds every transaction at a probe until it is disposed. `reached` resolves when the first one is there. */
function holdAt(point: string) {
  const reached = deferred()
  const end = deferred()
  const uninstall = installProbe((at) => {
    if (at !== point) return undefined
    reached.resolve()
    return end.promise
  })
  const release = () => {
    uninstall()
    end.resolve()
  }
  return { reached: reached.promise, release, [Symbol.dispose]: release }
}

onEachClient(<Handle>(name: string, open: OpenClientWorld<Handle>, { privileges: isServer }: { readonly privileges: boolean }) => {
  describe(`sqlIdempotency() on ${name}`, () => {
    it('rejects unknown and invalid options', async () => {
      await using world = await open()
      for (const wrong of [{ lease: 1 }, { isolation: 'strict' }, { names: { idempotency: '' } }]) {
        const create = () => void sqlIdempotency(world.database, wrong as unknown as SqlIdempotencyOptions)
        expect(create).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION' }))
      }
    })

    it('rejects a write inside of a transaction, whose commit it cannot know', async () => {
      await using world = await open()
      const store = sqlIdempotency(world.database)
      const token = await claimed(store)
      const nested = world.database.write(() => store.write(key, token, async () => answer, { retention }))
      expect(await failureOf(nested)).toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER', message: expect.stringMatching(/outside/) })
      await store.write(key, token, async () => answer, { retention, context: rootContext() })
    })

    it('does not do the work again after a conflict', async () => {
      await using world = await open()
      const store = sqlIdempotency(world.database)
      const token = await claimed(store)
      const conflict = Object.assign(new Error('lost'), { code: '40001', errno: isServer ? 1213 : 5, errcode: 5 })
      expect(portOf(world.database).dialect.isConflict(conflict)).toBe(true)
      let calls = 0
      const work = async (): Promise<StoredAnswer> => {
        calls += 1
        throw conflict
      }
      expect(await failureOf(store.write(key, token, work, { retention }))).toBe(conflict)
      expect(calls).toBe(1)
      await store.write(key, token, async () => answer, { retention })
    })

    it('stores the answer although a nested transaction that the work has not awaited is rolled back', async () => {
      await using world = await open()
      const { database } = world
      const store = sqlIdempotency(database)
      const token = await claimed(store)
      const worked = deferred()
      const uninstall = installProbe((point) => {
        // One turn later the statement that stores the answer would have been sent.
        if (point === 'idempotency.worked') setImmediate(() => worked.resolve())
      })
      const work = async () => {
        const nested = database.write(async (inner) => {
          await world.insert(inner, '1')
          begun.resolve()
          await worked.promise
          throw new Error('undone')
        })
        nested.catch(() => {})
        await begun.promise
        return answer
      }
      const begun = deferred()
      try {
        await store.write(key, token, work, { retention })
      } finally {
        uninstall()
      }
      expect(await store.claim(key, { fingerprint: 'f1', lease: 1000 })).toMatchObject({ state: 'answered' })
      expect(await world.orders()).toBe(0)
    })

    it('deletes expired answers and abandoned claims in bounded steps, and nothing else', async () => {
      await using world = await open()
      const store = sqlIdempotency(world.database)
      const keyOf = (id: string) => ({ scope: 'POST /orders', key: id })
      const place = async (id: string, kept: number) =>
        await store.write(keyOf(id), await claimed(store, 60_000, keyOf(id)), async () => answer, { retention: kept })
      for (const id of ['old 1', 'old 2', 'old 3']) await place(id, 1)
      await place('kept', retention)
      await claimed(store, 60_000, keyOf('running'))
      await claimed(store, 1, keyOf('abandoned today'))
      await claimed(store, 1, keyOf('abandoned'))
      // As if a day had passed.
      await world.query("UPDATE ackord_idempotency SET expires_at = lease_until WHERE request_key = 'abandoned'")
      const deleted: number[] = []
      // The last of them expires within a millisecond.
      while (deleted.reduce((sum, count) => sum + count, 0) < 4) deleted.push(await cleanIdempotency(world.database, { limit: 3 }))
      expect(Math.max(...deleted)).toBeLessThanOrEqual(3)
      expect(await cleanIdempotency(world.database)).toBe(0)
      const left = await world.column('SELECT request_key FROM ackord_idempotency ORDER BY request_key')
      expect(left.map(String)).toEqual(['abandoned today', 'kept', 'running'])
      expect(await failureOf(cleanIdempotency(world.database, { limit: 0 }))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    })
  })

  // SQLite has one writer, and no locks of rows.
  if (!isServer) return

  describe(`a request on ${name} that is about to commit`, () => {
    it('does not make other requests wait: its key is running, although its lease has ended, and is not released', async () => {
      await using world = await open()
      const store = sqlIdempotency(world.database)
      const token = await claimed(store, 1)
      using held = holdAt('transaction.beforeCommit')
      const writing = store.write(key, token, async () => answer, { retention })
      await held.reached
      expect(await store.claim(key, { fingerprint: 'f1', lease: 1000 })).toEqual({ state: 'running', remaining: 1 })
      await store.release(key, token)
      held.release()
      await writing
      expect(await store.claim(key, { fingerprint: 'f1', lease: 1000 })).toMatchObject({ state: 'answered', answer: { status: 201 } })
    })

    it.each(['repeatable read', 'serializable'] as const)('has lost its claim also at the isolation level %s', async (isolation) => {
      await using world = await open()
      const store = sqlIdempotency(world.database, { isolation })
      const token = await claimed(store, 1)
      const work = async (transaction: Handle) => {
        // From here on the transaction sees a snapshot.
        await world.run(transaction, 'SELECT count(*) FROM orders')
        await world.insert(transaction, '1')
        opened.resolve()
        await end.promise
        return answer
      }
      const opened = deferred()
      const end = deferred()
      const writing = failureOf(store.write(key, token, work, { retention }))
      await opened.promise
      const second = await claimed(store)
      end.resolve()
      expect(await writing).toMatchObject({ code: 'ACKORD_CLAIM_LOST' })
      expect(await world.orders()).toBe(0)
      await store.write(key, second, async () => answer, { retention })
    })
  })
})
