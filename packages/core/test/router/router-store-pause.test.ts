import { describe, expect, it } from 'vitest'
import { AckordError, StoreRefusesWritesError } from '../../src/errors.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { deferred, FedSource, handling, openWorld, sourceOf, tracked, trackedSome, verdicts } from '../support/router-world.ts'
import { settlePromises } from '../support/virtual-runtime.ts'

/** A router whose handler writes to a store that can be full. */
function openStoreWorld(options: RouterOptions = {}) {
  const world = openWorld(options)
  const store = { full: false, tries: [] as string[], rows: [] as string[] }
  world.router.handle(
    handling(async ({ id = '' }) => {
      store.tries.push(id)
      if (store.full) throw new StoreRefusesWritesError('The store', 'disk full')
      store.rows.push(id)
      return []
    }),
  )
  return { ...world, store }
}

describe('a store that refuses writes', () => {
  it.each([1, 4])('pauses the reading until it accepts them, with two log lines, concurrency %d', async (concurrency) => {
    const { router, runtime, store, logger } = openStoreWorld({ concurrency })
    store.full = true
    const messages = trackedSome(50)
    const source = sourceOf(...messages)
    const run = router.run(source)
    await runtime.advance(60_000)
    expect(messages.flatMap(verdicts)).toEqual([])
    expect(router.health()).toMatchObject({ paused: true, inFlight: concurrency, failed: 0 })
    // A minute of tries with growing delays: 250 ms, 500 ms, … 10 s.
    expect(store.tries.length).toBeLessThan(15 + concurrency)
    expect(store.tries.length).toBeGreaterThan(5)
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn'])
    store.full = false
    await runtime.advance(13_000)
    await run
    expect(store.rows).toHaveLength(50)
    expect(new Set(messages.flatMap(verdicts))).toEqual(new Set(['ack']))
    expect(logger.lines.map(({ level, text }) => [level, text.slice(0, 31)])).toEqual([
      ['warn', 'The store refuses writes. The r'],
      ['info', 'The store accepts writes again.'],
    ])
    expect(runtime.timers).toBe(0)
  })

  it('tries one message at a time', async () => {
    const { router, runtime, store } = openStoreWorld({ concurrency: 10 })
    store.full = true
    const run = router.run(sourceOf(...trackedSome(10)))
    await settlePromises()
    const tries = store.tries.length
    expect(tries).toBeLessThanOrEqual(10)
    await runtime.advance(320)
    expect(store.tries.length - tries).toBe(1)
    expect(router.health().inFlight).toBe(10)
    await router.stop()
    await run
  })

  it('keeps the order of a key', async () => {
    const { router, runtime, store } = openStoreWorld({ concurrency: 4, orderingKey: 'partitionkey' })
    store.full = true
    const messages = ['a', 'b'].flatMap((key) => trackedSome(5, { attributes: { partitionkey: key } }, key))
    const run = router.run(sourceOf(...messages))
    await runtime.advance(5_000)
    store.full = false
    await runtime.advance(20_000)
    await run
    expect(store.rows.filter((id) => id.startsWith('a'))).toEqual(['a1', 'a2', 'a3', 'a4', 'a5'])
    expect(store.rows.filter((id) => id.startsWith('b'))).toEqual(['b1', 'b2', 'b3', 'b4', 'b5'])
  })

  it('nacks the messages once, when the router stops', async () => {
    const { router, runtime, store, logger } = openStoreWorld({ concurrency: 3 })
    store.full = true
    const messages = trackedSome(10)
    const run = router.run(sourceOf(...messages))
    await runtime.advance(2_000)
    await router.stop()
    await run
    expect(messages.slice(0, 3).map(verdicts)).toEqual([['nack'], ['nack'], ['nack']])
    expect(messages[0]?.calls[0]?.error).toMatchObject({ code: 'ACKORD_SHUTDOWN' })
    expect(logger.lines).toHaveLength(1)
    expect(runtime.timers).toBe(0)
  })

  it('continues with the next message, if the tried one fails for another reason', async () => {
    const { router, runtime, store, logger } = openStoreWorld({ concurrency: 2 })
    store.full = true
    const broken = tracked('broken')
    const good = tracked('good')
    const run = router.run(sourceOf(broken, good))
    await settlePromises()
    // From now on the first one fails before it writes to the store.
    Object.defineProperty(broken.message, 'data', { get: () => new Uint8Array([1]) })
    await runtime.advance(300)
    expect(verdicts(broken)).toEqual(['reject'])
    expect(router.health().paused).toBe(true)
    store.full = false
    await runtime.advance(2_000)
    await run
    expect(verdicts(good)).toEqual(['ack'])
    expect(logger.at('error')).toHaveLength(1)
  })

  it.each([1, 4])(
    'is not waited for longer because of messages that fail for a reason of their own, concurrency %d',
    async (concurrency) => {
      const { router, runtime } = openWorld({ concurrency })
      const store = { full: true, rows: [] as string[] }
      router.handle(
        handling(async ({ id = '' }) => {
          if (store.full) throw new StoreRefusesWritesError('The store', 'disk full')
          if (id.startsWith('bad')) throw new Error('bad data')
          store.rows.push(id)
          return []
        }),
      )
      const run = router.run(sourceOf(...trackedSome(100, {}, 'bad'), tracked('good')))
      await runtime.advance(60_000)
      store.full = false
      // The longest delay, and one try after the other without any.
      await runtime.advance(13_000)
      expect(store.rows).toEqual(['good'])
      expect(router.health().paused).toBe(false)
      await run
    },
  )

  it('does not keep a message that is refused although others are accepted', async () => {
    const { router, runtime, logger } = openWorld({ concurrency: 2 })
    router.handle(
      handling(async ({ id }) => {
        if (id === 'odd' || runtime.monotonic() < 200) throw new StoreRefusesWritesError('The store', 'read only')
        return []
      }),
    )
    const odd = tracked('odd')
    const others = trackedSome(10)
    const run = router.run(sourceOf(odd, ...others))
    await runtime.advance(10_000)
    await run
    expect(verdicts(odd)).toEqual(['nack'])
    expect(others.flatMap(verdicts)).toEqual(others.map(() => 'ack'))
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn', 'info', 'error'])
  })

  it('does not stop the router forever, if only one message is refused', async () => {
    const { router, runtime } = openWorld()
    router.handle(
      handling(async ({ id }) => {
        if (id === 'odd') throw new StoreRefusesWritesError('The store', 'a temporary file is too large')
        return []
      }),
    )
    const source = new FedSource()
    const run = router.run(source)
    const [odd, good, again, other] = [tracked('odd'), tracked('good'), tracked('odd'), tracked('other')]
    for (const message of [odd, good]) source.push(message)
    await runtime.advance(500_000)
    expect(verdicts(odd)).toEqual([])
    await runtime.advance(120_000)
    expect([odd, good].map(verdicts)).toEqual([['nack'], ['ack']])
    // This shows that the message itself is at fault.
    for (const message of [again, other]) source.push(message)
    await settlePromises()
    expect([again, other].map(verdicts)).toEqual([['nack'], ['ack']])
    await router.stop()
    await run
    expect(runtime.timers).toBe(0)
  })

  it('does not wait forever for a handler that hangs while it is tried', async () => {
    const { router, runtime } = openWorld({ concurrency: 2 })
    const tries: string[] = []
    const hanging = deferred()
    router.handle(
      handling(async ({ id = '' }) => {
        tries.push(id)
        if (tries.length <= 2) throw new StoreRefusesWritesError('The store', 'disk full')
        if (id === 'm1') await hanging.promise
        return []
      }),
    )
    const messages = trackedSome(4)
    const run = router.run(sourceOf(...messages))
    await runtime.advance(40_000)
    expect(messages.slice(1).map(verdicts)).toEqual([['ack'], ['ack'], ['ack']])
    hanging.resolve()
    await run
    expect(runtime.timers).toBe(0)
  })

  it('is recognised inside of another error', async () => {
    const { router, runtime } = openWorld()
    let calls = 0
    router.handle(
      handling(async () => {
        calls += 1
        const cause = new StoreRefusesWritesError('The store', 'disk full')
        if (calls === 1) throw new AckordError('ACKORD_RETRY_EXHAUSTED', 'Tried three times.', { cause })
        return []
      }),
    )
    const message = tracked('m1')
    const run = router.run(sourceOf(message))
    await runtime.advance(1_000)
    await run
    expect([calls, verdicts(message)]).toEqual([2, ['ack']])
  })

  it('starts the next pause where the last one ended, if that was just now', async () => {
    const { router, runtime, store } = openStoreWorld()
    const source = new FedSource()
    const run = router.run(source)
    store.full = true
    source.push(tracked('m1'))
    await runtime.advance(30_000)
    store.full = false
    await runtime.advance(12_000)
    expect(store.rows).toEqual(['m1'])
    store.full = true
    const tries = store.tries.length
    source.push(tracked('m2'))
    await runtime.advance(7_000)
    expect(store.tries.length - tries).toBe(1)
    await router.stop()
    await run
  })
})
