import { Message, rootContext, silentLogger } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { fromIoredis, inboxMiddleware, type Redis, type RedisTransaction, streamOutbox } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { streamPublisher, streamSource } from '@ackord/redis/streams'
import { Redis as Ioredis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startRedis } from '../../scripts/servers/index.mjs'
import { isWellFormed, randomTexts, specials } from './odd-texts.ts'

vi.setConfig({ testTimeout: 300_000 })

let server: Awaited<ReturnType<typeof startRedis>>
let client: Ioredis
let redis: Redis

// A dedicated server, because the tests inspect every key on it.
beforeAll(async () => {
  server = await startRedis()
  client = new Ioredis(server.url)
  redis = fromIoredis(client, { logger: silentLogger })
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

/** All names are different, and none equals the escaped form of another, such as `%7D` for a brace. */
const names: readonly string[] = [
  ...new Set([
    ...specials,
    ...randomTexts(40),
    ' ',
    '\n',
    '\r\n',
    'a',
    'A',
    'a ',
    ' a',
    'a\n',
    'a}',
    'a%7D',
    'a%257D',
    'a:b',
    'a%3Ab',
    'a{b',
    'a{b}',
    '{}',
    '}{',
    '{a',
    'a}b',
    '{a}b',
    'a}{b',
    'é',
    'e\u0301',
    'n'.repeat(10_000),
    `${'n'.repeat(10_000)}o`,
  ]),
]
const wellFormed = names.filter(isWellFormed)

/** With empty braces first, no key has a hash tag, and related keys are not in one slot. */
const isUntagged = (prefix: string) => /^[^{]*\{\}/.test(prefix)
const prefixes = wellFormed.filter((prefix) => !isUntagged(prefix))

const { signal } = new AbortController()

function event(id: string): Message<Uint8Array> {
  return new Message(new TextEncoder().encode('{}'), { id, type: 'order.placed', source: '/shop', specversion: '1.0', partitionkey: 'k' })
}

function isRefused(work: () => unknown): boolean {
  try {
    work()
  } catch (error) {
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    return true
  }
  return false
}

type Outbox = ReturnType<typeof streamOutbox> | ReturnType<typeof luaOutbox>
type Append = (transaction: RedisTransaction, records: readonly NewOutboxRecord[]) => Promise<void>

async function append(on: Redis, outbox: { readonly append: Append }, id: string): Promise<void> {
  await on.write((transaction) => outbox.append(transaction, [{ destination: 'events', message: event(id) }]), { logger: silentLogger })
}

/** All outboxes are filled before any is read, so that two that share a key are detected. */
async function expectApart(outboxes: readonly (readonly [on: Redis, outbox: Outbox])[]): Promise<void> {
  for (const [index, [on, outbox]] of outboxes.entries()) await append(on, outbox, `m-${index}`)
  for (const [index, [, outbox]] of outboxes.entries()) {
    const claimed = await outbox.claim({ limit: 10, lease: 60_000 })
    expect(claimed.map(({ message }) => message.id)).toEqual([`m-${index}`])
    expect((await outbox.list({}, { limit: 10 })).records.map(({ message }) => message.id)).toEqual([`m-${index}`])
    expect(await outbox.settle(claimed.map(({ id, token }) => ({ id, token, result: 'published' })))).toEqual(['applied'])
  }
}

const kinds = {
  streams: {
    tag: (tag: string, on = redis) => streamOutbox(on, { tags: [tag], logger: silentLogger }),
    name: (stream: string) => streamOutbox(redis, { stream, logger: silentLogger }),
  },
  Lua: {
    tag: (tag: string, on = redis) => luaOutbox(on, { tag, logger: silentLogger }),
    name: (name: string) => luaOutbox(redis, { name, logger: silentLogger }),
  },
}

describe.each(Object.entries(kinds))('an outbox of Redis (%s)', (_, make) => {
  it.each(['tag', 'name'] as const)('contains its own records, and none of an outbox with another %s', async (option) => {
    await client.flushall()
    expect(isRefused(() => make[option](''))).toBe(true)
    await expectApart(wellFormed.map((name) => [redis, make[option](name)]))
  })

  it('requires a tag of well-formed Unicode: otherwise different tags would become equal', () => {
    expect(isRefused(() => make.tag('a\ud800'))).toBe(true)
  })

  it('contains its own records, and none of an outbox with another client prefix', async () => {
    await client.flushall()
    const clients = prefixes.map((keyPrefix) => new Ioredis(server.url, { keyPrefix }))
    try {
      await expectApart(
        clients.map((each) => {
          const on = fromIoredis(each, { logger: silentLogger })
          return [on, make.tag('ackord', on)] as const
        }),
      )
      const keys = await client.keys('*')
      expect(keys.filter((key) => !prefixes.some((prefix) => key.startsWith(prefix)))).toEqual([])
    } finally {
      for (const each of clients) each.disconnect()
    }
  })
})

it.each(wellFormed.filter(isUntagged))(
  'a prefix of the client that leaves no key its tag is refused with the first record: %j',
  async (keyPrefix) => {
    await client.flushall()
    const prefixed = new Ioredis(server.url, { keyPrefix })
    const on = fromIoredis(prefixed, { logger: silentLogger })
    for (const make of Object.values(kinds))
      await expect(append(on, make.tag('ackord', on), 'm-1')).rejects.toMatchObject({ code: 'ACKORD_CROSS_SLOT' })
    expect(await client.dbsize()).toBe(0)
    prefixed.disconnect()
  },
)

it('names, groups and consumers that are not well-formed Unicode are refused: otherwise two of them would become equal', () => {
  const makings = [
    () => streamOutbox(redis, { stream: 'a\ud800' }),
    () => streamOutbox(redis, { group: 'a\ud800' }),
    () => inboxMiddleware(redis, { consumer: 'a\ud800' }),
    () => inboxMiddleware(redis, { consumer: 'orders', tag: 'a\ud800' }),
  ]
  expect(makings.map(isRefused)).toEqual([true, true, true, true])
})

it('groups of a stream outbox each get every record once', async () => {
  await client.flushall()
  expect(isRefused(() => streamOutbox(redis, { group: '' }))).toBe(true)
  const outboxes = wellFormed.map((group) => streamOutbox(redis, { group, logger: silentLogger }))
  await append(redis, outboxes[0] as Outbox, 'm-1')
  for (const outbox of outboxes) {
    const claimed = await outbox.claim({ limit: 10, lease: 60_000 })
    expect(claimed.map(({ message }) => message.id)).toEqual(['m-1'])
    expect(await outbox.claim({ limit: 10, lease: 60_000 })).toEqual([])
  }
})

it.each(['tag', 'consumer'] as const)('an inbox with another %s does not recognise the messages of the first one', async (option) => {
  await client.flushall()
  expect(isRefused(() => inboxMiddleware(redis, { consumer: 'orders', [option]: '' }))).toBe(true)
  let handled = 0
  const deliver = async (name: string) => {
    const message = event('m-1')
    const inbox = inboxMiddleware(redis, { consumer: 'orders', [option]: name })
    await inbox(async () => {
      handled += 1
      return []
    })(message, message.context(rootContext()))
  }
  for (const name of wellFormed) await deliver(name)
  expect(handled).toBe(wellFormed.length)
  for (const name of wellFormed) await deliver(name)
  expect(handled).toBe(wellFormed.length)
})

describe.each(['none', 'perKey'] as const)('a source of streams with order %s', (order) => {
  async function readOne(stream: string, group: string): Promise<string | undefined> {
    await using source = streamSource(redis, { stream, group, order, block: 50 })
    for await (const message of source.messages({ signal })) {
      await message.ack()
      return message.id
    }
    return undefined
  }

  it('reads the stream of its name, or refuses it', async () => {
    await client.flushall()
    await using publisher = streamPublisher(redis)
    const usable = names.filter((stream) => !isRefused(() => streamSource(redis, { stream, group: 'billing', order })))
    expect(usable.length).toBeGreaterThan(wellFormed.length * 0.8)
    for (const [index, stream] of usable.entries())
      expect(await publisher.publish(stream, [event(`m-${index}`)], { signal })).toEqual([{ ok: true }])
    for (const [index, stream] of usable.entries()) expect(await readOne(stream, 'billing'), JSON.stringify(stream)).toBe(`m-${index}`)
    for (const stream of usable) expect(await client.xlen(stream), JSON.stringify(stream)).toBe(1)
  })

  it('reads for the group of its name, or refuses it', async () => {
    await client.flushall()
    await using publisher = streamPublisher(redis)
    await publisher.publish('orders', [event('m-1')], { signal })
    expect(isRefused(() => streamSource(redis, { stream: 'orders', group: '' }))).toBe(true)
    const usable = names.filter((group) => !isRefused(() => streamSource(redis, { stream: 'orders', group, order })))
    expect(usable.length).toBeGreaterThanOrEqual(wellFormed.length)
    for (const group of usable) expect(await readOne('orders', group), JSON.stringify(group)).toBe('m-1')
    const groups = (await client.xinfo('GROUPS', 'orders')) as unknown[][]
    expect(groups.map(([, name]) => name).sort()).toEqual([...usable].sort())
  })
})
