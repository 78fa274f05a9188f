import { type Message, silentLogger } from '@ackord/core'
import type { OutboxWriter } from '@ackord/outbox'
import { trackedMessage } from '@ackord/testkit'
import { Redis as Ioredis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { ownName } from '../../../../scripts/test-run.mjs'
import { inboxMiddleware, outboxMiddleware, Redis, type RedisTransaction, streamOutbox, transactionMiddleware } from '../../src/index.ts'
import { luaOutbox } from '../../src/outbox/lua/index.ts'
import { deliver, placed } from '../support/deliver.ts'
import { redisUrl } from '../support/redis-clients.ts'
import { stoppableCommits } from '../support/stopped-script.ts'

type InboxMode = 'exclusive' | 'optimistic' | 'mark-first' | 'none'
type OutboxName = 'stream outbox' | 'Lua outbox' | 'no outbox'

interface Scenario {
  readonly inbox: InboxMode
  readonly outbox: OutboxName
  readonly rollback: boolean
  /** Whether the last command fails. */
  readonly fails: boolean
}

let tags = 0

/** Thousands of tags are used, many concurrently: random names alone would occasionally collide, and one message would find the lease of another. */
function newTag(): string {
  tags += 1
  return `t-${ownName()}-${tags}`
}

function outboxOf(redis: Redis, name: OutboxName, tag: string): OutboxWriter<RedisTransaction> | undefined {
  if (name === 'stream outbox') return streamOutbox(redis, { tags: [tag], logger: silentLogger })
  return name === 'Lua outbox' ? luaOutbox(redis, { tag, logger: silentLogger }) : undefined
}

/** Every write and event of the handler exists `times` times; none exists if it is 0. */
interface Effects {
  readonly count: number
  readonly fields: number
  readonly log: number
  readonly moved: number
  readonly events: number
}

const nothing: Effects = { count: 0, fields: 0, log: 0, moved: 0, events: 0 }

/** One message under its own tag, delivered as often as a test wants. */
function messageWorld(client: Ioredis, { inbox, outbox: name, rollback, fails }: Scenario) {
  const stops = stoppableCommits(client)
  // One message per call: a test below covers several.
  const redis = new Redis(client, stops.port, { logger: silentLogger, coalesce: 1 })
  const tag = newTag()
  const key = (...parts: string[]) => redis.key(tag, ...parts)
  const outbox = outboxOf(redis, name, tag)
  const use = [
    ...(inbox === 'none' ? [] : [inboxMiddleware(redis, { consumer: 'orders', tag, mode: inbox })]),
    transactionMiddleware(redis, { logger: silentLogger, rollback }),
    ...(outbox === undefined ? [] : [outboxMiddleware(redis, { outbox, destination: 'events' })]),
  ]

  async function handle(): Promise<readonly Message[]> {
    const commands = redis.commands()
    await commands.incr(key('count'))
    await commands.hset(key('fields'), { a: 1 })
    await commands.xadd(key('log'), { a: 1 })
    await commands.sunionstore(key('moved'), key('set'), key('empty'))
    // The type is right when the commit checks it, and wrong when the command runs.
    if (fails) redis.transaction()?.queue({ name: 'RPUSH', args: [key('fields'), 'x'], keys: [0], kind: 'any' })
    return outbox === undefined ? [] : [placed('e1'), placed('e2')]
  }

  return {
    stops,
    /** Resolves to the verdict. */
    async deliver(): Promise<string> {
      const message = trackedMessage('m1')
      await deliver({ use, handle }, message)
      return message.verdicts.join()
    },
    async prepare() {
      await client.sadd(key('set'), 'member')
      // An existing entry, so that a rollback must remove the later entries from the stream.
      await client.xadd(key('log'), '*', 'a', '0')
    },
    async marker(): Promise<string | undefined> {
      return (await client.get(stops.marker)) ?? undefined
    },
    async effects(): Promise<Effects> {
      const [count, fields, log, moved, entries, records] = await Promise.all([
        client.get(key('count')),
        client.hlen(key('fields')),
        client.xlen(key('log')),
        client.scard(key('moved')),
        client.xlen(key('outbox', 'to', 'events')),
        client.hlen(key('lua-outbox', 'entries')),
      ])
      return { count: Number(count ?? 0), fields, log: log - 1, moved, events: entries + records }
    },
    async remove() {
      await client.del(...stops.keys, key('set'), key('log'))
    },
  }
}

const scenarios: Scenario[] = [
  ...(['exclusive', 'optimistic', 'none'] as const).flatMap((inbox) =>
    (['stream outbox', 'Lua outbox', 'no outbox'] as const).flatMap((outbox) =>
      [false, true].flatMap((rollback) =>
        [false, true]
          // All combinations for the default mode; for the others only failing commands with events. `make proof` runs all.
          .filter((fails) => isProof || inbox === 'exclusive' || (fails && outbox !== 'no outbox'))
          .map((fails) => ({ inbox, outbox, rollback, fails })),
      ),
    ),
  ),
  // The commit of mark-first is the same as without an inbox.
  { inbox: 'mark-first', outbox: 'stream outbox', rollback: false, fails: false },
]

/** Checks that the marker, the verdict and the written data agree. */
async function checkAgreement(
  scenario: Scenario,
  message: ReturnType<typeof messageWorld>,
  verdict: string,
  whole: Effects,
): Promise<void> {
  const [marker, effects] = [await message.marker(), await message.effects()]
  if (verdict === 'ack') {
    expect(marker).toMatch(/^done:/)
    expect(effects).toEqual(whole)
  } else if (verdict === 'reject') {
    expect(marker).toMatch(/^partial:/)
  } else {
    expect(verdict).toBe('nack')
    expect([undefined, 'void']).toContain(marker)
    expect(effects).toEqual(nothing)
  }
  // A redelivery never adds to the effects of an earlier delivery.
  if (scenario.inbox === 'none' || scenario.fails) return
  const again = await message.deliver()
  // A message that was marked first is not retried, whatever its outcome.
  expect(again).toBe(verdict === 'reject' && scenario.inbox !== 'mark-first' ? 'reject' : 'ack')
  expect(await message.effects()).toEqual(verdict === 'reject' ? effects : whole)
}

/** How many messages are tried concurrently. */
const atOnce = 20

describe('a commit script that stops at any of its steps', () => {
  it.each(scenarios)(
    'marker and effects agree: inbox $inbox, $outbox, rollback $rollback, a command fails: $fails',
    async (scenario) => {
      const client = new Ioredis(redisUrl)
      const whole: Effects = { count: 1, fields: 1, log: 1, moved: 1, events: scenario.outbox === 'no outbox' ? 0 : 2 }

      async function runStopped(step: number): Promise<{ readonly verdict: string; readonly taken: number }> {
        const message = messageWorld(client, scenario)
        const { stops } = message
        try {
          await message.prepare()
          stops.step = step
          stops.calls = 1
          const verdict = await message.deliver()
          const { taken } = stops
          await checkAgreement(scenario, message, verdict, whole)
          return { verdict, taken }
        } catch (error) {
          throw new Error(`Stopped at step ${step}.`, { cause: error })
        } finally {
          await message.remove()
        }
      }

      try {
        const through = await runStopped(0)
        expect(through.verdict).toBe(!scenario.fails ? 'ack' : scenario.rollback ? 'nack' : 'reject')
        expect(through.taken).toBeGreaterThan(50)
        const verdicts = new Set<string>()
        const steps = Array.from({ length: through.taken }, (_, index) => index + 1)
        await Promise.all(
          Array.from({ length: atOnce }, async () => {
            for (let step = steps.shift(); step !== undefined; step = steps.shift()) verdicts.add((await runStopped(step)).verdict)
          }),
        )
        // Before the first write no effect exists (nack); after it, effects may exist (reject).
        expect([...verdicts]).toEqual(expect.arrayContaining(['nack', 'reject']))
      } finally {
        client.disconnect()
      }
    },
    60_000,
  )

  it('does not affect the other messages of its call', async () => {
    const client = new Ioredis(redisUrl)
    const ids = ['m1', 'm2', 'm3']

    async function runStopped(step: number): Promise<number> {
      const stops = stoppableCommits(client)
      const redis = new Redis(client, stops.port, { logger: silentLogger })
      const tag = newTag()
      const key = (...parts: string[]) => redis.key(tag, ...parts)
      const use = [inboxMiddleware(redis, { consumer: 'orders', tag }), transactionMiddleware(redis, { logger: silentLogger })]
      const handle = async ({ id = '' }: Message) => {
        await redis.commands().incr(key('count', id))
        await redis.commands().hset(key('fields', id), 'a', 1)
      }
      stops.step = step
      stops.calls = 1
      const messages = ids.map((id) => ({ id, message: trackedMessage(id) }))
      await deliver({ use, handle, router: { concurrency: ids.length } }, ...messages.map(({ message }) => message))
      const { taken } = stops
      for (const { id, message } of messages) {
        const found = [await client.get(key('count', id)), await client.hlen(key('fields', id))]
        if (message.verdicts.join() === 'ack') expect(found).toEqual(['1', 1])
        if (message.verdicts.join() === 'nack') expect(found).toEqual([null, 0])
      }
      const settled = messages.filter(({ message }) => message.verdicts.join() !== 'reject')
      // At most the one message whose commit was being executed is rejected.
      expect(settled.length).toBeGreaterThanOrEqual(ids.length - 1)
      await deliver({ use, handle, router: { concurrency: ids.length } }, ...settled.map(({ id }) => trackedMessage(id)))
      for (const { id } of settled) expect(await client.get(key('count', id))).toBe('1')
      await client.del(...stops.keys)
      return taken
    }

    try {
      const steps = await runStopped(0)
      for (let step = 1; step <= steps; step += 1) await runStopped(step)
    } finally {
      client.disconnect()
    }
  }, 60_000)
})
