import { AckordError, Message, type Publisher, type PublishResult, type RawMessage } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { settlePromises, VirtualRuntime } from '../../../core/test/support/virtual-runtime.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import type { ReplayProgress, ReplayPublishedOptions } from '../../src/replay/replay-options.ts'
import { ReplayFailedError, replayPublished } from '../../src/replay/replay-published.ts'
import type { OutboxAdmin } from '../../src/store/outbox-admin.ts'

interface Event {
  readonly id: string
  readonly destination?: string
  readonly type?: string
  readonly key?: string
  readonly data?: Uint8Array
  readonly attributes?: Readonly<Record<string, string>>
}

/** A publisher that answers what `answer` says, and remembers what it was asked to publish. */
class AnsweringPublisher implements Publisher {
  readonly published: { readonly destination: string; readonly message: RawMessage }[] = []
  /** The ids of each call. */
  readonly calls: (readonly (string | undefined)[])[] = []
  answer: (id: string) => PublishResult | Promise<PublishResult> = () => ({ ok: true })

  async publish(destination: string, messages: readonly RawMessage[]): Promise<readonly PublishResult[]> {
    this.calls.push(messages.map(({ id }) => id))
    return await Promise.all(
      messages.map(async (message) => {
        const answer = await this.answer(message.id ?? '')
        if (answer.ok) this.published.push({ destination, message })
        return answer
      }),
    )
  }

  get ids(): readonly (string | undefined)[] {
    return this.published.map(({ message }) => message.id)
  }
}

class World {
  readonly runtime = new VirtualRuntime()
  readonly store = new MemoryOutboxStore({ retain: true, runtime: this.runtime })
  readonly publisher = new AnsweringPublisher()

  /** Stores events and publishes them, as a relay does. */
  async published(...events: readonly Event[]): Promise<void> {
    await this.stored(...events)
    const claims = await this.store.claim({ limit: 10_000, lease: 1000 })
    await this.store.settle(claims.map(({ id, token }) => ({ id, token, result: 'published' })))
  }

  async stored(...events: readonly Event[]): Promise<void> {
    const transaction = this.store.begin()
    await this.store.append(
      transaction,
      events.map(({ id, destination = 'orders', type = 'order.placed', key, data = new Uint8Array([1]), attributes }) => ({
        destination,
        message: new Message(data, { id, type, source: '/shop', specversion: '1.0', partitionkey: key, ...attributes }),
      })),
    )
    transaction.commit()
  }

  /** Advances the clock until the replay has ended. */
  async replay(options: Partial<ReplayPublishedOptions> = {}, outbox: Pick<OutboxAdmin, 'list' | 'audited'> = this.store) {
    const { publisher, runtime } = this
    const replaying = replayPublished(outbox, { publisher, runtime, rate: Infinity, ...options })
    let hasEnded = false
    const end = () => {
      hasEnded = true
    }
    replaying.then(end, end)
    await settlePromises()
    while (!hasEnded) await runtime.advance(runtime.nextTimer ?? 0)
    return await replaying
  }
}

function numbered(count: number, more: Omit<Event, 'id'> = {}): readonly Event[] {
  return Array.from({ length: count }, (_, index) => ({ id: `e${index + 1}`, ...more }))
}

function idsOf(count: number, from = 1): readonly string[] {
  return Array.from({ length: count }, (_, index) => `e${from + index}`)
}

const refused: PublishResult = { ok: false, error: new Error('too large'), permanent: true }
const away: PublishResult = { ok: false, error: new Error('no connection'), scope: 'destination' }

