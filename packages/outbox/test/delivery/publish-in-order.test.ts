import { Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { Lease } from '../../src/delivery/lease-keeper.ts'
import { failed, parked, published, type Verdict } from '../../src/delivery/outcomes.ts'
import { publishInOrder } from '../../src/delivery/publish-in-order.ts'
import type { OnExhausted } from '../../src/options/key-order.ts'
import type { ClaimedRecord } from '../../src/store/outbox-store.ts'

/** A record named by its key and number, such as `a1`; without a key if the name begins with a dash. */
function claimed(id: string, changes: Partial<ClaimedRecord> = {}): ClaimedRecord {
  const attributes = { id, type: 'order.placed', source: '/orders', ...(id.startsWith('-') ? {} : { partitionkey: id[0] }) }
  return {
    id,
    token: `token of ${id}`,
    destination: 'orders',
    message: new Message(new Uint8Array(), attributes),
    attempts: 1,
    createdAt: 0,
    age: 0,
    ...changes,
  }
}

function open(ids: readonly (string | ClaimedRecord)[], onExhausted: OnExhausted = 'park') {
  const runtime = new VirtualRuntime()
  const records = ids.map((id) => (typeof id === 'string' ? claimed(id) : id))
  const lease = new Lease(runtime, records, runtime.now() + 30_000)
  const stop = new AbortController()
  const waves: string[][] = []
  /** The result of a record that is sent, by its id. Default: published. */
  const fates = new Map<string, (record: ClaimedRecord) => Verdict | undefined>()
  const world = {
    runtime,
    records,
    lease,
    stop,
    waves,
    fates,
    onWave: () => {},
    async run() {
      const verdicts = await publishInOrder(records, { onExhausted, runtime, lease, stopping: stop.signal, publish })
      return Object.fromEntries(verdicts.map(({ record, outcome }) => [record.id, outcome.result]))
    },
  }
  const publish = async (wave: readonly ClaimedRecord[]) => {
    waves.push(wave.map(({ id }) => id))
    world.onWave()
    return wave.flatMap((record) => {
      const fate = fates.get(record.id)
      return (fate === undefined ? { record, outcome: published(record) } : fate(record)) ?? []
    })
  }
  return world
}

const error = new Error('no route')
const fails = (record: ClaimedRecord): Verdict => ({
  record,
  outcome: failed(record, { error }, { maxAttempts: 10, backoff: () => 1000, runtime: new VirtualRuntime() }),
})
const isParked = (record: ClaimedRecord): Verdict => ({ record, outcome: parked(record, error), error, reason: 'permanent' })

describe('publishing in order', () => {
  it('sends the first record of every run with all that have no key, then the second, and so on', async () => {
    const world = open(['a1', 'b1', '-1', 'a2', '-2', 'a3', 'b2'])
    expect(await world.run()).toEqual({
      a1: 'published',
      b1: 'published',
      '-1': 'published',
      '-2': 'published',
      a2: 'published',
      b2: 'published',
      a3: 'published',
    })
    expect(world.waves).toEqual([['a1', 'b1', '-1', '-2'], ['a2', 'b2'], ['a3']])
  })

  it('treats one key of two destinations as two keys', async () => {
    const world = open(['a1', claimed('a2', { destination: 'stock' }), 'a3'])
    await world.run()
    expect(world.waves).toEqual([['a1', 'a2'], ['a3']])
  })

  it('ends a run with a record that failed, or has no result, and leaves those behind it without a verdict', async () => {
    const world = open(['a1', 'b1', 'c1', 'a2', 'b2', 'c2', 'a3'])
    world.fates.set('a2', fails)
    world.fates.set('b1', () => undefined)
    expect(await world.run()).toEqual({ a1: 'published', c1: 'published', a2: 'failed', c2: 'published' })
    expect(world.waves).toEqual([
      ['a1', 'b1', 'c1'],
      ['a2', 'c2'],
    ])
  })

  it.each(['park', 'block'] as const)('ends a run with a parked record, until that is stored (%s)', async (onExhausted) => {
    const world = open(['a1', 'a2', 'a3'], onExhausted)
    world.fates.set('a1', isParked)
    expect(await world.run()).toEqual({ a1: 'parked' })
  })

  it("parks the records behind a parked one with 'parkKey', and names it", async () => {
    const world = open(['a1', 'b1', 'a2', 'b2', 'a3'], 'parkKey')
    world.fates.set('a2', isParked)
    const { records, runtime, lease, stop } = world
    expect(await world.run()).toEqual({ a1: 'published', b1: 'published', a2: 'parked', b2: 'published', a3: 'parked' })
    const again = await publishInOrder(records, {
      onExhausted: 'parkKey',
      runtime,
      lease,
      stopping: stop.signal,
      publish: async (wave) => wave.map(isParked),
    })
    const behind = again.find(({ record }) => record.id === 'a3')
    expect(behind).toMatchObject({ reason: 'behind', outcome: { error: expect.stringContaining('record a1,') } })
  })

  it('parks marked records and sends the others', async () => {
    const world = open(['a1', claimed('a3', { behind: 'a2' }), claimed('b2', { behind: 'b1' })], 'parkKey')
    expect(await world.run()).toEqual({ a1: 'published', a3: 'parked', b2: 'parked' })
    expect(world.waves).toEqual([['a1']])
  })

  it('starts no wave when the lease has expired, and none when the relay stops', async () => {
    const late = open(['a1', 'a2'])
    late.onWave = () => {
      late.lease.until = late.runtime.monotonic()
    }
    expect(await late.run()).toEqual({ a1: 'published' })
    const stopped = open(['a1', 'a2'])
    stopped.onWave = () => stopped.stop.abort()
    expect(await stopped.run()).toEqual({ a1: 'published' })
  })

  it('sends no more records of a lost claim, and continues with the rest', async () => {
    const world = open(['a1', 'b1', 'a2', 'b2'])
    world.onWave = () => void world.lease.markLost(world.records.filter(({ id }) => id === 'a2'))
    expect(await world.run()).toEqual({ a1: 'published', b1: 'published', b2: 'published' })
  })

  it('sends neither records lost before the first wave nor those behind them in their key', async () => {
    const world = open(['a1', 'b1', '-1', 'a2', '-2', 'b2'])
    world.lease.markLost(world.records.filter(({ id }) => id === 'a1' || id === '-1'))
    await world.run()
    expect(world.waves).toEqual([['b1', '-2'], ['b2']])
  })

  it('starts no wave after a second, so that no key waits long behind a long run', async () => {
    const world = open(Array.from({ length: 50 }, (_, index) => `a${index + 1}`))
    const { runtime, lease, stop, records } = world
    const verdicts = await publishInOrder(records, {
      onExhausted: 'park',
      runtime,
      lease,
      stopping: stop.signal,
      async publish(wave) {
        await runtime.advance(300)
        return wave.map((record) => ({ record, outcome: published(record) }))
      },
    })
    expect(verdicts.map(({ record }) => record.id)).toEqual(['a1', 'a2', 'a3', 'a4'])
  })
})
