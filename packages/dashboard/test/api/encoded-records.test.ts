import { claimCheck, decodePayload, encrypted, type ObjectStore, type PayloadCodec, staticKeys } from '@ackord/core/payload'
import { MemoryOutboxStore } from '@ackord/outbox'
import { describe, expect, it } from 'vitest'
import type { Job, RecordDetail } from '../../src/api/types.ts'
import { appendParked, openWorld } from '../support/world.ts'

const secret = '4111-1111-1111-1111'

const objects = new Map<string, Uint8Array>()
const objectStore: ObjectStore = {
  put: async (key, bytes) => void objects.set(key, bytes),
  get: async (key) => objects.get(key),
  delete: async () => {},
  async *list() {},
}
const encrypting = encrypted({ keys: staticKeys({ current: 'k', keys: { k: new Uint8Array(32).fill(7) } }) })
const checking = claimCheck({ store: objectStore, above: 0 })

/** A dashboard over a store with one parked record, whose data these codecs have encoded. */
async function openEncoded(codecs: readonly PayloadCodec[]) {
  const store = new MemoryOutboxStore({ codecs })
  await appendParked(store, { id: 'e1', data: `{"card":"${secret}"}`, attributes: { datacontenttype: 'application/json' } })
  const world = await openWorld({ stores: { shop: store } })
  const rearm = (edit: object) => ({ action: 'rearm', which: { ids: ['1'] }, edit, reason: 'the address was wrong' })
  return { ...world, store, rearm, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() }
}

describe.each([
  ['encrypted', [encrypting], 'application/vnd.ackord.encrypted', 'binary'],
  ['stored as an object', [checking], 'application/vnd.ackord.claim-check', 'text'],
  ['encrypted and stored as an object', [encrypting, checking], 'application/vnd.ackord.claim-check', 'text'],
] as const)('a record whose data is %s', (_title, codecs, contentType, kind) => {
  it('is shown with its content type, and never as JSON', async () => {
    await using world = await openEncoded(codecs)
    const { body } = await world.client.get<RecordDetail>('stores/shop/records/1')
    expect(body).toMatchObject({ contentType, payload: { kind, truncated: false } })
    const { content = '' } = body.payload ?? {}
    expect(content + Buffer.from(content, 'base64').toString('latin1')).not.toContain(secret)
  })

  it('is published unchanged after an edit of its destination and of attributes that no codec checks', async () => {
    await using world = await openEncoded(codecs)
    const before = await world.store.get('1')
    const edit = { destination: 'mail', attributes: { subject: 'order-7' } }
    expect((await world.client.post('stores/shop/actions', world.rearm(edit))).body).toMatchObject({ state: 'done', count: 1 })
    const record = await world.store.get('1')
    expect(record).toMatchObject({ destination: 'mail', message: { data: before?.message.data, attributes: { subject: 'order-7' } } })
    expect(new TextDecoder().decode((await decodePayload(record?.message ?? expect.fail(), codecs)).data)).toBe(`{"card":"${secret}"}`)
  })

  it.each([{ payload: { kind: 'json', content: '{"card":"none"}' } }, { attributes: { type: 'order.paid' } }])(
    'stays parked, and the action says why, if an edit would make it unreadable: %j',
    async (edit) => {
      await using world = await openEncoded(codecs)
      const before = await world.store.get('1')
      const { body } = await world.client.post<Job>('stores/shop/actions', world.rearm(edit))
      expect(body).toMatchObject({ state: 'failed', error: expect.stringContaining('a codec has encoded the message') })
      expect(await world.store.get('1')).toEqual(before)
    },
  )
})
