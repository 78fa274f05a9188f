import { type DeadLetter, isAckordError, Message, type PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { deferred, recordingPublisher } from '../../../core/test/support/router-world.ts'
import { type Answer, answering, ids, openWorld, records } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }

function deadLetter(answer?: Answer) {
  const publisher = recordingPublisher(answer)
  const letters = () => publisher.calls.flatMap(({ messages }) => messages)
  return { publisher, destination: 'orders.dead', letters }
}

function open(dead: DeadLetter, options: Parameters<typeof openWorld>[0] = {}) {
  return openWorld({
    answer: answering({ bad: { error: new Error('too large'), permanent: true } }),
    deadLetter: { publisher: dead.publisher, destination: dead.destination },
    ...options,
  })
}

describe('a dead letter', () => {
  it('receives a copy of a parked record, with its id, its bytes and the reason', async () => {
    const dead = deadLetter()
    const world = open(dead)
    await world.add('orders', 'e1', 'bad', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(dead.publisher.calls.map(({ destination }) => destination)).toEqual(['orders.dead'])
    const [letter, ...more] = dead.letters()
    expect(more).toEqual([])
    expect(new TextDecoder().decode(letter?.data)).toBe('bad')
    expect(letter?.attributes).toMatchObject({
      id: 'bad',
      type: 'order.placed',
      deadletterreason: 'too large',
      deadlettertime: new Date(world.runtime.now()).toISOString(),
      deadletterdestination: 'orders',
    })
    expect(await records(world)).toMatchObject([{ state: 'parked', lastError: 'too large' }])
    // The copy has the marks, the record does not.
    expect((await records(world))[0]?.message.attributes).not.toHaveProperty('deadletterreason')
    expect(world.relay.health()).toMatchObject({ parked: 1, published: 2, deadLetters: 1, deadLettersFailed: 0 })
    expect(world.metrics.sum('ackord.outbox.dead_letters')).toBe(1)
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('receives a mark that a copy has no data, where the record was too large to be read', async () => {
    const dead = deadLetter()
    const world = open(dead)
    const { claim } = world.store
    world.store.claim = async (options) =>
      (await claim(options)).map((record) => ({
        ...record,
        attempts: 11,
        message: new Message(new Uint8Array(), record.message.attributes),
      }))
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    const [letter] = dead.letters()
    expect(letter?.attributes).toMatchObject({ id: 'e1', deadletterform: 'nodata', deadlettercode: 'ACKORD_MAX_DELIVERIES' })
    expect(new TextDecoder().decode((await records(world))[0]?.message.data)).toBe('e1')
    await world.relay.stop()
  })

  it('receives a smaller copy of a record that it rejects, and only of that one', async () => {
    const refusal = { ok: false, error: new Error('no room'), permanent: true } as const
    const dead = deadLetter(async ({ messages }) =>
      messages.map(({ id, attributes }) => (id === 'bad2' && attributes['deadletterform'] === undefined ? refusal : ok)),
    )
    const bad = { error: new Error('too large'), permanent: true } as const
    const world = open(dead, { answer: answering({ bad, bad2: bad }) })
    await world.add('orders', 'bad', 'bad2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(dead.publisher.calls.map(({ messages }) => messages.map(({ id }) => id))).toEqual([['bad', 'bad2'], ['bad2']])
    const copy = dead.letters().at(-1)
    expect(copy?.attributes).toMatchObject({ id: 'bad2', deadletterform: 'envelope' })
    const { data_base64, attributes } = JSON.parse(new TextDecoder().decode(copy?.data))
    expect(Buffer.from(data_base64, 'base64').toString()).toBe('bad2')
    expect(attributes).toContainEqual({ name: 'deadletterdestination', value: 'orders' })
    expect(world.relay.health()).toMatchObject({ parked: 2, deadLetters: 2, deadLettersFailed: 0 })
    await world.relay.stop()
  })

  it('receives the copy of a record that has used up its attempts, and of one that was never settled', async () => {
    const dead = deadLetter()
    const world = open(dead, { answer: answering({ e1: { error: new Error('refused') } }), maxAttempts: 2 })
    await world.add('orders', 'e1', 'e2')
    await world.memory.claim({ limit: 1, lease: 10 })
    await world.runtime.advance(11)
    world.relay.start()
    await world.runtime.advance(10_000)
    for (const _ of [1, 2]) {
      await world.add('stalls', 'e3')
      await world.runtime.advance(0)
    }
    expect(dead.letters().map(({ id }) => id)).toEqual(['e1'])
    await world.relay.stop()

    const other = open(dead, { maxAttempts: 1 })
    await other.add('orders', 'killer')
    await other.memory.claim({ limit: 1, lease: 10 })
    await other.runtime.advance(11)
    other.relay.start()
    await other.runtime.advance(0)
    expect(dead.letters().at(-1)?.attributes).toMatchObject({ id: 'killer', deadlettercode: 'ACKORD_MAX_DELIVERIES' })
    await other.relay.stop()
  })

  it('receives many copies in one call', async () => {
    const dead = deadLetter()
    const world = open(dead, {
      answer: async ({ messages }) => messages.map(() => ({ ok: false, error: 'no such field', permanent: true })),
    })
    await world.add('orders', ...ids(100))
    world.relay.start()
    await world.runtime.advance(0)
    expect(dead.publisher.calls).toHaveLength(1)
    expect(dead.letters().map(({ id }) => id)).toEqual(ids(100))
    expect(await world.states()).toEqual({ parked: 100 })
    await world.relay.stop()
  })

  it('confirms the copy before the record is parked, and nothing else waits for it', async () => {
    const gate = deferred()
    const dead = deadLetter(async ({ messages }) => {
      await gate.promise
      return messages.map(() => ok)
    })
    const world = open(dead)
    await world.add('orders', 'e1', 'bad', 'e2')
    world.relay.start()
    await world.runtime.advance(5000)
    expect(await world.states()).toEqual({ leased: 1 })
    expect(world.relay.health().published).toBe(2)
    gate.resolve()
    await world.runtime.advance(0)
    expect(await world.states()).toEqual({ parked: 1 })
    await world.relay.stop()
  })

  it('does not lose the lease of a record while its copy is sent', async () => {
    const dead = deadLetter(async ({ messages }) => {
      await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 2500))
      return messages.map(() => ok)
    })
    const world = open(dead, {
      lease: 3000,
      answer: async ({ messages }) => {
        await new Promise<void>((resolve) => void world.runtime.setTimeout(resolve, 2500))
        return messages.map(() => ({ ok: false, error: 'never', permanent: true }))
      },
    })
    await world.add('orders', 'e1')
    world.relay.start()
    const other = world.another().start()
    await world.runtime.advance(6000)
    expect(dead.publisher.calls).toHaveLength(1)
    expect(await world.states()).toEqual({ parked: 1 })
    expect(world.metrics.sum('ackord.outbox.lease_lost')).toBe(0)
    await world.relay.stop()
    await other.stop()
  })

  const refusals: [string, Answer][] = [
    ['refuses it', async ({ messages }) => messages.map(() => ({ ok: false, error: new Error('full') }))],
    ['is down', async ({ messages }) => messages.map(() => ({ ok: false, error: new Error('full'), scope: 'destination' }))],
    ['rejects', () => Promise.reject(new Error('full'))],
    [
      'throws',
      () => {
        throw new Error('full')
      },
    ],
    ['answers with nonsense', async () => [{} as PublishResult]],
    ['never answers', () => new Promise(() => {})],
  ]

  it.each(refusals)('that %s leaves the record parked, without a copy, and is tried once', async (_, answer) => {
    const dead = deadLetter(answer)
    const events: string[] = []
    const world = open(dead, { onEvent: ({ type }) => events.push(type) })
    await world.add('orders', 'e1', 'bad')
    world.relay.start()
    await world.runtime.advance(10_000)
    const [record, ...others] = await records(world)
    expect(others).toEqual([])
    expect(record?.state).toBe('parked')
    expect(record?.lastError).toMatch(/^too large \(No copy is in the dead letter: .+\)$/)
    expect(world.relay.health()).toMatchObject({ parked: 1, deadLetters: 0, deadLettersFailed: 1 })
    expect(events).toContain('deadLetterFailed')
    await world.runtime.advance(600_000)
    expect(dead.publisher.calls).toHaveLength(1)
    expect(world.logger.at('warn').filter(({ text }) => text.includes('dead letter did not accept'))).toHaveLength(1)
    await world.relay.stop()
    expect(world.runtime.timers).toBe(0)
  })

  it('that accepts some of the copies has the others marked', async () => {
    const dead = deadLetter(answering({ e2: { error: new Error('too large here too') } }))
    const world = open(dead, { answer: async ({ messages }) => messages.map(() => ({ ok: false, error: 'x', permanent: true })) })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(0)
    expect((await records(world)).map(({ lastError }) => lastError?.includes('No copy'))).toEqual([false, true, false])
    expect(world.relay.health()).toMatchObject({ deadLetters: 2, deadLettersFailed: 1 })
    await world.relay.stop()
  })

  it('that fails logs one line at the start and one at the end', async () => {
    let full = true
    const dead = deadLetter(async ({ messages }) => messages.map(() => (full ? { ok: false, error: 'full' } : ok)))
    const world = open(dead)
    world.relay.start()
    for (let round = 1; round <= 6; round += 1) {
      full = round <= 4
      await world.add('orders', 'bad')
      await world.runtime.advance(0)
    }
    const lines = world.logger.lines.filter(({ text }) => text.includes('dead letter'))
    expect(lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    expect(dead.publisher.calls).toHaveLength(6)
    await world.relay.stop()
  })

  it('that hangs is paused for a while, so that bad records do not slow the others down', async () => {
    const dead = deadLetter(() => new Promise(() => {}))
    const world = open(dead, { batchSize: 2, publishTimeout: 1000, destinationBackoff: () => 60_000 })
    for (let batch = 1; batch <= 20; batch += 1) await world.add('orders', `e${batch}`, 'bad')
    world.relay.start()
    await world.runtime.advance(1000)
    expect(await world.states()).toEqual({ parked: 20 })
    expect(dead.publisher.calls).toHaveLength(1)
    expect(dead.publisher.calls[0]?.signal.aborted).toBe(true)
    await world.runtime.advance(60_000)
    await world.add('orders', 'bad')
    await world.runtime.advance(0)
    expect(dead.publisher.calls).toHaveLength(2)
    const stopped = world.relay.stop()
    await world.runtime.advance(1000)
    await stopped
  })

  it('that has not answered when a stop is forced has its records released, so that the next relay sends the copy', async () => {
    const dead = deadLetter(() => new Promise(() => {}))
    const world = open(dead, { shutdownTimeout: 3000 })
    await world.add('orders', 'e1', 'bad')
    world.relay.start()
    await world.runtime.advance(0)
    const stopped = world.relay.stop()
    await world.runtime.advance(3000)
    await stopped
    expect(await records(world)).toMatchObject([{ state: 'ready', attempts: 0 }])
    expect(world.runtime.timers).toBe(0)
  })

  it('is rejected at construction if it lacks a method', () => {
    const world = openWorld()
    for (const broken of [{}, { publisher: world.publisher }, { publisher: {}, destination: 'x' }, { ...deadLetter(), letters: 1 }]) {
      try {
        world.another({ deadLetter: broken as DeadLetter })
        expect.unreachable()
      } catch (error) {
        expect(isAckordError(error, 'ACKORD_INVALID_OPTION')).toBe(true)
        expect(String(error)).toContain('deadLetter')
      }
    }
  })
})