describe('a replay', () => {
  it('publishes what was published before, in its order, unchanged but for the mark, and changes nothing in the store', async () => {
    const world = new World()
    await world.published(...numbered(250, { attributes: { subject: 's' } }))
    await world.stored({ id: 'new' })
    const before = await world.store.list({}, { limit: 1000 })
    const result = await world.replay()
    expect(result).toEqual({ replayed: 250, expired: 0, complete: true, destinations: { orders: 250 }, position: expect.any(String) })
    expect(world.publisher.ids).toEqual(idsOf(250))
    const [first] = world.publisher.published
    expect(first?.destination).toBe('orders')
    expect(first?.message.attributes).toEqual({
      ...before.records[0]?.message.attributes,
      replayed: true,
    })
    expect([...(first?.message.data ?? [])]).toEqual([1])
    expect(await world.store.list({}, { limit: 1000 })).toEqual(before)
    expect(await world.replay({ type: 'order.paid' })).toMatchObject({ replayed: 0, complete: true })
  })

  it('selects by destination, type, key, message id and the time of storing', async () => {
    const world = new World()
    const start = world.runtime.now()
    await world.published({ id: 'a', destination: 'mails' }, { id: 'b', type: 'order.paid' }, { id: 'c', key: 'k' })
    await world.runtime.advance(7_200_000)
    await world.published({ id: 'd' })
    await world.runtime.advance(7_200_000)
    await world.published({ id: 'e' })
    const hour = (count: number) => new Date(start + count * 3_600_000)
    const cases: readonly [Partial<ReplayPublishedOptions>, readonly string[]][] = [
      [{ destination: 'mails' }, ['a']],
      [{ type: 'order.paid' }, ['b']],
      [{ orderingKey: 'k' }, ['c']],
      [{ messageId: 'd' }, ['d']],
      [{ from: hour(1) }, ['d', 'e']],
      [{ from: hour(2), until: hour(2) }, ['d']],
      [{ until: hour(1) }, ['a', 'b', 'c']],
      [{ from: hour(5) }, []],
    ]
    for (const [filter, expected] of cases) {
      world.publisher.published.length = 0
      expect(await world.replay(filter)).toMatchObject({ replayed: expected.length })
      expect(world.publisher.ids).toEqual(expected)
    }
  })

  it('leaves out what is stored after it has begun', async () => {
    const world = new World()
    await world.published(...numbered(15))
    const result = await world.replay({
      rate: 1,
      onProgress: ({ replayed }) => void (replayed === 5 && world.published({ id: 'later' })),
    })
    expect(result).toMatchObject({ replayed: 15, complete: true })
    expect(world.publisher.ids).toEqual(idsOf(15))
    expect(await world.replay({ position: result.position })).toMatchObject({ replayed: 1 })
  })

  it('goes to another destination, or where the map of the relay says', async () => {
    const world = new World()
    await world.published({ id: 'a', destination: 'orders' }, { id: 'b', destination: 'mails' })
    const { destinations } = await world.replay({ map: ({ destination }) => ({ destination: `topic.${destination}` }) })
    expect(destinations).toEqual({ 'topic.orders': 1, 'topic.mails': 1 })
    expect((await world.replay({ toDestination: 'search' })).destinations).toEqual({ search: 2 })
    const other = new AnsweringPublisher()
    await world.replay({ publisher: { orders: world.publisher, '*': other } })
    expect(other.ids).toEqual(['b'])
  })

  it('gives new ids that a repetition has again, and another replay has not', async () => {
    const world = new World()
    await world.published({ id: 'a' }, { id: 'b' })
    const idsWith = async (newIds: string) => {
      world.publisher.published.length = 0
      await world.replay({ newIds })
      expect(world.publisher.published.map(({ message }) => message.attributes['replayedid'])).toEqual(['a', 'b'])
      return world.publisher.ids
    }
    const first = await idsWith('repair-1')
    expect(new Set([...first, 'a', 'b']).size).toBe(4)
    expect(await idsWith('repair-1')).toEqual(first)
    expect(new Set([...first, ...(await idsWith('repair-2'))]).size).toBe(4)
  })

  it('ends at a message with new ids whose data a codec has bound to its id', async () => {
    const world = new World()
    await world.published({ id: 'a' }, { id: 'b', attributes: { ackordencrypted: 'k1' } })
    await expect(world.replay({ newIds: 'repair-1' })).rejects.toThrow(/after 1 record, because record 2, .*newIds cannot be used/)
    expect(await world.replay()).toMatchObject({ replayed: 2 })
  })

  it('leaves out expired events and says how many, and those that are named', async () => {
    const world = new World()
    const passed = new Date(world.runtime.now() + 1000).toISOString()
    await world.published({ id: 'a', attributes: { expirytime: passed } }, { id: 'b' }, { id: 'c' })
    await world.runtime.advance(2000)
    expect(await world.replay({ except: ['3'] })).toMatchObject({ replayed: 1, expired: 1 })
    expect(world.publisher.ids).toEqual(['b'])
  })

  it('is bounded by its rate, and does not catch up after a broker was away', async () => {
    const world = new World()
    await world.published(...numbered(300))
    const startedAt = world.runtime.monotonic()
    await world.replay({ rate: undefined })
    const elapsed = world.runtime.monotonic() - startedAt
    expect(elapsed).toBeGreaterThanOrEqual(2800)
    expect(elapsed).toBeLessThan(3200)

    let down = true
    world.publisher.answer = () => (down ? away : { ok: true })
    const replay = world.replay({ rate: 10 })
    world.runtime.setTimeout(() => {
      down = false
    }, 5000)
    world.publisher.published.length = 0
    const again = world.runtime.monotonic()
    await replay
    // The last record has its turn after 299 others, and none of them was sooner because of the outage.
    expect(world.runtime.monotonic() - again).toBeGreaterThanOrEqual(29_900 + 3000)
  })

  it('reads large records in small pages', async () => {
    const world = new World()
    await world.published(...numbered(40, { data: new Uint8Array(1024 * 1024) }))
    const limits: number[] = []
    const list: OutboxAdmin['list'] = (filter, page) => {
      limits.push(page.limit)
      return world.store.list(filter, page)
    }
    expect(await world.replay({}, { list })).toMatchObject({ replayed: 40 })
    expect(Math.max(...limits)).toBe(10)
    expect(limits.at(-1)).toBe(8)
  })

  it('counts in a dry run what it would do, without payloads, a publish or an audit', async () => {
    const world = new World()
    await world.published(...numbered(150), { id: 'm', destination: 'mails' })
    const asked: unknown[] = []
    const store = Object.assign(Object.create(world.store) as MemoryOutboxStore, {
      list: (filter: Parameters<OutboxAdmin['list']>[0], page: Parameters<OutboxAdmin['list']>[1]) => {
        asked.push(page.payloads)
        return world.store.list(filter, page)
      },
    })
    expect(await world.replay({ dryRun: true, toDestination: undefined }, store)).toMatchObject({
      replayed: 151,
      complete: true,
      destinations: { orders: 150, mails: 1 },
    })
    expect(new Set(asked)).toEqual(new Set([false]))
    expect([world.publisher.calls, await world.store.audit({ limit: 10 })]).toEqual([[], []])
  })

  it('is one entry of the audit, with its filter, its target and the number of records', async () => {
    const world = new World()
    await world.published({ id: 'a' }, { id: 'b' })
    await world.replay({ type: 'order.placed', toDestination: 'search', by: 'ann', reason: 'new index' })
    world.publisher.answer = (id) => (id === 'b' ? refused : { ok: true })
    await expect(world.replay({ destination: 'orders' })).rejects.toThrow()
    expect((await world.store.audit({ limit: 10 })).toSorted((one, other) => one.what.length - other.what.length)).toMatchObject([
      { action: 'replay', what: '{"destination":"orders"}', error: expect.stringContaining('after 1 record,') },
      { action: 'replay', what: '{"type":"order.placed","toDestination":"search"}', by: 'ann', reason: 'new index', count: 2 },
    ])
  })
})

