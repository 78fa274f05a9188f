import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { expect, it, vi } from 'vitest'
import { ownName } from '../../../../../scripts/test-run.mjs'
import { warningsDuring } from '../../../../core/test/support/process-events.ts'
import { keySlot, redisKey } from '../../../src/client/keys.ts'
import { type RedisKind, redisKinds } from '../../support/redis-clients.ts'
import { record, StreamWorld } from './stream-world.ts'
import { TestTransaction } from './test-transaction.ts'

it.each(redisKinds)('B17: a relay reads all tags; each record is in the slot of its transaction: $name', async (kind) => {
  const tags = Array.from({ length: 5 }, () => `tag-${ownName()}`)
  await using world = await StreamWorld.open({ kind, outbox: { tags } })
  const { store, port } = world
  for (const [index, tag] of tags.entries()) {
    const transaction = new TestTransaction(redisKey(tag, 'order', index))
    await store.append(transaction, [record(`a${index}`), record(`b${index}`, { destination: 'invoices' })])
    await transaction.commit(port)
    const stream = redisKey(tag, 'outbox', 'to', 'orders')
    expect(keySlot(stream)).toBe(keySlot(redisKey(tag, 'order', index)))
    expect(Number(await world.command('XLEN', stream))).toBe(1)
  }
  expect((await store.stats()).destinations.map(({ destination, ready }) => [destination, ready]).sort()).toEqual([
    ['invoices', 5],
    ['orders', 5],
  ])
  const { records: first, next } = await store.list({}, { limit: 7 })
  const { records: rest } = await store.list({}, { limit: 7, after: next })
  expect([...first, ...rest].map(({ message }) => message.id)).toEqual(tags.flatMap((_, index) => [`a${index}`, `b${index}`]))

  const arrived: (string | undefined)[] = []
  const publisher = {
    async publish(_: string, messages: readonly { readonly id?: string | undefined }[]) {
      arrived.push(...messages.map(({ id }) => id))
      return messages.map(() => ({ ok: true }) as const)
    },
  }
  const relay = new Relay(store, { publisher, pollInterval: 50, logger: silentLogger })
  relay.start()
  await vi.waitFor(() => expect(arrived).toHaveLength(10), 15_000)
  await relay.stop()
  expect(new Set(arrived).size).toBe(10)
  expect((await store.stats()).destinations).toEqual([])
  for (const tag of tags) {
    for (const destination of ['orders', 'invoices']) await world.command('DEL', redisKey(tag, 'outbox', 'to', destination))
    await world.command('DEL', redisKey(tag, 'outbox', 'destinations'))
  }
})

it('shares a claim among all tags and destinations, however small it is', async () => {
  await using world = await StreamWorld.open()
  await world.append(
    ...Array.from({ length: 20 }, (_, index) => record(`a${index}`, { destination: 'busy' })),
    record('q', { destination: 'quiet' }),
  )
  const seen: string[] = []
  for (let round = 0; round < 3; round += 1)
    seen.push(...(await world.store.claim({ limit: 1, lease: 60_000 })).map(({ destination }) => destination))
  expect(seen).toContain('quiet')
  expect(seen).toContain('busy')
})

it('waits for records of many tags without the MaxListenersExceededWarning of Node', async () => {
  const tags = Array.from({ length: 20 }, () => `tag-${ownName()}`)
  const [ioredis6] = redisKinds as readonly [RedisKind]
  await using world = await StreamWorld.open({ kind: ioredis6, outbox: { tags } })
  const { store } = world
  const warnings = await warningsDuring(async () => {
    const stop = new AbortController()
    const wakeUps = store.wakeUps?.({ signal: stop.signal })?.[Symbol.asyncIterator]()
    const first = wakeUps?.next()
    await new Promise((resolve) => setTimeout(resolve, 500))
    stop.abort()
    await first
  })
  expect(warnings.map(({ name }) => name)).toEqual([])
})
