import type { Message } from '@ackord/core'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openLogWriter } from '../support/log-writer.ts'
import {
  openTestStore,
  openTestTopic,
  postgresUrl,
  rabbitmqUrl,
  record,
  redisUrl,
  type TestStore,
  type TestTopic,
} from '../support/services.ts'

beforeAll(bundleMain)

/** Publishes what is stored to the topic, and keeps it. Resolves when as many records are kept. */
async function relay(world: TestStore, topic: TestTopic, count: number, ...more: readonly string[]): Promise<void> {
  const [, url = '', ...location] = world.args
  const command = ['relay', '--from', url, ...location, '--to', redisUrl, '--keep-published', '1h', '--json', ...more]
  const relaying = start(command)
  await relaying.said('The relay is running.')
  await topic.readMore([], count)
  relaying.child.kill('SIGTERM')
  expect((await relaying.ended).code).toBe(0)
}

async function fill(world: TestStore, topic: TestTopic, count: number): Promise<void> {
  const records = Array.from({ length: count }, (_, index) =>
    record(topic.topic, `e${index + 1}`, { type: index % 2 === 0 ? 'order.placed' : 'order.paid', partitionkey: `k${index % 3}` }),
  )
  await world.store.append(records)
}

/** The first messages of a topic. */
async function messagesOf(topic: TestTopic, count: number): Promise<readonly Message[]> {
  const messages: Message[] = []
  await using source = topic.broker.source(topic.topic)
  for await (const message of source.messages({ signal: AbortSignal.timeout(20_000) })) {
    await message.ack()
    if (messages.push(message) >= count) break
  }
  return messages
}

function numberOf(id: string | undefined): number {
  return Number(String(id).slice(1))
}

describe.each([
  ['SQLite', undefined, {}],
  ['PostgreSQL', postgresUrl, {}],
  ['Redis, with the Lua outbox', redisUrl, { outbox: 'lua' }],
] as const)('replay of published records on %s', (_, url, more) => {
  it('counts them, and publishes them elsewhere with the same ids, or new ones', async () => {
    await using world = await openTestStore(url, more)
    await using topic = await openTestTopic(redisUrl)
    await using other = await openTestTopic(rabbitmqUrl)
    await fill(world, topic, 20)
    await relay(world, topic, 20)
    const replay = (...args: readonly string[]) => ackord(['replay', '--json', ...world.args, ...args])

    const planned = await replay('--from', '1h', '--type', 'order.paid', '--dry-run')
    expect(planned).toMatchObject({ code: 0, stderr: '' })
    expect(planned.last).toEqual({ dry_run: true, records: 10, expired: 0, destinations: { [topic.topic]: 10 } })
    const to = ['--broker', rabbitmqUrl, '--to-destination', other.topic]
    const done = await replay('--type', 'order.paid', '--reason', 'new index', '--by', 'ann', ...to)
    expect(done).toMatchObject({ code: 0, last: { replayed: 10, expired: 0, complete: true, position: expect.any(String) } })
    const copies = await messagesOf(other, 10)
    expect(copies.map(({ id }) => numberOf(id)).toSorted((one, two) => one - two)).toEqual([2, 4, 6, 8, 10, 12, 14, 16, 18, 20])
    expect(new Set(copies.map(({ attributes }) => String(attributes['replayed'])))).toEqual(new Set(['true']))
    const audited = { action: 'replay', by: 'ann', reason: 'new index', count: 10, what: expect.stringContaining(other.topic) }
    expect((await ackord(['audit', '--json', ...world.args])).last).toMatchObject(audited)

    expect((await replay('--message-id', 'e7', '--new-ids', 'repair-1', ...to)).last).toMatchObject({ replayed: 1 })
    const [renamed] = await messagesOf(other, 1)
    expect(renamed?.attributes).toMatchObject({ replayedid: 'e7', type: 'order.placed' })
    expect(renamed?.id).not.toBe('e7')
    expect(await world.count('published')).toBe(20)
  })
})