describe('the order of a key', () => {
  it('is kept: a record is sent when the one before it is confirmed, and other keys do not wait', async () => {
    const world = new World()
    await world.published(
      { id: 'a1', key: 'a' },
      { id: 'a2', key: 'a' },
      { id: 'b1', key: 'b' },
      { id: 'x' },
      { id: 'a3', key: 'a' },
      { id: 'b2', key: 'b' },
    )
    await world.replay()
    expect(world.publisher.calls).toEqual([['a1', 'b1', 'x'], ['a2', 'b2'], ['a3']])
  })

  it('is kept when a publish fails for a while', async () => {
    const world = new World()
    await world.published({ id: 'a1', key: 'a' }, { id: 'a2', key: 'a' }, { id: 'b1', key: 'b' })
    let failures = 3
    world.publisher.answer = (id) => {
      if (id !== 'a1' || failures === 0) return { ok: true }
      failures -= 1
      return { ok: false, error: new Error('busy'), retryAfter: 20_000 }
    }
    const startedAt = world.runtime.monotonic()
    expect(await world.replay()).toMatchObject({ replayed: 3 })
    expect(world.publisher.ids).toEqual(['b1', 'a1', 'a2'])
    expect(world.runtime.monotonic() - startedAt).toBeGreaterThanOrEqual(60_000)
  })

  it('is kept when a record is refused: nothing behind it in its key is published', async () => {
    const world = new World()
    await world.published({ id: 'a1', key: 'a' }, { id: 'a2', key: 'a' }, { id: 'a3', key: 'a' }, ...numbered(200))
    world.publisher.answer = (id) => (id === 'a2' ? refused : { ok: true })
    const error = await world.replay().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ReplayFailedError)
    if (!(error instanceof ReplayFailedError)) return
    expect(error).toMatchObject({ code: 'ACKORD_REPLAY_FAILED', recordId: '2', cause: { message: 'too large' } })
    expect(error.message).toMatch(/^The replay ended after \d+ records, because record 2, .*'a2'.*, was not published: too large$/)
    expect(world.publisher.ids).not.toContain('a3')

    world.publisher.published.length = 0
    const { position } = error.progress
    await expect(world.replay({ position })).rejects.toThrow('record 2')
    expect(world.publisher.ids).not.toContain('a1')
    world.publisher.published.length = 0
    expect(await world.replay({ position, except: ['2'] })).toMatchObject({ complete: true })
    expect(world.publisher.ids).toEqual(['a3', ...idsOf(200)].toSorted((one, other) => orderOf(one) - orderOf(other)))
  })
})

