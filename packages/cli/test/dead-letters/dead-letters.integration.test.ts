import type { Publisher } from '@ackord/core'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasRealKafka, provideKafka } from '../../../../scripts/servers/index.mjs'
import { start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { idsOf, type LettersWorld, messageOf, openLetters, openReader, publishTo, readMessages } from '../support/letters.ts'
import { natsUrl, rabbitmqUrl, redisUrl } from '../support/services.ts'

const isEmulated = !(await hasRealKafka())
let kafka: Awaited<ReturnType<typeof provideKafka>> | undefined

beforeAll(async () => {
  kafka = await provideKafka()
  await bundleMain()
})
afterAll(async () => {
  await kafka?.stop()
})

describe.each([
  ['RabbitMQ', () => rabbitmqUrl],
  ['NATS', () => natsUrl],
  ['Redis Streams', () => redisUrl],
  // The scheme of the command for Kafka over TLS is another one than that of the tests.
  ['Kafka', () => kafka?.url.replace(/^kafka\+ssl:/, 'kafkas:') ?? ''],
] as const)('dead letters on %s', (name, urlOf) => {
  const deletesEach = name !== 'Kafka'
  // Nearly all of the time is spent in the emulator, which delays each member that joins a group.
  const test = name === 'Kafka' ? it.concurrent : it

  test('are listed, oldest first, with their origin and reason, and stay where they are', async () => {
    await using world = await openLetters(urlOf())
    expect(await world.list()).toEqual([])
    await world.reject(['a1', 'a2'])
    await world.reject(['b1'], { attributes: { type: 'order.cancel', source: '/branch' } })
    for (const _ of [1, 2]) {
      const letters = await world.list()
      expect(letters.map(({ id }) => id)).toEqual(['a1', 'a2', 'b1'])
      expect(letters[0]).toMatchObject({
        type: 'order.place',
        destination: world.origin.topic,
        reason: 'no customer for a1',
        replayable: true,
      })
    }
    expect(idsOf(await world.list('--type', 'order.cancel'))).toEqual(['b1'])
    expect(idsOf(await world.list('--source', '/shop'))).toEqual(['a1', 'a2'])
    expect(idsOf(await world.list('--since', '1h'))).toEqual(['a1', 'a2', 'b1'])
    expect(await world.list('--until', '2020-01-01T00:00:00Z')).toEqual([])
    const short = await world.run('list', '--limit', '2')
    expect(short.last).toMatchObject({ more: true, letters: [{ id: 'a1' }, { id: 'a2' }] })
  })

  test('are shown as they were before they were rejected, with their payload on request only', async () => {
    await using world = await openLetters(urlOf())
    await world.reject(['a1'], { attributes: { note: 'the same' } })
    const shown = await world.run('show', 'a1')
    expect(shown.code).toBe(0)
    expect(shown.last).toMatchObject({ id: 'a1', reason: 'no customer for a1', attributes: { id: 'a1', note: 'the same' } })
    expect(shown.last['attributes']).not.toHaveProperty('deadletterreason')
    expect(shown.stdout).not.toContain('data_base64')
    const { last } = await world.run('show', 'a1', '--data')
    expect(Buffer.from(String(last['data_base64']), 'base64').toString()).toBe('{"order":"a1"}')
    expect(await world.run('show', 'a2')).toMatchObject({ code: 1, stdout: '' })
  })

  test('are replayed to their origin with the same id, attributes and data, and removed', async () => {
    await using world = await openLetters(urlOf())
    await world.reject(['a1', 'a2', 'a3'], { attributes: { note: 'the same' } })
    const replayed = await world.run('replay', '--all')
    expect(replayed).toMatchObject({ code: 0, last: { replayed: 3, failed: 0, skipped: 0, undeletable: 0 } })
    const messages = await readMessages(world.origin, 3)
    expect(idsOf(messages)).toEqual(['a1', 'a2', 'a3'])
    for (const message of messages) {
      const sent = messageOf(message.id ?? '', { note: 'the same' })
      expect(message.attributes).toEqual(sent.attributes)
      expect(Buffer.from(message.data)).toEqual(Buffer.from(sent.data))
    }
    expect(await world.list()).toEqual([])
    expect(await world.run('replay', '--all')).toMatchObject({ code: 0, last: { replayed: 0 } })
  })

  test('are stored again by a destination that has had the message a moment ago', async () => {
    await using world = await openLetters(urlOf())
    await publishTo(world.origin, messageOf('a1'))
    await world.reject(['a1'])
    expect(await world.run('replay', 'a1')).toMatchObject({ code: 0, last: { replayed: 1 } })
    expect(idsOf(await readMessages(world.origin, 2))).toEqual(['a1', 'a1'])
  })

  test('are replayed one by one, elsewhere with --to, and the others stay', async () => {
    await using world = await openLetters(urlOf())
    await using elsewhere = await openLetters(urlOf())
    await world.reject(['a1', 'a2', 'a3'])
    const { code, last, stdout } = await world.run('replay', 'a2', '--to', elsewhere.origin.topic)
    expect({ code, last }).toMatchObject({ code: 0, last: { replayed: 1, undeletable: deletesEach ? 0 : 1 } })
    expect(stdout).not.toContain('not_replayed')
    expect(idsOf(await readMessages(elsewhere.origin, 1))).toEqual(['a2'])
    // Kafka cannot delete a record behind one that is still needed.
    expect(idsOf(await world.list())).toEqual(deletesEach ? ['a1', 'a3'] : ['a1', 'a2', 'a3'])
    expect(await world.run('replay', 'a1', 'a9')).toMatchObject({ code: 1, last: { replayed: 1 } })
    expect(idsOf(await world.list())).toEqual(deletesEach ? ['a3'] : ['a2', 'a3'])
    expect(await world.run('replay', 'a9')).toMatchObject({ code: 1, last: { replayed: 0 } })
  })

  test('are neither published nor removed with --dry-run', async () => {
    await using world = await openLetters(urlOf())
    await world.reject(['a1', 'a2'])
    const { code, stdout, last } = await world.run('replay', '--type', 'order.place', '--limit', '1', '--dry-run')
    expect(code).toBe(0)
    expect(JSON.parse(stdout.split('\n')[0] ?? '')).toMatchObject({ id: 'a1', replay_to: world.origin.topic })
    expect(last).toEqual({ dry_run: true, letters: 1, skipped: 0 })
    expect(idsOf(await world.list())).toEqual(['a1', 'a2'])
    await publishTo(world.origin, messageOf('the only one'))
    expect(idsOf(await readMessages(world.origin, 1))).toEqual(['the only one'])
  })

  test('that do not say where they came from are skipped and counted, and replayed with --to', async () => {
    await using world = await openLetters(urlOf())
    await world.reject(['lost'], { origin: undefined })
    await world.reject(['a1'])
    expect(await world.list()).toMatchObject([{ id: 'lost', replayable: false }, { id: 'a1' }])
    const skipped = await world.run('replay', '--all')
    expect(skipped).toMatchObject({ code: 1, last: { replayed: 1, skipped: 1, undeletable: deletesEach ? 0 : 1 } })
    expect(skipped.stdout).toContain('use --to')
    expect(await world.run('replay', 'lost', '--to', world.origin.topic)).toMatchObject({ code: 0, last: { replayed: 1 } })
    expect(idsOf(await readMessages(world.origin, 2))).toEqual(['a1', 'lost'])
  })

  // The emulator of Kafka creates every topic.
  if (name !== 'Kafka' || !isEmulated) {
    test('stay if their destination does not accept them', async () => {
      await using world = await openLetters(urlOf())
      const missing = `missing-${world.origin.topic}`
      // Redis creates every stream, except in the place of a key of another type.
      await using _ = await keyOfAnotherType(name === 'Redis Streams' ? missing : undefined)
      await world.reject(['a1', 'a2'], { origin: missing })
      expect(await world.run('replay', '--all')).toMatchObject({ code: 1, last: { replayed: 0, failed: 2 } })
      expect(idsOf(await world.list())).toEqual(['a1', 'a2'])
    })
  }

  test('in an envelope are replayed as the message that they hold', async () => {
    await using world = await openLetters(urlOf())
    const note = 'n'.repeat(300)
    await world.reject(['a1'], { attributes: { note }, publisher: withoutLargeAttributes(world.publisher) })
    expect(await world.list()).toMatchObject([{ id: 'a1', type: 'order.place', reason: 'no customer for a1', replayable: true }])
    expect(await world.run('replay', '--all')).toMatchObject({ code: 0, last: { replayed: 1 } })
    const [message] = await readMessages(world.origin, 1)
    expect(message?.attributes).toEqual(messageOf('a1', { note }).attributes)
  })

  test('are discarded after a confirmation, with a reason', async () => {
    await using world = await openLetters(urlOf())
    await world.reject(['a1', 'a2', 'a3'])
    expect(await world.run('discard', 'a1')).toMatchObject({ code: 2, stderr: expect.stringContaining('--reason') })
    expect(await world.run('discard', 'a1', '--reason', 'test')).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
    expect(await world.run('discard', '--reason', 'test', '--yes')).toMatchObject({ code: 2 })
    expect(idsOf(await world.list())).toEqual(['a1', 'a2', 'a3'])
    const discarded = await world.run('discard', 'a1', '--reason', 'test', '--yes')
    expect(discarded).toMatchObject({ code: 0, last: { discarded: 1, undeletable: 0 } })
    expect(discarded.stderr).toContain('"reason":"test"')
    expect(idsOf(await world.list())).toEqual(['a2', 'a3'])
    const behind = await world.run('discard', 'a3', '--reason', 'test', '--yes')
    expect(behind).toMatchObject(deletesEach ? { code: 0, last: { discarded: 1 } } : { code: 1, last: { discarded: 0, undeletable: 1 } })
  })

  test.each(['SIGKILL', 'SIGINT'] as const)('are not lost if a replay is stopped in the middle by %s', async (signal) => {
    await using world = await openLetters(urlOf())
    const ids = Array.from({ length: 30 }, (_, index) => `a${index}`)
    await world.reject(ids)
    const { ended, first } = await stopReplay(world, signal, deletesEach ? '10/s' : '2/s')
    if (signal === 'SIGINT') {
      expect(ended).toMatchObject({ code: 130 })
      expect(ended?.last).toMatchObject({ failed: 0 })
    }
    const left = await world.list()
    expect(left.length).toBeGreaterThan(0)
    const replayed = await world.run('replay', '--all')
    expect(replayed).toMatchObject({ code: 0, last: { replayed: left.length } })
    const rest = await world.origin.readMore(idsOf(first), ids.length)
    expect([...rest].sort()).toEqual([...ids].sort())
    expect(await world.list()).toEqual([])
  })

  test('at a destination that does not exist are reported', async () => {
    const args = ['dead-letters', 'list', '--json', '--broker', urlOf(), '--from', `missing-${name.replaceAll(' ', '')}`]
    const ended = await start(args).ended
    // A stream of Redis exists with its first entry.
    if (name === 'Redis Streams') expect(ended).toMatchObject({ code: 0, last: { letters: [] } })
    else expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('--from') })
  })
})

