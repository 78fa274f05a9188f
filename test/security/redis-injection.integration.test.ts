import { compose, silentLogger } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import { fromIoredis, inboxMiddleware, type Redis, type RedisTransaction, streamOutbox, transactionMiddleware } from '@ackord/redis'
import { luaOutbox } from '@ackord/redis/lua-outbox'
import { Redis as Ioredis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { keySlot } from '../../packages/redis/src/client/keys.ts'
import { type RedisRecording, recordRedis } from '../../packages/redis/test/support/redis-recording.ts'
import { startRedis } from '../../scripts/servers/index.mjs'
import { isProof } from '../../scripts/test-depth.mjs'
import { testInjection, type WatchedStore } from './injection-suite.ts'
import { isWellFormed, mark, randomTexts, specials } from './odd-texts.ts'

const [count, messages] = isProof ? [10_000, 1000] : [2000, 200]

// The suites process thousands of texts one by one, which is slow on a busy machine.
vi.setConfig({ testTimeout: 300_000 })

type Outbox = WatchedStore['outbox'] & { append(transaction: RedisTransaction, records: readonly NewOutboxRecord[]): Promise<void> }

let server: Awaited<ReturnType<typeof startRedis>>

// A dedicated server, because MONITOR shows the commands of all clients.
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

async function openStore(outboxOf: (redis: Redis) => Outbox): Promise<WatchedStore> {
  const client = new Ioredis(server.url)
  await client.flushall()
  // So that every script is sent in full once more.
  await client.script('FLUSH')
  await client.set('canary', 'alive')
  const recording: RedisRecording = await recordRedis(server.url)
  const redis = fromIoredis(client, { logger: silentLogger })
  const outbox = outboxOf(redis)
  return {
    outbox,
    append: (records) => redis.write((transaction) => outbox.append(transaction, records), { logger: silentLogger }),
    inbox: (consumer) => compose(inboxMiddleware(redis, { consumer }), transactionMiddleware(redis, { logger: silentLogger })),
    async texts() {
      const words = (await recording.commands()).filter(({ inScript }) => !inScript).map((command) => command.words)
      return words.flatMap(([name = '', text = '', script = '']) => {
        if (name.toUpperCase() === 'EVAL') return [text]
        return name.toUpperCase() === 'SCRIPT' ? [script] : []
      })
    },
    async surroundings() {
      const keys = await client.keys('*')
      return {
        canary: await client.get('canary'),
        others: keys.filter((key) => !key.startsWith('{ackord}') && !/^\{ackord-?\d*\}/.test(key)).toSorted(),
      }
    },
    async [Symbol.asyncDispose]() {
      await recording[Symbol.asyncDispose]()
      client.disconnect()
    },
  }
}

testInjection({
  name: 'Redis (streams)',
  open: () => openStore((redis) => streamOutbox(redis, { logger: silentLogger })),
  count,
  messages,
})
testInjection({
  name: 'Redis (Lua)',
  open: () => openStore((redis) => luaOutbox(redis, { logger: silentLogger })),
  count,
  messages,
})

describe('keys of Redis', () => {
  it('of different parts are different, and those of one tag are in one slot', async () => {
    const client = new Ioredis(server.url)
    const redis = fromIoredis(client, { logger: silentLogger })
    const texts = [...new Set([...specials, ...randomTexts(10_000)])].filter(isWellFormed)
    const parts = texts.flatMap((text) => [[text], [text, ''], ['', text], [text, text], [`${text}:${text}`], [`${text}}:${text}`]])
    const keys = parts.map((each) => redis.key(`${mark}{}`, ...each))
    expect(new Set(keys).size).toBe(new Set(parts.map((each) => JSON.stringify(each))).size)
    expect(new Set(keys.map(keySlot)).size).toBe(1)
    client.disconnect()
  })
})