describe('replay', () => {
  const redis = new Redis(redisUrl)
  afterAll(() => redis.disconnect())

  it('continues after its process was killed, at the last position that it printed, and loses nothing', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(redisUrl)
    await using other = await openTestTopic(redisUrl)
    await fill(world, topic, 400)
    await relay(world, topic, 400)
    const args = ['replay', '--all', '--json', ...world.args, '--broker', redisUrl, '--to-destination', other.topic]
    const killed = start([...args, '--rate', '100/s'])
    // Two reports, so that it is killed between two batches that nobody has a position of.
    while (killed.stdout.split('\n').length < 3) await killed.heard()
    killed.child.kill('SIGKILL')
    await killed.ended.catch(() => {})
    const { position, replayed } = JSON.parse(killed.stdout.trimEnd().split('\n').at(-1) ?? '') as { position: string; replayed: number }
    expect(replayed).toBeGreaterThan(0)
    const before = await redis.xlen(other.topic)
    expect(before).toBeLessThan(400)

    const rest = await ackord([...args, '--rate', '5000/s', '--position', position])
    expect(rest.last).toMatchObject({ replayed: 400 - replayed, complete: true })
    const ids = (await messagesOf(other, before + 400 - replayed)).map(({ id }) => id)
    expect(new Set(ids).size).toBe(400)
    // The first occurrences of each key are in order.
    const first = [...new Set(ids)].map(numberOf)
    for (const rest of [0, 1, 2]) {
      const key = first.filter((number) => (number - 1) % 3 === rest)
      expect(key).toEqual(key.toSorted((one, two) => one - two))
    }
  })

  it('is stopped by a signal after what is in flight, and says where to continue', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(redisUrl)
    await fill(world, topic, 60)
    await relay(world, topic, 60)
    const running = start(['replay', '--from', '1h', ...world.args, '--broker', redisUrl, '--rate', '20/s'])
    await running.said('position')
    running.child.kill('SIGINT')
    const { code, stdout, stderr } = await running.ended
    const [, replayed, position] = /(\d+) records replayed\.\nTo continue, add: --position (\S+)\n$/.exec(stdout) ?? []
    expect({ code, stderr }).toEqual({ code: 130, stderr: 'ackord: Interrupted.\n' })
    const rest = await ackord(['replay', '--from', '1h', ...world.args, '--broker', redisUrl, '--json', '--position', position ?? ''])
    expect(rest.last).toMatchObject({ replayed: 60 - Number(replayed), complete: true })
    expect(await redis.xlen(topic.topic)).toBe(120)
  })

  it('says which record cannot be published, and how to continue without it', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(redisUrl)
    await world.store.append([record(topic.topic, 'e1'), record(topic.topic, 'e2', { ackordencrypted: 'k1' }), record(topic.topic, 'e3')])
    await relay(world, topic, 3)
    const args = ['replay', '--all', '--json', ...world.args, '--broker', redisUrl, '--new-ids', 'repair-1']
    const failed = await ackord(args)
    expect(failed).toMatchObject({ code: 1, last: { replayed: 1, complete: false, failed: '2', position: expect.any(String) } })
    const { error, hint } = JSON.parse(failed.stderr) as { error: string; hint: string }
    expect(error).toMatch(
      /^The replay ended after 1 record, because record 2, .*'order.placed'.*, was not published: newIds cannot be used for /,
    )
    expect(hint).toBe(`To continue, add: --position ${failed.last['position']}; to leave the record out, add: --skip 2`)
    const without = await ackord([...args, '--position', String(failed.last['position']), '--skip', '2'])
    expect(without.last).toMatchObject({ replayed: 1, complete: true })
    expect(await redis.xlen(topic.topic)).toBe(5)
  })

  it('reads the log of PostgreSQL, and rearm --published finds its records', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(redisUrl)
    await using writer = openLogWriter(postgresUrl, world.args[3] ?? '')
    await writer.append(topic.topic, ...Array.from({ length: 150 }, (_, index) => `e${index + 1}`))
    await relay(world, topic, 150, '--mode', 'log')
    const args = [...world.args, '--json']
    const planned = await ackord(['replay', '--all', '--dry-run', ...args])
    expect(planned.last).toMatchObject({ records: 150 })
    const done = await ackord(['replay', '--from', '1h', '--broker', redisUrl, '--rate', '5000/s', ...args])
    expect(done.last).toMatchObject({ replayed: 150, complete: true })
    const copies = (await messagesOf(topic, 150)).map(({ id }) => id)
    expect(copies).toEqual(Array.from({ length: 150 }, (_, index) => `e${index + 1}`))
    expect((await ackord(['rearm', '--published', '--message-id', 'e1', ...args])).last).toEqual({ rearmed: 1 })
  })

  it('finds nothing where nothing was kept, and says why', async () => {
    await using world = await openTestStore()
    const { code, stdout } = await ackord(['replay', '--all', ...world.args, '--dry-run'])
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout:
        '0 records would be replayed; nothing was published.\nNo published record that is kept matches. Records are kept where the relay runs with --keep-published, or the outbox with `retain`.\n',
    })
    await using stream = await openTestStore(redisUrl)
    const refused = await ackord(['replay', '--all', ...stream.args, '--dry-run'])
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('Redis Streams keep no published records') })
  })
})
