import { jsonMarshaler, MemoryBroker, Message, marshal, publishAll, silentLogger } from '@ackord/core'
import { MemoryOutboxStore } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import { assertNothingPublished, assertPublished, type EventsIn } from '../../src/helpers/assertions.ts'

const attributes = { source: '/orders', specversion: '1.0' }

function event(id: string, data: unknown, more: object = {}) {
  const message = marshal(new Message(data, { id, type: 'order.placed', ...attributes, ...more }), jsonMarshaler)
  return { destination: 'order-events', message }
}

const placed = event('e-1', { orderId: 'o-1', lines: [{ sku: 'a', count: 2 }], note: { gift: true } }, { partitionkey: 'o-1' })
const cancelled = event('e-2', { orderId: 'o-2' }, { type: 'order.cancelled' })
const both = [placed, cancelled]

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return await promise.then(
    () => expect.unreachable('It did not fail.'),
    (error: Error) => error,
  )
}

describe('assertPublished', () => {
  it.each([
    [{ type: 'order.placed' }],
    [{ id: 'e-1' }],
    [{ type: 'order.placed', destination: 'order-events', attributes: { partitionkey: 'o-1' } }],
    [{ data: { orderId: 'o-1' } }],
    [{ data: { note: { gift: true }, lines: [{ sku: 'a' }] } }],
    [{ data: { orderId: expect.stringMatching(/^o-1$/), lines: expect.any(Array) } }],
  ])('finds an event by %j', async (expected) => {
    expect(await assertPublished(both, expected)).toEqual([placed])
  })

  it.each([
    [{ type: 'order.shipped' }],
    [{ destination: 'elsewhere' }],
    [{ attributes: { partitionkey: 'o-2' } }],
    [{ data: { orderId: 'o-3' } }],
    [{ data: { lines: [] } }],
    [{ data: { lines: { 0: { sku: 'a' } } } }],
    [{ data: null }],
    [{ data: { orderId: expect.any(Number) } }],
  ])('fails for %j, and shows what there is', async (expected) => {
    const error = await failureOf(assertPublished(both, expected))
    expect(error.name).toBe('AssertionError')
    expect(error.message).toContain("0 of 2 are so.\nThere are:\n  order.placed 'e-1' to 'order-events', key 'o-1': {\"orderId\":\"o-1\"")
    expect(error.message).toContain('  order.cancelled \'e-2\' to \'order-events\': {"orderId":"o-2"}')
  })

  it('fails when there are more events than expected', async () => {
    const error = await failureOf(assertPublished(both, { data: { orderId: expect.any(String) } }))
    expect(error.message).toContain('2 of 2 are so.')
    expect(await assertPublished(both, { data: { orderId: expect.any(String) } }, { times: 2 })).toEqual(both)
    expect((await failureOf(assertPublished(both, {}, { times: 3 }))).message).toContain('Expected 3 times any event; 2 of 2 are so.')
  })

  it('compares bytes that are neither JSON nor text, and does not print them', async () => {
    const bytes = {
      destination: 'raw',
      message: new Message(new Uint8Array([1, 2]), { id: 'b', type: 'raw', datacontenttype: 'image/png' }),
    }
    await assertPublished([bytes], { data: new Uint8Array([1, 2]) })
    expect((await failureOf(assertPublished([bytes], { data: new Uint8Array([1]) }))).message).toContain(': 2 bytes')
  })

  it('reads text, and data that is not JSON despite its content type', async () => {
    const text = {
      destination: 'raw',
      message: new Message(new TextEncoder().encode('hello'), { id: 't', type: 't', datacontenttype: 'text/plain' }),
    }
    const broken = {
      destination: 'raw',
      message: new Message(new TextEncoder().encode('{'), { id: 'x', type: 'x', datacontenttype: 'application/json' }),
    }
    await assertPublished([text, broken], { data: 'hello' })
    await assertPublished([text, broken], { type: 'x', data: new TextEncoder().encode('{') })
  })

  it('reports that there are no events at all', async () => {
    expect((await failureOf(assertPublished([], { type: 'order.placed' }))).message).toBe(
      'Expected an event with type "order.placed"; 0 of 0 are so.\nThere are no events.',
    )
  })

  it('inspects a memory broker', async () => {
    const broker = new MemoryBroker({ history: 10, logger: silentLogger })
    await publishAll(broker, 'order-events', [placed.message])
    await assertPublished({ broker, topic: 'order-events' }, { type: 'order.placed', destination: 'order-events' })
    await assertNothingPublished({ broker, topic: 'other' })
  })

  it('inspects a transaction before it commits, and the outbox afterwards', async () => {
    const outbox = new MemoryOutboxStore()
    const transaction = outbox.begin()
    await outbox.append(transaction, [placed])
    await assertPublished({ outbox, transaction }, { id: 'e-1', data: { orderId: 'o-1' } })
    await assertNothingPublished({ outbox })
    await assertNothingPublished({ outbox, transaction: outbox.begin() })
    transaction.commit()
    await assertPublished({ outbox }, { id: 'e-1' })
    await assertPublished({ outbox, transaction: outbox.begin() }, { id: 'e-1' })
    await expect(assertPublished({ outbox, transaction }, {})).rejects.toThrow('has ended')
  })

  it('ignores events that were rolled back, parked or published', async () => {
    const outbox = new MemoryOutboxStore({ retain: true })
    const lost = outbox.begin()
    await outbox.append(lost, [placed])
    lost.rollback()
    const kept = outbox.begin()
    await outbox.append(kept, both)
    kept.commit()
    const [first, second] = await outbox.claim({ limit: 2, lease: 1000 })
    if (first === undefined || second === undefined) throw new Error('There are no records.')
    await outbox.settle([
      { ...first, result: 'published' },
      { ...second, result: 'parked', error: 'no' },
    ])
    await assertNothingPublished({ outbox })
    await assertNothingPublished({ outbox, transaction: outbox.begin() })
  })

  it('rejects a target that cannot be inspected, and lists the valid ones', async () => {
    const redis = { append: async () => {} } as unknown as MemoryOutboxStore
    const transaction = new MemoryOutboxStore().begin()
    await expect(assertPublished({ outbox: redis, transaction }, {})).rejects.toThrow(
      'On Redis nothing of a transaction can be read before it commits',
    )
    await expect(assertPublished({} as unknown as EventsIn<unknown>, {})).rejects.toThrow('events must be { outbox, transaction }')
    await expect(assertPublished([], {}, { times: 0 })).rejects.toThrow('times must be a whole number, 1 or more')
  })
})

describe('assertNothingPublished', () => {
  it('fails if there is an event, and shows it', async () => {
    const error = await failureOf(assertNothingPublished(both))
    expect(error.message).toContain('Expected no event like this: any event; 2 are there.\nThere are:\n  order.placed')
  })

  it('ignores other events', async () => {
    await assertNothingPublished(both, { type: 'order.shipped' })
    await expect(assertNothingPublished(both, { type: 'order.cancelled' })).rejects.toThrow('1 are there')
  })

  it('shows at most twenty', async () => {
    const many = Array.from({ length: 25 }, (_, index) => event(`e-${index}`, {}))
    expect((await failureOf(assertNothingPublished(many))).message).toContain('… and 5 more')
  })
})
