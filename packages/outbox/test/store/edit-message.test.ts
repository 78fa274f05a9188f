import { Message, type RawMessage } from '@ackord/core'
import { claimCheck, decodePayload, encodePayload, encrypted, type ObjectStore, type PayloadCodec, staticKeys } from '@ackord/core/payload'
import { describe, expect, it } from 'vitest'
import { editMessage, MemoryOutboxStore, type OutboxEdit } from '../../src/index.ts'

const plain = new Message(new TextEncoder().encode('{"total":1}'), {
  id: 'e1',
  type: 'order.placed',
  source: '/orders',
  specversion: '1.0',
  datacontenttype: 'application/json',
})

const objects = new Map<string, Uint8Array>()
const store: ObjectStore = {
  put: async (key, bytes) => void objects.set(key, bytes),
  get: async (key) => objects.get(key),
  delete: async () => {},
  async *list() {},
}
const keys = staticKeys({ current: 'k', keys: { k: new Uint8Array(32).fill(7) } })

const codecs: [name: string, codec: PayloadCodec, mark: string][] = [
  ['encrypted()', encrypted({ keys }), 'ackordencrypted'],
  ['claimCheck()', claimCheck({ store, above: 0 }), 'ackordclaimcheck'],
]

const other = new TextEncoder().encode('{"total":2}')

describe.each(codecs)('an edit of a message that %s has encoded', (_name, codec, mark) => {
  const text = async (message: RawMessage) => new TextDecoder().decode((await decodePayload(message, [codec])).data)

  it('may change what its reader does not check', async () => {
    const encoded = await encodePayload(plain, [codec])
    const edited = editMessage(encoded, { destination: 'elsewhere', attributes: { subject: 'order-7', id: 'e1' } })
    expect(edited.attributes.subject).toBe('order-7')
    expect(await text(edited)).toBe('{"total":1}')
  })

  it.each<[string, OutboxEdit]>([
    ['id', { attributes: { id: 'e2' } }],
    ['source', { attributes: { source: '/shop' } }],
    ['type', { attributes: { type: 'order.paid' } }],
    ['mark', { attributes: { [mark]: undefined } }],
    ['data', { data: other }],
  ])('must not change its %s', async (name, edit) => {
    const encoded = await encodePayload(plain, [codec])
    expect(() => editMessage(encoded, edit)).toThrow(
      expect.objectContaining({
        code: 'ACKORD_INVALID_OPTION',
        message: expect.stringMatching(new RegExp(`the ${name === 'mark' ? mark : name} of a message of type 'order.placed' .*${mark}`)),
      }),
    )
  })

  it('may replace the data by plain data', async () => {
    const encoded = await encodePayload(plain, [codec])
    const edited = editMessage(encoded, { data: other, attributes: { [mark]: undefined, datacontenttype: 'application/json', id: 'e2' } })
    expect(await text(edited)).toBe('{"total":2}')
  })
})

it('is refused by the memory store as well, and changes nothing then', async () => {
  const [, codec] = codecs[0] as (typeof codecs)[number]
  const outbox = new MemoryOutboxStore({ codecs: [codec] })
  const transaction = outbox.begin()
  await outbox.append(transaction, { destination: 'orders', message: plain })
  transaction.commit()
  const [record] = await outbox.claim({ limit: 1, lease: 1000 })
  await outbox.settle([{ id: record?.id ?? '', token: record?.token ?? '', result: 'parked', error: 'too large' }])
  await expect(outbox.rearm({ ids: [record?.id ?? ''] }, { data: other })).rejects.toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
  expect(await outbox.get(record?.id ?? '')).toMatchObject({ state: 'parked', message: { data: record?.message.data } })
})
