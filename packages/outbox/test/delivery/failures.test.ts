import type { PublishResult } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { deferred } from '../../../core/test/support/router-world.ts'
import { type Answer, answering, ids, openWorld, records as stored } from '../support/relay-world.ts'

const ok: PublishResult = { ok: true }
/** A simulated day takes half a minute of the processor's time. */
const hoursDown = isProof ? 24 : 4

describe('a record that fails', () => {
  it('is tried again after the back-off, and uses an attempt', async () => {
    const world = openWorld({ answer: answering({ e1: { error: new Error('refused') } }), backoff: () => 3000 })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    const [record] = await stored(world)
    expect(record).toMatchObject({ state: 'waiting', attempts: 1, lastError: 'refused', availableAt: world.runtime.now() + 3000 })
    await world.runtime.advance(10_000)
    expect(world.sent().length).toBeGreaterThanOrEqual(2)
    await world.relay.stop()
  })

  it('waits for its retryAfter where that is longer than the back-off', async () => {
    const world = openWorld({
      answer: answering({ e1: { error: 'slow down', retryAfter: 60_000 }, e2: { error: 'slow down', retryAfter: 1 } }),
      backoff: () => 3000,
    })
    await world.add('orders', 'e1', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    expect((await stored(world)).map(({ availableAt }) => availableAt - world.runtime.now())).toEqual([60_000, 3000])
    await world.relay.stop()
  })

  it('is parked with its error when its attempts are used up, while others are published', async () => {
    const world = openWorld({ answer: answering({ poison: { error: new Error('no such field') } }), maxAttempts: 3 })
    await world.add('orders', 'poison', ...ids(5))
    world.relay.start()
    await world.runtime.advance(60_000)
    const [record, ...others] = await stored(world)
    expect(others).toEqual([])
    expect(record).toMatchObject({ state: 'parked', attempts: 3, lastError: 'no such field' })
    expect(world.sent().filter((id) => id === 'poison')).toHaveLength(3)
    expect(world.logger.at('warn')).toHaveLength(1)
    expect(world.metrics.sum('ackord.outbox.failed')).toBe(2)
    expect(world.metrics.sum('ackord.outbox.parked')).toBe(1)
    await world.relay.stop()
  })

  it('is parked immediately after a permanent failure', async () => {
    const world = openWorld({ answer: answering({ e1: { error: new Error('too large'), permanent: true } }) })
    await world.add('orders', 'e1', 'e2')
    world.relay.start()
    await world.runtime.advance(600_000)
    expect(await stored(world)).toMatchObject([{ state: 'parked', attempts: 1, lastError: 'too large' }])
    expect(world.sent()).toEqual(['e1', 'e2'])
    await world.relay.stop()
  })

  it('is parked without being sent if it was claimed too often and never settled', async () => {
    const world = openWorld({ maxAttempts: 2 })
    await world.add('orders', 'e1')
    for (const _ of [1, 2]) {
      await world.memory.claim({ limit: 1, lease: 10 })
      await world.runtime.advance(11)
    }
    await world.add('orders', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual(['e2'])
    const [record] = await stored(world)
    expect(record).toMatchObject({ state: 'parked', attempts: 3 })
    expect(record?.lastError).toContain('claimed 2 times and never settled')
    await world.relay.stop()
  })

  it('uses no attempt of the records that the publisher did not try because of it, and they are sent without it', async () => {
    const world = openWorld({
      // As over HTTP, where the messages of one key are sent one after the other.
      answer: async ({ messages }) => {
        const at = messages.findIndex(({ id }) => id === 'poison')
        return messages.map((_, index) => {
          if (at === -1 || index < at) return ok
          return { ok: false, error: new Error('refused'), ...(index === at ? {} : { tried: false }) }
        })
      },
      backoff: () => 5000,
      maxAttempts: 3,
    })
    await world.add('orders', 'poison', ...ids(5))
    world.relay.start()
    await world.runtime.advance(1000)
    expect(await stored(world)).toMatchObject([{ state: 'waiting', attempts: 1 }])
    expect(world.sent()).toEqual(['poison', ...ids(5), ...ids(5)])
    await world.runtime.advance(60_000)
    expect(await stored(world)).toMatchObject([{ state: 'parked', attempts: 3 }])
    await world.relay.stop()
  })

  it('uses an attempt if the publisher reports no message as tried: otherwise it would be sent forever', async () => {
    const world = openWorld({ answer: answering({ e1: { error: 'never', tried: false } }), maxAttempts: 2, backoff: () => 1000 })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(10_000)
    expect(await stored(world)).toMatchObject([{ state: 'parked', attempts: 2 }])
    await world.relay.stop()
  })

  it('does not affect its neighbours: exactly the confirmed ones are settled as published', async () => {
    const world = openWorld({
      answer: answering({
        e2: { error: 'later' },
        e3: { error: 'never', permanent: true },
        e4: { error: 'away', scope: 'destination' },
      }),
      retain: true,
    })
    await world.add('orders', ...ids(5))
    world.relay.start()
    await world.runtime.advance(0)
    expect((await stored(world)).map(({ state, attempts }) => [state, attempts])).toEqual([
      ['published', 1],
      ['waiting', 1],
      ['parked', 1],
      ['ready', 0],
      ['published', 1],
    ])
    expect(world.store.count('settle')).toBe(1)
    expect(world.store.count('release')).toBe(1)
    await world.relay.stop()
  })

  it.each([Number.NaN, -1, Infinity, 1e300])('gets a delay that a store accepts when the back-off returns %d', async (delay) => {
    const world = openWorld({ answer: answering({ e1: { error: 'x', retryAfter: delay } }), backoff: () => delay })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    const [record] = await stored(world)
    const wait = (record?.availableAt ?? 0) - world.runtime.now()
    expect(wait).toBeGreaterThanOrEqual(1000)
    expect(wait).toBeLessThanOrEqual(86_400_000)
    await world.relay.stop()
  })

  it('survives a back-off that throws', async () => {
    const world = openWorld({
      answer: answering({ e1: { error: 'x' } }),
      backoff: () => {
        throw new Error('a bug')
      },
    })
    await world.add('orders', 'e1', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(await stored(world)).toMatchObject([{ state: 'waiting', attempts: 1 }])
    await world.relay.stop()
  })

  it('leaves an error text that any store can keep', async () => {
    const error = new Error(`a\0b\ud800c😀${'x'.repeat(10_000)}`)
    const world = openWorld({ answer: answering({ e1: { error }, e2: { error: undefined } }) })
    await world.add('orders', 'e1', 'e2')
    world.relay.start()
    await world.runtime.advance(0)
    const [first, second] = await stored(world)
    expect(first?.lastError?.startsWith('a\\u0000b\\ud800c😀x')).toBe(true)
    expect(first?.lastError?.endsWith(' characters)')).toBe(true)
    expect(first?.lastError?.length).toBeLessThanOrEqual(2000)
    expect(second?.lastError).toContain('undefined')
    await world.relay.stop()
  })
})

describe('a destination that fails', () => {
  const failures: [string, Answer][] = [
    ['says so', async ({ messages }) => messages.map(() => ({ ok: false, error: new Error('down'), scope: 'destination' }))],
    ['rejects', () => Promise.reject(new Error('no connection'))],
    [
      'throws',
      () => {
        throw new Error('not connected')
      },
    ],
    ['answers with too few results', async ({ messages }) => messages.slice(1).map(() => ok)],
    ['answers with too many results', async ({ messages }) => [...messages, ...messages].map(() => ok)],
    ['answers with nonsense', async () => undefined as never],
    ['never answers', () => new Promise(() => {})],
  ]

  it.each(failures)('keeps its records, with no attempt counted, when it %s', async (_, answer) => {
    const world = openWorld({ answer })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(10_000)
    await world.relay.stop()
    const records = await stored(world)
    expect(records.map(({ state, attempts }) => [state, attempts])).toEqual(Array(3).fill(['ready', 0]))
    expect(world.logger.at('warn')).toHaveLength(1)
    expect(world.runtime.timers).toBe(0)
  })

  it('that accepts the records and then fails causes duplicates with the same ids, and uses no attempt', async () => {
    const taken: string[] = []
    let failing = true
    const world = openWorld({
      answer: async ({ messages }) => {
        taken.push(...messages.map(({ id = '' }) => id))
        if (failing) throw new Error('the connection was lost before the confirmations came')
        return messages.map(() => ok)
      },
      retain: true,
    })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(5000)
    failing = false
    await world.runtime.advance(75_000)
    expect(new Set(taken)).toEqual(new Set(ids(3)))
    expect(taken.length).toBeGreaterThan(3)
    expect((await stored(world)).map(({ state, attempts }) => [state, attempts])).toEqual(Array(3).fill(['published', 1]))
    await world.relay.stop()
  })

  it('that answers too late changes nothing', async () => {
    const late = deferred()
    const world = openWorld({
      answer: async ({ messages }) => {
        if (world.publisher.calls.length === 1) await late.promise
        return messages.map(() => ok)
      },
    })
    await world.add('orders', ...ids(3))
    world.relay.start()
    await world.runtime.advance(10_000)
    expect(await world.states()).toEqual({ ready: 3 })
    late.resolve()
    await world.runtime.advance(0)
    expect(await world.states()).toEqual({ ready: 3 })
    expect(world.relay.health().published).toBe(0)
    await world.runtime.advance(75_000)
    expect(world.relay.health()).toMatchObject({ published: 3, downDestinations: [] })
    await world.relay.stop()
  })

  it('has its publish aborted by the time-out, with a signal', async () => {
    const world = openWorld({ answer: () => new Promise(() => {}), publishTimeout: 1000 })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(999)
    const [call] = world.publisher.calls
    expect(call?.signal.aborted).toBe(false)
    await world.runtime.advance(1)
    expect(call?.signal.aborted).toBe(true)
    expect(await world.states()).toEqual({ ready: 1 })
    await world.relay.stop()
  })

  it('keeps results that were confirmed before the time-out: only the rest is sent again, without losing an attempt', async () => {
    // Two seconds for each, one after the other; an abort ends the call with the results known by then.
    const slow: Answer = async ({ messages, signal }) => {
      const results: PublishResult[] = []
      for (const _ of messages) {
        if (!signal.aborted) await new Promise<void>((resolve) => wait(resolve, signal))
        results.push(signal.aborted ? { ok: false, error: new Error('aborted') } : ok)
      }
      return results
    }
    const world = openWorld({ answer: slow, publishTimeout: 9000, maxAttempts: 1 })
    const wait = (resolve: () => void, signal: AbortSignal) => {
      const timer = world.runtime.setTimeout(resolve, 2000)
      signal.addEventListener('abort', () => [timer.cancel(), resolve()], { once: true })
    }
    await world.add('orders', ...ids(6))
    world.relay.start()
    await world.runtime.advance(9000)
    expect(world.relay.health()).toMatchObject({ published: 4, downDestinations: ['orders'] })
    await world.runtime.advance(60_000)
    expect(world.relay.health()).toMatchObject({ published: 6, parked: 0, downDestinations: [] })
    expect(world.sent()).toEqual([...ids(6), 'e5', 'e6'])
    await world.relay.stop()
  })

  it('is paused for at least its retryAfter', async () => {
    const world = openWorld({
      answer: async ({ messages }) => messages.map(() => ({ ok: false, error: 'busy', scope: 'destination', retryAfter: 30_000 })),
    })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(29_000)
    expect(world.publisher.calls).toHaveLength(1)
    await world.runtime.advance(2000)
    expect(world.publisher.calls).toHaveLength(2)
    await world.relay.stop()
  })

  it('logs two lines while it goes up and down every few seconds, and another one once it stays down', async () => {
    let down = false
    let tokens = 10
    let refilledAt = 0
    const world = openWorld({
      // It accepts ten records a second.
      answer: async ({ messages }) => {
        const now = world.runtime.monotonic()
        tokens = Math.min(10, tokens + (now - refilledAt) / 100)
        refilledAt = now
        return messages.map(() => {
          if (down || tokens < 1) return { ok: false, error: new Error('429'), scope: 'destination' }
          tokens -= 1
          return ok
        })
      },
    })
    await world.add('orders', ...ids(1000))
    world.relay.start()
    await world.runtime.advance(30_000)
    expect(world.relay.health().published).toBeGreaterThan(50)
    expect(world.logger.lines.map(({ level }) => level).filter((level) => level !== 'debug')).toEqual(['warn', 'info'])
    down = true
    await world.runtime.advance(180_000)
    expect(world.logger.at('warn')).toHaveLength(2)
    down = false
    await world.runtime.advance(600_000)
    expect(await world.states()).toEqual({})
    expect(world.relay.health().downDestinations).toEqual([])
    await world.relay.stop()
  })

  it('parks nothing in hours, is hardly called, logs one line, and drains when it is up again', async () => {
    let down = true
    const world = openWorld({
      answer: async ({ messages }) => messages.map(() => (down ? { ok: false, error: new Error('down'), scope: 'destination' } : ok)),
    })
    await world.add('orders', ...ids(600))
    world.relay.start()
    await world.runtime.advance(hoursDown * 60 * 60 * 1000)
    expect(await world.states()).toEqual({ ready: 600 })
    expect(world.publisher.calls.length).toBeLessThan(85 * hoursDown)
    expect(world.sent().length).toBeLessThan(1000 + 125 * hoursDown)
    expect(world.logger.lines.map(({ level }) => level)).toEqual(['warn'])
    expect(world.relay.health().downDestinations).toEqual(['orders'])

    down = false
    await world.runtime.advance(75_000)
    expect(await world.states()).toEqual({})
    expect(world.logger.lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    expect(world.relay.health()).toMatchObject({ downDestinations: [], published: 600, parked: 0, failed: 0 })
    await world.relay.stop()
  }, 60_000)

  it('does not block another one, with 10,000 records at the head', async () => {
    const world = openWorld({
      answer: async ({ destination, messages }) =>
        messages.map(() => (destination === 'dead' ? { ok: false, error: 'down', scope: 'destination' } : ok)),
    })
    await world.add('dead', ...ids(10_000, 'd'))
    await world.add('orders', ...ids(5000))
    world.relay.start()
    await world.runtime.advance(1000)
    expect(new Set(world.sent('orders')).size).toBe(5000)
    expect(world.sent('dead').length).toBeLessThanOrEqual(1000)
    await world.add('orders', 'late')
    await world.runtime.advance(0)
    expect(world.sent('orders')).toContain('late')
    await world.relay.stop()
    expect(await world.states()).toEqual({ ready: 10_000 })
  })

  it('does not delay another one while a trial hangs', async () => {
    const world = openWorld({
      answer: async ({ destination, messages }) => {
        if (destination === 'dead') await new Promise(() => {})
        return messages.map(() => ok)
      },
    })
    await world.add('dead', ...ids(10, 'd'))
    world.relay.start()
    await world.runtime.advance(10_000 + 2000)
    expect(world.publisher.calls).toHaveLength(2)
    expect(world.relay.health().inFlight).toBe(5)
    await world.add('orders', 'e1')
    await world.runtime.advance(0)
    expect(world.sent('orders')).toEqual(['e1'])
    expect((await world.memory.stats()).destinations).toMatchObject([{ destination: 'dead', leased: 5 }])
    let ended = false
    const stopped = world.relay.stop().then(() => {
      ended = true
    })
    await world.runtime.advance(1000)
    expect(ended).toBe(false)
    await world.runtime.advance(9000)
    await stopped
    expect(await world.states()).toEqual({ ready: 10 })
  })

  it('that accepts 100 records in time but not 500 receives all of them, in smaller calls', async () => {
    const world = openWorld({
      answer: async ({ messages }) => {
        if (messages.length > 100) await new Promise(() => {})
        return messages.map(() => ok)
      },
    })
    await world.add('orders', ...ids(1000))
    world.relay.start()
    await world.runtime.advance(600_000)
    expect(await world.states()).toEqual({})
    expect(world.logger.at('warn').length).toBeLessThanOrEqual(2)
    await world.relay.stop()
  })

  it('is up again after a while for a relay that has nothing to send', async () => {
    let down = true
    const world = openWorld({
      answer: async ({ messages }) => messages.map(() => (down ? { ok: false, error: 'down', scope: 'destination' } : ok)),
      destinationBackoff: () => 1000,
    })
    await world.add('orders', 'e1')
    world.relay.start()
    await world.runtime.advance(0)
    down = false
    // Another relay claims the record.
    const [record] = await world.memory.claim({ limit: 1, lease: 1000 })
    if (record !== undefined) await world.memory.settle([{ id: record.id, token: record.token, result: 'published' }])
    await world.runtime.advance(5000)
    expect(world.relay.health().downDestinations).toEqual(['orders'])
    await world.runtime.advance(60_000)
    expect(world.relay.health().downDestinations).toEqual([])
    expect(world.logger.lines.map(({ level }) => level)).toEqual(['warn', 'info'])
    await world.relay.stop()
  })
})
