import { describe, expect, it } from 'vitest'
import { isAckordError } from '../../src/errors.ts'
import { contextKey, messageKey, rootContext } from '../../src/message/context.ts'
import { ackingOf, inheritValues, isMessage, Message, withAcking, withData } from '../../src/message/message.ts'
import { trackedMessage } from '../support/tracked-message.ts'

const tenant = contextKey<string>('tenant')
const invalidOption = expect.toSatisfy((error) => isAckordError(error, 'ACKORD_INVALID_OPTION'))

describe('a message', () => {
  it('has data and attributes, and adds nothing to them', () => {
    const data = { a: 1 }
    const attributes = { type: 'a' }
    const message = new Message(data, attributes)
    expect(message.data).toBe(data)
    expect(message.attributes).toBe(attributes)
    expect(message.deliveryCount).toBeUndefined()
    expect(new Message(1).attributes).toEqual({})
  })

  it('carries the delivery count of its broker', () => {
    expect(new Message(1, {}, { deliveryCount: 3 }).deliveryCount).toBe(3)
  })

  it.each([null, 'type', 5, [], () => {}])('rejects %s as attributes', (attributes) => {
    expect(() => new Message(1, attributes as never)).toThrow(
      expect.toSatisfy((error) => isAckordError(error, 'ACKORD_INVALID_ATTRIBUTES')),
    )
  })

  it('is recognised, and similar objects are not', () => {
    expect(isMessage(new Message(1))).toBe(true)
    for (const other of [null, undefined, 1, 'a', {}, { data: 1, attributes: {} }, Object.create(Message.prototype)]) {
      expect(isMessage(other)).toBe(false)
    }
  })

  it('without acking cannot be settled', async () => {
    const message = new Message(1)
    expect(await message.ack()).toBe(false)
    expect(await message.nack()).toBe(false)
    expect(await message.reject(new Error('no'))).toBe(false)
    expect(message.state).toBeUndefined()
    expect(message.error).toBeUndefined()
    const first = await Promise.race([message.settled, new Promise((resolve) => setImmediate(resolve, 'pending'))])
    expect(first).toBe('pending')
  })
})

describe('the accessors of a message', () => {
  const texts = [
    ['id', 'id'],
    ['type', 'type'],
    ['source', 'source'],
    ['specVersion', 'specversion'],
    ['subject', 'subject'],
    ['dataContentType', 'datacontenttype'],
    ['dataSchema', 'dataschema'],
    ['partitionKey', 'partitionkey'],
    ['correlationId', 'correlationid'],
  ] as const

  it.each(texts)('%s returns the string %s', (accessor, name) => {
    expect(new Message(1, { [name]: 'x' })[accessor]).toBe('x')
    expect(new Message(1, { [name]: '' })[accessor]).toBe('')
    expect(new Message(1)[accessor]).toBeUndefined()
    expect(new Message(1, { [name]: 5 })[accessor]).toBeUndefined()
    expect(new Message(1, { [name]: new Date() })[accessor]).toBeUndefined()
  })

  it.each([
    ['time', 'time'],
    ['expiryTime', 'expirytime'],
  ] as const)('%s parses a Date or an RFC 3339 string', (accessor, name) => {
    const instant = new Date('2026-02-03T04:05:06.789Z')
    expect(new Message(1, { [name]: instant })[accessor]).toEqual(instant)
    expect(new Message(1, { [name]: '2026-02-03T04:05:06.789Z' })[accessor]).toEqual(instant)
    expect(new Message(1, { [name]: '2026-02-03T09:35:06.789123456+05:30' })[accessor]).toEqual(instant)
    for (const wrong of [undefined, '', 'yesterday', 1770000000000, true, new Date(Number.NaN)]) {
      expect(new Message(1, { [name]: wrong })[accessor]).toBeUndefined()
    }
  })
})

describe('withAttributes', () => {
  it('adds, replaces and removes in a copy', () => {
    const message = new Message({ a: 1 }, { type: 'a', subject: 's', tenant: 't' }, { deliveryCount: 2 })
    const changed = message.withAttributes({ subject: 'other', priority: 1, tenant: undefined, absent: undefined })
    expect(changed.attributes).toEqual({ type: 'a', subject: 'other', priority: 1 })
    expect(Object.keys(changed.attributes)).toEqual(['type', 'subject', 'priority'])
    expect(changed.data).toBe(message.data)
    expect(changed.deliveryCount).toBe(2)
    expect(message.attributes).toEqual({ type: 'a', subject: 's', tenant: 't' })
  })

  it('returns a copy that settles the original', async () => {
    const { message, calls } = trackedMessage(1)
    expect(await message.withAttributes({ subject: 's' }).ack()).toBe(true)
    expect(message.state).toBe('acked')
    expect(calls).toEqual([{ verdict: 'ack' }])
  })
})

