import { Message } from '@ackord/core'
import { expect, it, vi } from 'vitest'
import type { RedisPort } from '../../../src/client/port.ts'
import { type StreamOutboxOptions, streamOutbox } from '../../../src/outbox/stream/stream-outbox.ts'
import { internalsOf, Redis } from '../../../src/transaction/redis.ts'
import type { RedisTransaction } from '../../../src/transaction/transaction.ts'
import { redisKinds } from '../../support/redis-clients.ts'
import { idsOf, lease, record, records, StreamWorld } from './stream-world.ts'
import { TestTransaction } from './test-transaction.ts'

const single = redisKinds.filter(({ cluster }) => !cluster)

it('claims 500 of many by a script and XREADGROUP, and settles 500 by one script', async () => {
  await using world = await StreamWorld.open()
  const calls: string[] = []
  const { port } = world
  const counting: RedisPort = {
    ...port,
    send: (command, options) => {
      calls.push(command.name)
      return port.send(command, options)
    },
    evaluate: (script, ...more) => {
      calls.push('a script')
      return port.evaluate(script, ...more)
    },
  }
  const store = streamOutbox(new Redis({}, counting), { tags: [world.tag], claimInterval: 3_600_000 })
  await world.append(...records(1500))
  await store.claim({ limit: 500, lease })
  calls.length = 0
  const held = await store.claim({ limit: 500, lease })
  expect(held).toHaveLength(500)
  expect(calls).toEqual(['a script', 'XREADGROUP'])
  calls.length = 0
  const answers = await store.settle(held.map(({ id, token }) => ({ id, token, result: 'published' })))
  expect(answers.every((answer) => answer === 'applied')).toBe(true)
  expect(calls).toEqual(['a script'])
})

it('B13: appends without MAXLEN; only the stream for wake-ups has one', async () => {
  await using world = await StreamWorld.open()
  const queued: (readonly (string | Buffer)[])[] = []
  const woken: unknown[] = []
  const transaction = {
    anchor: undefined,
    queueEvent: ({ name, args }) => void queued.push([name, ...args]),
    queueWakeUp: (stream) => void woken.push(String(stream).split(':')[2]),
  } as RedisTransaction
  await world.store.append(transaction, [record('e1'), record('e2')])
  expect(queued.map(([name, key, id]) => [name, String(key).split(':')[2], id])).toEqual([
    ['SADD', 'destinations', 'orders'],
    ['XADD', 'to', '*'],
    ['XADD', 'to', '*'],
  ])
  expect(woken).toEqual(['wake'])
})

it('B20: claims the records of a destination in the order of their commits', async () => {
  await using world = await StreamWorld.open()
  const first = new TestTransaction()
  const second = new TestTransaction()
  await world.store.append(first, [record('committed second')])
  await world.store.append(second, [record('committed first')])
  await second.commit(world.port)
  await first.commit(world.port)
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['committed first', 'committed second'])
})

it.each(single)('is woken by commits of other processes, also to a new destination: $name', async (kind) => {
  await using world = await StreamWorld.open({ kind, outbox: { block: 50 } })
  const stop = new AbortController()
  let woken = 0
  const following = (async () => {
    for await (const _ of world.another().wakeUps?.({ signal: stop.signal }) ?? []) woken += 1
  })()
  await vi.waitFor(() => expect(woken).toBe(1), 15_000)
  for (const destination of ['orders', 'orders', 'invoices']) {
    const before = woken
    await world.append(record('e1', { destination }))
    await vi.waitFor(() => expect(woken).toBeGreaterThan(before), 15_000)
  }
  stop.abort()
  await following
})

it.each(single)('uses the key prefix of the client: $name', async (kind) => {
  await using world = await StreamWorld.open({ kind, keyPrefix: 'shop:' })
  await world.append(...records(3))
  const [done, failed, parked] = await world.store.claim({ limit: 3, lease })
  if (!(done && failed && parked)) throw new Error('expected three claimed records')
  await world.store.settle([
    { id: done.id, token: done.token, result: 'published' },
    { id: failed.id, token: failed.token, result: 'failed', error: 'x', retryAfter: 0 },
    { id: parked.id, token: parked.token, result: 'parked', error: 'x' },
  ])
  expect(idsOf(await world.store.claim({ limit: 3, lease }))).toEqual(['e2'])
  expect(Number(await world.command('XLEN', `shop:${world.key('to')}`))).toBe(2)
  expect(Number(await world.command('EXISTS', world.key('to'), world.key('parked'), world.destinationsKey))).toBe(0)
})

