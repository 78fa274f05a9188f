import { silentLogger } from '@ackord/core'
import { luaOutbox } from '../../../src/outbox/lua/lua-outbox.ts'
import type { Redis } from '../../../src/transaction/redis.ts'
import { failed, failedByStore, lease, parked, published, record, records } from './lua-world.ts'

/** Exercises every feature of a Lua outbox; runs each of its scripts at least once. */
export async function useLuaOutbox(redis: Redis): Promise<void> {
  const settings = { tag: 'flow', retain: true, block: 20, logger: silentLogger }
  const store = luaOutbox(redis, settings)
  await store.verify()
  await store.enqueue([...records(6), record('later', { delay: 1 })])
  await redis.write(async (transaction) => store.append(transaction, [record('in a transaction')]))
  const [done, again, byStore, given, released, held] = await store.claim({ limit: 6, lease })
  if (!(done && again && byStore && given && released && held)) throw new Error('Expected six claimed records.')
  await store.renew([held], 1)
  await store.release([released])
  await store.settle([published(done), failed(again), failedByStore(byStore), parked(given)])
  await store.claim({ limit: 10, lease, except: ['another'], retried: 'only' })
  await store.claim({ limit: 10, lease, destinations: ['orders'], retried: 'never' })
  await store.list({}, { limit: 2 })
  await store.get(given.id)
  await store.history(given.id)
  await store.rearm({ ids: [given.id] }, { attributes: { note: 'mended' } })
  const rest = await store.claim({ limit: 10, lease })
  await store.settle(rest.map((claim) => parked(claim)))
  const ids = rest.map(({ id }) => id)
  await store.rearm({ ids: ids.slice(0, 1) })
  await store.discard(ids.slice(1), 'not needed')
  await store.stats()
  await store.pause('orders', { duration: 1 })
  await store.pauses()
  await store.resume('orders')
  await store.deletePublished({ olderThan: 0, limit: 10 })

  const ordered = luaOutbox(redis, { ...settings, name: 'ordered', order: 'perKey', exclusive: true })
  await ordered.verify()
  await ordered.enqueue([1, 2, 3, 4].map((number) => record(`o${number}`, { attributes: { partitionkey: 'k' } })))
  const [first, second, third, fourth] = await ordered.claim({ limit: 10, lease })
  if (!(first && second && third && fourth)) throw new Error('Expected four claimed records of one key.')
  await ordered.renew([first], lease)
  await ordered.settle([published(first), failed(second), parked(third)])
  await ordered.leave?.()
  await ordered.claim({ limit: 10, lease, behindParked: 'marked' })

  const stop = new AbortController()
  let woken = 0
  for await (const _ of store.wakeUps?.({ signal: stop.signal }) ?? []) {
    woken += 1
    if (woken === 2) break
    await store.enqueue([record(`more ${woken}`)])
  }
}