function orderOf(id: string): number {
  return id === 'a3' ? 0 : Number(id.slice(1))
}

describe('a replay that ends early', () => {
  it('by its signal ends after the batch, and another one continues exactly behind it', async () => {
    const world = new World()
    await world.published(...numbered(257))
    const stopping = new AbortController()
    const stopped = await world.replay({
      rate: 50,
      signal: stopping.signal,
      onProgress: ({ replayed }) => void (replayed >= 123 && stopping.abort()),
    })
    expect(stopped).toMatchObject({ replayed: 125, complete: false })
    const seen = [...world.publisher.ids]
    const rest = await world.replay({ position: stopped.position })
    expect(rest).toMatchObject({ replayed: 132, complete: true })
    expect(world.publisher.ids).toEqual(idsOf(257))
    expect(seen).toEqual(idsOf(125))
  })

  it('at any progress loses nothing when it continues there, as after a crash', async () => {
    const world = new World()
    await world.published(...numbered(120, { key: 'k' }))
    const reported: ReplayProgress[] = []
    await world.replay({ onProgress: (progress) => void reported.push(progress) })
    for (const { replayed, position } of reported) {
      world.publisher.published.length = 0
      expect(await world.replay({ position })).toMatchObject({ replayed: 120 - replayed })
      expect(world.publisher.ids).toEqual(idsOf(120 - replayed, replayed + 1))
    }
    expect(reported.length).toBeGreaterThan(1)
  })

  it('continues where records of its page were deleted meanwhile, and where others were published', async () => {
    const world = new World()
    await world.published(...numbered(20))
    await world.stored({ id: 'late' })
    await world.published(...numbered(20).map(({ id }) => ({ id: `${id}-2` })))
    const stopping = new AbortController()
    const { position } = await world.replay({
      rate: 50,
      signal: stopping.signal,
      onProgress: ({ replayed }) => void (replayed >= 15 && stopping.abort()),
    })
    world.publisher.published.length = 0
    const { records } = await world.store.list({ state: 'published' }, { limit: 5 })
    for (const row of records) await removePublished(world.store, row.id)
    await world.replay({ position })
    expect(world.publisher.ids.slice(0, 2)).toEqual(['e16', 'e17'])
  })

  it('rejects a position of something else', async () => {
    const world = new World()
    for (const position of ['', 'x', 'MTIz', Buffer.from('["nonsense",null]').toString('base64url')])
      await expect(world.replay({ position })).rejects.toThrow(/^position must be one that a replay of this store has reported/)
  })

  it('tries again while the store does not answer, and then says where to continue', async () => {
    const world = new World()
    await world.published(...numbered(30))
    let calls = 0
    let failures = 3
    const list: OutboxAdmin['list'] = (filter, page) => {
      calls += 1
      if (calls === 1 || failures === 0) return world.store.list(filter, page)
      failures -= 1
      throw new Error('connection lost')
    }
    expect(await world.replay({}, { list })).toMatchObject({ replayed: 30, complete: true })
    calls = 0
    failures = Infinity
    const error = await world.replay({}, { list }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'ACKORD_REPLAY_FAILED', recordId: undefined, progress: { replayed: 10 }, retryable: true })
    world.publisher.published.length = 0
    await world.replay({ position: (error as ReplayFailedError).progress.position })
    expect(world.publisher.ids).toEqual(idsOf(20, 11))
  })

  it('gives up a broker that stays away, and can be stopped meanwhile', async () => {
    const world = new World()
    await world.published({ id: 'a' })
    world.publisher.answer = () => away
    await expect(world.replay()).rejects.toMatchObject({ recordId: '1', progress: { replayed: 0, position: undefined } })
    expect(world.publisher.calls).toHaveLength(5)
    const stopping = new AbortController()
    world.runtime.setTimeout(() => stopping.abort(), 1500)
    expect(await world.replay({ signal: stopping.signal })).toMatchObject({ replayed: 0, complete: false, position: undefined })
  })

  it('names the destination without a publisher', async () => {
    const world = new World()
    await world.published({ id: 'a', destination: 'mails' })
    await expect(world.replay({ publisher: { orders: world.publisher } })).rejects.toThrow("There is no publisher for 'mails'")
  })
})