it('stores and reads with custom marshal and unmarshal functions', async () => {
  const outbox: StreamOutboxOptions = {
    marshal: ({ data, attributes }) => ({ body: data, kind: String(attributes.type), number: String(attributes.id) }),
    unmarshal(fields) {
      const text = (name: string) => Buffer.from(fields.get(name) ?? []).toString()
      if (text('number') === 'e2') throw new Error('the number is odd')
      return new Message(fields.get('body') ?? new Uint8Array(), { id: text('number'), type: text('kind') })
    },
  }
  await using world = await StreamWorld.open({ outbox })
  await world.append(record('e1', { data: Uint8Array.of(0, 255) }), record('e2'), record('later', { delay: 3_600_000 }))
  const [claimed, ...others] = await world.store.claim({ limit: 10, lease })
  expect(others).toEqual([])
  expect([claimed?.message.attributes, [...(claimed?.message.data ?? [])]]).toEqual([{ id: 'e1', type: 'order.placed' }, [0, 255]])
  const { records: parked } = await world.store.list({ state: 'parked' }, { limit: 10 })
  expect(parked).toMatchObject([{ lastError: 'It cannot be read: the number is odd', cause: 'It cannot be read.' }])
})

it('records that are delayed or cannot be read do not block the others, however many they are', async () => {
  await using world = await StreamWorld.open()
  await world.append(...records(25, { delay: 3_600_000 }))
  for (let index = 0; index < 25; index += 1) await world.command('XADD', world.key('to'), '*', 'something', 'else')
  await world.append(record('now'))
  expect(idsOf(await world.store.claim({ limit: 10, lease }))).toEqual(['now'])
  expect((await world.store.stats()).destinations).toMatchObject([{ ready: 0, waiting: 25, leased: 1, parked: 25 }])
})

it('distinguishes ids and destinations with braces, colons, slashes and spaces', async () => {
  await using world = await StreamWorld.open()
  const odd = ['{a}', '}', 'a:b', 'a b', '/', 'a/b', '%2F', '{}{x}', ' ', '\n', '🚚']
  await world.append(...odd.map((name) => record(name, { destination: name })))
  const claimed = await world.store.claim({ limit: 100, lease })
  expect(claimed.map(({ destination, message }) => [destination, message.id]).sort()).toEqual(odd.map((name) => [name, name]).sort())
  for (const { id, message } of claimed) expect((await world.store.get(id))?.message.id).toBe(message.id)
  const answers = await world.store.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))
  expect(answers).toEqual(odd.map(() => 'applied'))
})

it('accepts no claim that it did not make', async () => {
  await using world = await StreamWorld.open()
  await world.append(record('e1'))
  const [held] = await world.store.claim({ limit: 1, lease })
  if (held === undefined) throw new Error('expected one claimed record')
  const strange = [
    { id: '', token: '' },
    { id: held.id, token: 'x' },
    { id: 'x', token: held.token },
    { id: '1-1/other/orders', token: held.token },
    { id: held.id, token: '2 somebody' },
  ]
  expect(await world.store.settle(strange.map((claim) => ({ ...claim, result: 'published' })))).toEqual(strange.map(() => 'lost'))
  expect(await world.store.renew(strange, lease)).toEqual(strange.map(() => false))
  for (const { id } of strange.slice(2, 3)) expect(await world.store.get(id)).toBeUndefined()
  expect(
    await world.store.discard(
      strange.map(({ id }) => id),
      'none',
    ),
  ).toBe(0)
  expect(await world.store.settle([{ id: held.id, token: held.token, result: 'published' }])).toEqual(['applied'])
})

it('stores nothing if one record cannot be stored', async () => {
  await using world = await StreamWorld.open()
  const transaction = new TestTransaction()
  const broken = [
    { destination: '', message: record('e').message },
    { destination: '\uD800', message: record('e').message },
    { destination: 'orders', message: new Message(new Uint8Array(), { id: 'e', type: 't' }) },
    { destination: 'orders', message: new Message(1n, { id: 'e', type: 't', source: '/s' }) },
    { ...record('e'), delay: -1 },
  ]
  for (const one of broken) await expect(world.store.append(transaction, [record('good'), one])).rejects.toThrow()
  await transaction.commit(world.port)
  expect(await world.store.claim({ limit: 10, lease })).toEqual([])
  await expect(world.store.append(undefined as unknown as RedisTransaction, [record('e')])).rejects.toMatchObject({
    code: 'ACKORD_TRANSACTION_REQUIRED',
  })
})

it('refuses options that cannot work', async () => {
  await using world = await StreamWorld.open()
  const refused: [object, string][] = [
    [{ stream: '' }, 'stream'],
    [{ group: '' }, 'group'],
    [{ consumer: '' }, 'consumer'],
    [{ tags: [] }, 'tags'],
    [{ tags: ['a', 'a'] }, "'a' twice"],
    [{ tags: ['\uD800'] }, 'tags[0]'],
    [{ block: 0 }, 'block'],
    [{ claimInterval: -1 }, 'claimInterval'],
    [{ idleTime: 0 }, 'idleTime'],
    [{ marshal: () => ({}) }, 'unmarshal'],
    [{ unmarshal: () => record('e').message }, 'marshal'],
    [{ maxLength: 10 }, 'maxLength'],
  ]
  for (const [options, named] of refused) expect(() => streamOutbox(world.redis, options), named).toThrow(named)
  expect(internalsOf(world.redis).port).toBe(world.port)
})
