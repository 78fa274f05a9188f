import { type Attributes, Message } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { failureOf } from '../../../core/test/support/router-world.ts'
import { MemoryOutboxStore } from '../../src/memory/memory-outbox-store.ts'
import { attributesToJson, checkRecordSize } from '../../src/store/record-checks.ts'

const complete = { id: 'e1', type: 'order.placed', source: '/orders', specversion: '1.0' }

function recordOf(size: number, attributes: Attributes = {}, destination = 'orders') {
  return { destination, message: new Message(new Uint8Array(size), { ...complete, ...attributes }) }
}

function check(record: ReturnType<typeof recordOf>, maxSize: number): void {
  checkRecordSize(record, attributesToJson(record.message.attributes), maxSize)
}

describe('the size of a record', () => {
  const attributes = Buffer.byteLength(JSON.stringify(complete))

  it.each([
    ['data', recordOf(1000), 1000 + attributes + 6],
    ['attributes', recordOf(0, { note: 'x'.repeat(500) }), attributes + 510 + 6],
    ['attributes with several bytes per character', recordOf(0, { note: '訂🚚é' }), attributes + 10 + 9 + 6],
    ['attributes that are bytes, as base64', recordOf(0, { hash: new Uint8Array(30) }), attributes + 10 + 40 + 6],
    ['the destination', recordOf(0, {}, 'größe'), attributes + 7],
  ])('includes %s: at the limit it is accepted, one byte over it is not', (_, record, size) => {
    expect(() => check(record, size)).not.toThrow()
    expect(() => check(record, size - 1)).toThrow(`its size is ${size} bytes, and maxSize is ${size - 1}`)
  })

  it('is reported with the type and id of the event, without its content, and as a permanent error', async () => {
    const record = recordOf(0, { note: 'secret'.repeat(100) })
    const error = await failureOf(() => check(record, 100), 'ACKORD_INVALID_OUTPUT')
    expect(error.retryable).toBe(false)
    expect(error.message).toContain("type 'order.placed' (id 'e1')")
    expect(error.message).not.toContain('secret')
  })
})

describe('maxSize of the store in memory', () => {
  it('rejects a larger record, and stores nothing of that call', async () => {
    const maxSize = 6 + Buffer.byteLength(JSON.stringify(complete)) + 100
    const store = new MemoryOutboxStore({ maxSize })
    const transaction = store.begin()
    await store.append(transaction, [recordOf(100)])
    const error = await failureOf(store.append(transaction, [recordOf(1), recordOf(101)]), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain(`maxSize is ${maxSize}`)
    transaction.commit()
    const claimed = await store.claim({ limit: 10, lease: 1000 })
    expect(claimed.map(({ message }) => message.data.byteLength)).toEqual([100])
  })

  it('is 5 MB by default, also for another object on the same records', async () => {
    const store = new MemoryOutboxStore().another()
    const error = await failureOf(store.append(store.begin(), [recordOf(5_242_880)]), 'ACKORD_INVALID_OUTPUT')
    expect(error.message).toContain('maxSize is 5242880')
  })

  it.each([0, -1, 1.5, Number.NaN, Infinity])('cannot be %s', (maxSize) => {
    expect(() => new MemoryOutboxStore({ maxSize })).toThrow(/maxSize.* must be a whole number, 1 or more/)
  })
})