/** Of the memory store, whose cleanup deletes the oldest first. */
async function removePublished(store: MemoryOutboxStore, id: string): Promise<void> {
  await store.rearm({ ids: [id] }, {}, { state: 'published' })
  await store.park([id], 'removed')
  await store.discard([id], 'removed')
}

it.each([
  ['an unknown option', { speed: 1 }, /replayPublished\(\) has no option 'speed'/],
  ['no publisher', { publisher: undefined }, /publisher must have a publish method/],
  ['a rate of 0', { rate: 0 }, /rate must be a number of records per second/],
  ['a time that is no date', { from: 1_700_000_000_000 }, /from must be a valid Date; it is a number/],
  ['an invalid date', { until: new Date(Number.NaN) }, /until must be a valid Date/],
  ['a range that is empty', { from: new Date(2), until: new Date(1) }, /until must not be before from/],
  ['an empty name', { newIds: '' }, /newIds must be a non-empty string/],
  ['an empty destination', { toDestination: '' }, /toDestination must be a non-empty string/],
  ['ids that are none', { except: [7] }, /except must be an array of ids/],
  ['a map that is none', { map: new Map() }, /map must be a function/],
] as const)('a replay rejects %s', async (_, options, expected) => {
  const world = new World()
  await expect(world.replay(options as object)).rejects.toThrow(expected)
  await expect(world.replay(options as object)).rejects.toBeInstanceOf(AckordError)
})
