import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { recordingPublisher } from '../../../core/test/support/router-world.ts'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import type { RelayOptions } from '../../src/options/relay-options.ts'
import { Relay } from '../../src/relay/relay.ts'
import type { ClaimOptions, OutboxStore } from '../../src/store/outbox-store.ts'
import { type Answer, answering } from '../support/relay-world.ts'

function open(options: Partial<RelayOptions> & { readonly answer?: Answer } = {}) {
  const { answer, ...relayOptions } = options
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const memory = new MemoryOutboxStore({ order: 'perKey', runtime })
  const publisher = recordingPublisher(answer)
  const claims: { readonly at: number; readonly options: ClaimOptions }[] = []
  let leave: () => Promise<void> = () => memory.leave()
  let end = () => {}
  // Without wake-ups: records are found by polling.
  const store: OutboxStore = {
    capabilities: memory.capabilities,
    claim(asked) {
      claims.push({ at: runtime.now(), options: asked })
      return memory.claim(asked)
    },
    renew: (held, lease) => memory.renew(held, lease),
    async release(held) {
      end()
      await memory.release(held)
    },
    async settle(outcomes) {
      end()
      return await memory.settle(outcomes)
    },
    leave: () => leave(),
  }
  return {
    runtime,
    logger,
    memory,
    claims,
    relay: new Relay(store, { publisher, runtime, logger, ...relayOptions }),
    onLeave(work: () => Promise<void>) {
      leave = work
    },
    /** Runs before every settle and release. */
    onEnd(work: () => void) {
      end = work
    },
    async add(...ids: readonly string[]) {
      const transaction = memory.begin()
      const message = (id: string) => new Message(new Uint8Array(), { id, type: 'order.placed', source: '/orders', partitionkey: id[0] })
      await memory.append(
        transaction,
        ids.map((id) => ({ destination: 'orders', message: message(id) })),
      )
      transaction.commit()
    },
    sent: () => publisher.calls.map(({ messages }) => messages.map(({ id }) => id)),
  }
}

describe('a relay on a store with order per key', () => {
  it('publishes a key one after the other, and settles the batch once', async () => {
    const world = open()
    await world.add('a1', 'a2', 'b1', 'a3')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual([['a1', 'b1'], ['a2'], ['a3']])
    await world.relay.stop()
    expect((await world.memory.stats()).destinations).toEqual([])
  })

  it('polls again right after a batch, so that records behind it do not wait for the next poll', async () => {
    const world = open({ answer: answering({ a1: { error: new Error('too large'), permanent: true } }) })
    await world.add('a1', 'a2')
    world.relay.start()
    await world.runtime.advance(0)
    expect(world.sent()).toEqual([['a1'], ['a2']])
    await world.relay.stop()
  })

  it('claims at least three times in a lease, however long it may wait between polls', async () => {
    const world = open({ lease: 9000, publishTimeout: 5000, pollInterval: 60_000 })
    world.relay.start()
    await world.runtime.advance(9000)
    expect(world.claims.length).toBeGreaterThanOrEqual(3)
    await world.relay.stop()
  })

  it.each([
    ['park', 'given'],
    ['block', 'kept'],
    ['parkKey', 'marked'],
  ] as const)('with onExhausted %s claims records behind a parked one as %s', async (onExhausted, behindParked) => {
    const world = open({ onExhausted })
    world.relay.start()
    await world.runtime.advance(0)
    await world.relay.stop()
    expect(world.claims.map(({ options }) => options.behindParked)).toEqual([behindParked])
  })

  it('leaves when it stops, after all is settled', async () => {
    const world = open()
    const left: unknown[] = []
    world.onLeave(async () => void left.push((await world.memory.stats()).destinations))
    await world.add('a1', 'a2')
    world.relay.start()
    await world.runtime.advance(0)
    await world.relay.stop()
    expect(left).toEqual([[]])
  })

  it('stops although leaving fails, or hangs', async () => {
    const failing = open()
    failing.onLeave(() => Promise.reject(new Error('the connection is gone')))
    failing.relay.start()
    await failing.runtime.advance(0)
    await failing.relay.stop()
    expect(failing.logger.lines.filter(({ level }) => level !== 'debug' && level !== 'info')).toEqual([])
    const hanging = open()
    hanging.onLeave(() => new Promise(() => {}))
    hanging.relay.start()
    await hanging.runtime.advance(0)
    const stopped = hanging.relay.stop()
    await hanging.runtime.advance(5000)
    await stopped
    expect(hanging.runtime.timers).toBe(0)
  })
})

describe('onExhausted', () => {
  const publisher = recordingPublisher()

  it.each(['block', 'parkKey'] as const)('%s is rejected on a store that keeps no order', (onExhausted) => {
    expect(() => new Relay(new MemoryOutboxStore(), { publisher, onExhausted })).toThrow("requires a store with order 'perKey'")
    expect(new Relay(new MemoryOutboxStore({ order: 'perKey' }), { publisher, onExhausted }).health().state).toBe('idle')
  })

  it('is rejected if it is not a valid choice', () => {
    // A JavaScript caller may pass anything.
    expect(() => new Relay(new MemoryOutboxStore(), { publisher, onExhausted: 'drop' as 'park' })).toThrow(
      "must be 'park', 'block' or 'parkKey'",
    )
  })
})

describe('records that could be neither settled nor released', () => {
  async function lose(world: ReturnType<typeof open>) {
    const works = world.runtime.now() + 40_000
    world.onEnd(() => {
      if (world.runtime.now() < works) throw new Error('the statement was cancelled')
    })
    await world.add('a1', 'a2')
    world.relay.start()
    await world.runtime.advance(120_000)
    expect((await world.memory.stats()).destinations).toEqual([])
    await world.relay.stop()
  }

  it('are published again, in order, although the relay kept claiming', async () => {
    const world = open({ concurrency: 2 })
    let left = 0
    world.onLeave(() => {
      left += 1
      return world.memory.leave()
    })
    await lose(world)
    expect(left).toBe(2)
    expect(world.sent().flat()).toEqual(['a1', 'a2', 'a1', 'a2'])
  })

  it('are published again also if leave() fails: then nothing is claimed for a lease', async () => {
    const world = open({ concurrency: 2 })
    world.onLeave(() => Promise.reject(new Error('not implemented')))
    await lose(world)
    expect(world.sent().flat()).toEqual(['a1', 'a2', 'a1', 'a2'])
  })
})
