import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { processCrashPoints } from '@ackord/testkit/suites'
import { describe, expect, it, vi } from 'vitest'
import { crashProgram } from '../support/crash-program.ts'
import { openHandlingWorld } from '../support/handling-world.ts'
import { type RedisKind, redisKinds, redisUrl } from '../support/redis-clients.ts'

vi.setConfig({ testTimeout: 60_000 })

const [ioredis6] = redisKinds as readonly [RedisKind]
const program = crashProgram('crash-order-process')

/** Handles an event of the process in a process of its own, which is killed at the point. Resolves to what there is then. */
async function handle(tag: string, event: string, point?: string): Promise<unknown> {
  const env = { ...process.env, CRASH_REDIS: redisUrl, CRASH_TAG: tag, CRASH_EVENT: event, CRASH_POINT: point }
  return JSON.parse((await promisify(execFile)(process.execPath, [program], { env })).stdout)
}

/** In the order of an event. */
const points = ['transaction.begun', ...processCrashPoints, 'outbox.appended', 'transaction.beforeCommit', 'transaction.afterCommit']

describe('a service that is killed while it handles an event of a process', () => {
  it.concurrent.each(points)('at %s leaves everything of the event or nothing, and the redelivered event completes it', async (point) => {
    await using world = await openHandlingWorld(ioredis6)
    await expect(handle(world.tag, point, point)).rejects.toMatchObject({ signal: 'SIGKILL' })
    const version = await world.command('HGET', world.key('process', 'order', 'o1'), 'version')
    expect(version).toBe(point === 'transaction.afterCommit' ? '1' : null)
    const whole = {
      log: [point],
      sent: [
        ['step.done', point],
        ['order.timeout', 'o1'],
      ],
    }
    expect(await handle(world.tag, point)).toEqual(whole)
    expect(await handle(world.tag, point)).toEqual(whole)
  })
})
