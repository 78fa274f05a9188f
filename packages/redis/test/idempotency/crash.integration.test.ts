import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it, vi } from 'vitest'
import { crashProgram } from '../support/crash-program.ts'
import { ordersKey } from '../support/crash-rules.ts'
import { type RedisKind, redisKinds, redisUrl } from '../support/redis-clients.ts'
import { openIdempotencyWorld } from './idempotency-world.ts'

vi.setConfig({ testTimeout: 60_000 })

const [ioredis6] = redisKinds as readonly [RedisKind]
const program = crashProgram('crash-request')

/** Serves the request in a process of its own, which is killed at the point. Resolves to the answer. */
async function serve(tag: string, point?: string): Promise<string> {
  const env = { ...process.env, CRASH_REDIS: redisUrl, CRASH_TAG: tag, CRASH_POINT: point }
  return (await promisify(execFile)(process.execPath, [program], { env })).stdout
}

/** In the order of a request. The order is placed before the last one. */
const points = [
  'idempotency.claimed',
  'transaction.begun',
  'outbox.appended',
  'idempotency.worked',
  'transaction.beforeCommit',
  'transaction.afterCommit',
]

describe('a process that is killed while it serves a request', () => {
  it.each(points)('at %s: the repeated request is answered, and the order is placed once, with one event', async (point) => {
    await using world = await openIdempotencyWorld(ioredis6)
    const orders = async () => (await world.command('LRANGE', ordersKey(world.tag), '0', '-1')) as string[]
    await expect(serve(world.tag, point)).rejects.toMatchObject({ signal: 'SIGKILL' })
    const before = await orders()
    expect(before).toHaveLength(point === 'transaction.afterCommit' ? 1 : 0)

    const first = await serve(world.tag)
    const placed = await orders()
    expect(placed).toEqual([first])
    expect(placed.slice(0, before.length)).toEqual(before)
    expect((await world.events()).map(({ id }) => id)).toEqual([first])

    expect(await serve(world.tag)).toBe(first)
    expect(await orders()).toEqual([first])
  })
})