/** Stops a replay when the origin has got three of the letters. The emulator of Kafka answers a fetch after up to five seconds, so its replay is slower. */
async function stopReplay(world: LettersWorld, signal: 'SIGKILL' | 'SIGINT', rate: string) {
  await using reader = openReader(world.origin)
  await publishTo(world.origin, messageOf('before'))
  await reader.take(1)
  const replaying = start(['dead-letters', 'replay', '--json', '--all', '--rate', rate, ...world.args])
  const first = await reader.take(3)
  replaying.child.kill(signal)
  return { first, ended: await replaying.ended.catch(() => undefined) }
}

async function keyOfAnotherType(key: string | undefined): Promise<AsyncDisposable> {
  const redis = new Redis(redisUrl)
  if (key !== undefined) await redis.set(key, 'text')
  return {
    async [Symbol.asyncDispose]() {
      if (key !== undefined) await redis.del(key)
      redis.disconnect()
    },
  }
}

function withoutLargeAttributes(publisher: Publisher): Publisher {
  return {
    async publish(destination, letters, options) {
      const isLarge = letters.some(({ attributes }) => Object.values(attributes).some((value) => String(value).length > 250))
      if (isLarge) return [{ ok: false, error: new Error('an attribute is too large'), permanent: true }]
      return await publisher.publish(destination, letters, options)
    },
  }
}
