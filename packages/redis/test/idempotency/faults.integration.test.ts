import type { IdempotencyKey, StoredAnswer } from '@ackord/outbox'
import { deferred, type Fault, startFaultProxy } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { commitScript } from '../../src/transaction/commit-script.ts'
import { type RedisKind, redisKinds, redisUrl } from '../support/redis-clients.ts'
import { until } from '../support/until.ts'
import { openIdempotencyWorld, type RedisProcess } from './idempotency-world.ts'

const [ioredis6] = redisKinds as readonly [RedisKind]
const key: IdempotencyKey = { scope: 'POST /orders', key: 'k1' }
const created: StoredAnswer = { status: 201, headers: [], body: new TextEncoder().encode('created') }

function claim({ store }: RedisProcess) {
  return store.claim(key, { fingerprint: 'f1', lease: 60_000 })
}

async function claimed(process: RedisProcess): Promise<string> {
  const found = await claim(process)
  if (found.state !== 'claimed') throw new Error(`The key is ${found.state}.`)
  return found.token
}

function write({ store, put }: RedisProcess, token: string, value: string): Promise<StoredAnswer> {
  return store.write(
    key,
    token,
    async (transaction, context) => {
      await put({ transaction, context }, 'order', value)
      return created
    },
    { retention: 3_600_000 },
  )
}

/** A process behind a proxy that applies the fault to its first commit, and a world on the same data that is not behind it. */
async function openFaulty(kind: RedisKind, fault: Fault) {
  let armed = true
  const proxy = await startFaultProxy(redisUrl, (bytes) => {
    if (!armed || !bytes.includes(commitScript.sha)) return 'pass'
    armed = false
    return fault
  })
  const world = await openIdempotencyWorld(kind)
  // Loads the script first, so that the fault hits a commit and not an EVALSHA that the server answers with NOSCRIPT.
  await world.command('SCRIPT', 'LOAD', commitScript.lua)
  const faulty = await world.another({ url: proxy.url, options: { deadline: 3000 } })
  return {
    world,
    faulty,
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy.idle()
      await world[Symbol.asyncDispose]()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

const aborted = { code: 'ACKORD_TRANSACTION_ABORTED' }

describe.each(redisKinds.filter(({ cluster }) => !cluster))('lost connections on $name', (kind) => {
  it('a commit whose answer is lost is known to be committed, and its answer is stored once', async () => {
    await using opened = await openFaulty(kind, 'cut after')
    const { world, faulty } = opened
    expect(await write(faulty, await claimed(faulty), 'first')).toEqual(created)
    expect(await world.read('order')).toBe('first')
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
  })

  it('a commit that never arrived is sent again, or rejected, and then the key can be claimed at once', async () => {
    await using opened = await openFaulty(kind, 'cut before')
    const { world, faulty } = opened
    const outcome = await outcomeOf(write(faulty, await claimed(faulty), 'first'))
    if (outcome !== 'written') {
      expect(outcome).toMatchObject(aborted)
      expect(await world.read('order')).toBeUndefined()
      await write(world, await claimed(world), 'first')
    }
    expect(await world.read('order')).toBe('first')
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
  })

  it('a commit that arrives after it was given up changes nothing, also if another request has taken over', async () => {
    const arrives = deferred()
    await using opened = await openFaulty(kind, { late: arrives.promise })
    const { world, faulty, proxy } = opened
    const outcome = await outcomeOf(write(faulty, await claimed(faulty), 'late'))
    // ioredis may have sent the commit again by itself.
    if (outcome !== 'written') {
      expect(outcome).toMatchObject(aborted)
      await write(world, await claimed(world), 'second')
    }
    const before = await world.read('order')
    expect(before).toBe(outcome === 'written' ? 'late' : 'second')
    arrives.resolve()
    await proxy.idle()
    expect(await world.read('order')).toBe(before)
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
  })

  it('after a commit whose outcome is unknown a release is safe, and the repeated request gets the answer', async () => {
    let isDown = false
    await using proxy = await startFaultProxy(redisUrl, (bytes) => {
      if (isDown) return 'cut before'
      if (!bytes.includes(commitScript.sha)) return 'pass'
      isDown = true
      return 'cut after'
    })
    await using world = await openIdempotencyWorld(kind)
    await world.command('SCRIPT', 'LOAD', commitScript.lua)
    const faulty = await world.another({ url: proxy.url, options: { deadline: 600 } })
    const token = await claimed(faulty)
    await expect(write(faulty, token, 'first')).rejects.toMatchObject({
      code: 'ACKORD_COMMIT_UNKNOWN',
      message: expect.stringContaining('the request with the idempotency key "k1"'),
    })
    await world.store.release(key, token)
    expect(await claim(world)).toEqual({ state: 'answered', answer: created })
    expect(await world.read('order')).toBe('first')
  })

  it('a claim whose answer does not come is given back', async () => {
    await using proxy = await startFaultProxy(redisUrl)
    await using world = await openIdempotencyWorld(kind)
    const faulty = await world.another({ url: proxy.url, options: { deadline: 300 } })
    // The connection is open before the answers are held back.
    await faulty.store.release(key, await claimed(faulty))
    proxy.hold()
    await expect(claim(faulty)).rejects.toMatchObject({ code: 'ACKORD_REDIS_UNANSWERED' })
    proxy.release()
    await until('the claim is given back', async () => (await world.keys('idempotency')).length === 0)
    await claimed(world)
  })
})

describe('a server that refuses writes', () => {
  it('rejects claims and writes as long as it does, and keeps the claim', async () => {
    await using server = await startRedis()
    await using world = await openIdempotencyWorld(ioredis6, { url: server.url })
    const limit = async (bytes: string) => await world.command('CONFIG', 'SET', 'maxmemory', bytes)
    const refused = { code: 'ACKORD_STORE_REFUSES_WRITES' }
    await limit('1')
    await expect(claim(world)).rejects.toMatchObject(refused)
    await limit('0')
    const token = await claimed(world)
    await limit('1')
    await expect(write(world, token, 'first')).rejects.toMatchObject(refused)
    // A claim that writes nothing is answered.
    expect(await claim(world)).toMatchObject({ state: 'running' })
    await limit('0')
    expect(await world.read('order')).toBeUndefined()
    await write(world, token, 'first')
    expect(await world.read('order')).toBe('first')
  })

  it('rejects claims and writes on a replica', async () => {
    await using server = await startRedis()
    await using world = await openIdempotencyWorld(ioredis6, { url: server.url })
    const token = await claimed(world)
    await world.command('REPLICAOF', '127.0.0.1', '1')
    const other = { scope: key.scope, key: 'k2' }
    const refused = { code: 'ACKORD_STORE_REFUSES_WRITES' }
    await expect(world.store.claim(other, { fingerprint: 'f1', lease: 60_000 })).rejects.toMatchObject(refused)
    await expect(write(world, token, 'first')).rejects.toMatchObject(refused)
    await world.command('REPLICAOF', 'NO', 'ONE')
    await write(world, token, 'first')
  })
})

async function outcomeOf(writing: Promise<unknown>): Promise<unknown> {
  return await writing.then(
    () => 'written',
    (error: unknown) => error,
  )
}