describe('copy', () => {
  it('has other data, attributes of its own and the same settlement', async () => {
    const { message, calls } = trackedMessage('before', { type: 'a' }, { deliveryCount: 4 })
    const copy = message.copy(5)
    expect(copy.data).toBe(5)
    expect(copy.attributes).toEqual(message.attributes)
    expect(copy.attributes).not.toBe(message.attributes)
    expect(copy.deliveryCount).toBe(4)
    expect(ackingOf(copy)).toBe(ackingOf(message))
    await copy.nack(new Error('no'))
    expect(await message.ack()).toBe(false)
    expect(calls.map((call) => call.verdict)).toEqual(['nack'])
  })

  it('keeps the values; later ones belong to one message only', () => {
    const message = new Message(1).withValue(tenant, 'a')
    const copy = message.copy(2)
    expect(copy.value(tenant)).toBe('a')
    message.withValue(tenant, 'b')
    expect(copy.value(tenant)).toBe('a')
    copy.withValue(tenant, 'c')
    expect(message.value(tenant)).toBe('b')
    expect(copy.value(tenant)).toBe('c')
  })
})

describe('withValue', () => {
  it('keeps the last value of a key, on this very message', () => {
    const message = new Message(1)
    expect(message.value(tenant)).toBeUndefined()
    expect(message.withValue(tenant, 'a')).toBe(message)
    message.withValue(tenant, 'b')
    expect(message.value(tenant)).toBe('b')
  })

  it('distinguishes keys of the same name', () => {
    const message = new Message(1).withValue(tenant, 'a')
    expect(message.value(contextKey<string>('tenant'))).toBeUndefined()
  })

  it('is never serialised', () => {
    const message = new Message(1, { type: 'a' }).withValue(tenant, 'secret')
    expect(JSON.stringify(message)).toBe('{"specversion":"1.0","type":"a","data":1}')
    expect(JSON.stringify(message.copy(2))).not.toContain('secret')
  })

  it('rejects a key that belongs to one call', () => {
    const transaction = contextKey<object>('sql.transaction', { callScoped: true })
    expect(() => new Message(1).withValue(transaction, {})).toThrow(invalidOption)
    expect(() => new Message(1).withValue(messageKey, new Message(2))).toThrow('context.with()')
  })

  it('is visible through the context of the message', () => {
    const message = new Message(1)
    const context = message.context(rootContext())
    message.withValue(tenant, 'a')
    expect(context.get(tenant)).toBe('a')
    expect(context.get(messageKey)).toBe(message)
  })
})

describe('fork', () => {
  it('returns messages that are settled one by one', async () => {
    const { message, calls } = trackedMessage('data', { type: 'a' })
    message.withValue(tenant, 'a')
    const [first, second] = message.fork(2)
    expect(first?.data).toBe('data')
    expect(first?.attributes).toEqual({ type: 'a' })
    expect(first?.attributes).not.toBe(second?.attributes)
    expect(second?.value(tenant)).toBe('a')
    await first?.ack()
    await first?.ack()
    expect(message.state).toBe('pending')
    await second?.ack()
    expect(message.state).toBe('acked')
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('into none acks the message, because nothing else would', async () => {
    const { message, calls } = trackedMessage(1)
    expect(message.fork(0)).toEqual([])
    expect(calls).toEqual([{ verdict: 'ack' }])
  })

  it('works without acking', async () => {
    const forks = new Message(1).fork(3)
    expect(forks).toHaveLength(3)
    expect(await forks[0]?.ack()).toBe(false)
  })

  it.each([-1, 1.5, Number.NaN, Infinity, '2'])('rejects %s as a count', (count) => {
    expect(() => new Message(1).fork(count as number)).toThrow(invalidOption)
  })
})

describe('nack', () => {
  it.each([-1, Number.NaN])('rejects a delay of %s milliseconds', async (retryAfter) => {
    const { message, calls } = trackedMessage(1)
    await expect(message.nack(undefined, { retryAfter })).rejects.toThrow('retryAfter')
    expect(calls).toEqual([])
    expect(message.state).toBe('pending')
  })
})

describe('internals', () => {
  it('withData keeps acking, values and delivery count and uses the attributes object itself', () => {
    const { message } = trackedMessage(1, { type: 'a' }, { deliveryCount: 2 })
    message.withValue(tenant, 'a')
    const attributes = { type: 'b' }
    const other = withData(message, 'x', attributes)
    expect(other.attributes).toBe(attributes)
    expect(other.data).toBe('x')
    expect(other.deliveryCount).toBe(2)
    expect(other.value(tenant)).toBe('a')
    expect(ackingOf(other)).toBe(ackingOf(message))
  })

  it('withAcking settles through another message', async () => {
    const { message, calls } = trackedMessage(1)
    const other = trackedMessage(2)
    const acking = ackingOf(other.message)
    if (acking === undefined) throw new Error('a tracked message has acking')
    await withAcking(message, acking).ack()
    expect(calls).toEqual([])
    expect(other.calls).toEqual([{ verdict: 'ack' }])
  })

  it('inheritValues copies values only to a message without', () => {
    const from = new Message(1).withValue(tenant, 'a')
    const bare = new Message(2)
    const own = new Message(3).withValue(contextKey<number>('n'), 1)
    inheritValues(bare, from)
    inheritValues(own, from)
    expect(bare.value(tenant)).toBe('a')
    expect(own.value(tenant)).toBeUndefined()
  })
})
