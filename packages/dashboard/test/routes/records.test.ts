import { MemoryOutboxStore, type OutboxAdmin, type OutboxRecord, type RelayReport } from '@ackord/outbox'
import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import type { RecordDetail, RecordGroups, RecordPage } from '../../src/api/types.ts'
import { shortPages } from '../support/short-pages.ts'
import { append, appendParked, codeOf, openWorld, settle, type World, withFunctions } from '../support/world.ts'

const idsOf = ({ records }: RecordPage) => records.map(({ messageId }) => messageId)

describe('a list of records', () => {
  it.each([
    ['are not read', undefined, false],
    ['are read if somebody has to redact them', (record: OutboxRecord) => record, true],
  ])('payloads %s', async (_, redact, expected) => {
    await using world = await openWorld()
    const asked: unknown[] = []
    const list: OutboxAdmin['list'] = (filter, page) => {
      asked.push(page.payloads)
      return world.store.list(filter, page)
    }
    await using other = await openWorld({ stores: { shop: withFunctions(world.store, { list }) }, redact })
    await other.client.get('stores/shop/records')
    expect(asked).toEqual([expected])
  })

  it('is paged', async () => {
    await using world = await openWorld()
    await append(world.store, ...Array.from({ length: 130 }, (_, index) => ({ id: `m${index}` })))
    const seen: (string | undefined)[] = []
    let after: string | undefined
    const sizes: number[] = []
    do {
      const { body } = await world.client.get<RecordPage>(`stores/shop/records?${after === undefined ? '' : `after=${after}`}`)
      sizes.push(body.records.length)
      seen.push(...idsOf(body))
      after = body.next
    } while (after !== undefined)

    expect(sizes).toEqual([50, 50, 30])
    expect(new Set(seen).size).toBe(130)
    expect((await world.client.get<RecordPage>('stores/shop/records?limit=130')).body).toMatchObject({ records: { length: 130 } })
  })

  it('may be short while the search goes on, and says how far it is', async () => {
    await using world = await openWorld()
    await append(world.store, ...Array.from({ length: 20 }, (_, index) => ({ id: `m${index}`, type: index === 13 ? 'rare' : 'common' })))
    await using other = await openWorld({ stores: { shop: withFunctions(world.store, { list: shortPages(world.store, 8) }) } })
    const search = async (after: string) => (await other.client.get<RecordPage>(`stores/shop/records?type=rare${after}`)).body

    expect(await search('')).toEqual({ records: [], next: '8', searchedUntil: world.runtime.now() })
    expect(await search('&after=8')).toMatchObject({ records: [{ messageId: 'm13' }], next: '16' })
    expect(await search('&after=16')).toEqual({ records: [] })
  })

  it('has a summary of each record', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a', key: 'k', data: '12345' })
    await settle(world.store, { result: 'parked', error: 'x'.repeat(1000), cause: 'E1' })

    expect((await world.client.get<RecordPage>('stores/shop/records')).body).toEqual({
      records: [
        {
          id: '1',
          state: 'parked',
          destination: 'orders',
          messageId: 'a',
          type: 'order.placed',
          orderingKey: 'k',
          attempts: 1,
          createdAt: world.runtime.now(),
          availableAt: world.runtime.now(),
          parkedAt: world.runtime.now(),
          lastError: 'x'.repeat(300),
          cause: 'E1',
        },
      ],
    })
  })

  it.each([
    ['state=parked', ['old', 'other']],
    ['state=ready', ['new']],
    ['destination=mail', ['other']],
    ['type=order.paid', ['other']],
    ['orderingKey=k1', ['old']],
    ['messageId=old', ['old']],
    ['cause=ECONNREFUSED&destination=orders', ['old']],
    ['error=connection%20REFUSED', ['old', 'other']],
    ['minAge=60000', ['old', 'other']],
    ['maxAge=59999', ['new']],
    ['id=1', ['old']],
    ['id=1&state=ready', []],
    ['id=99', []],
    ['destination=&state=ready', ['new']],
  ])('is filtered by %s', async (query, expected) => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'old', key: 'k1' }, { id: 'other', destination: 'mail', type: 'order.paid' })
    await world.runtime.advance(60_000)
    await append(world.store, { id: 'new' })

    expect(idsOf((await world.client.get<RecordPage>(`stores/shop/records?${query}`)).body)).toEqual(expected)
  })

  it.each([
    'state=lost',
    'limit=0',
    'limit=201',
    'limit=many',
    'minAge=-1',
    'minAge=1.5',
    'destnation=x',
    'state=parked&state=ready',
    '__proto__=1',
    `type=${'x'.repeat(2001)}`,
    'after=no-cursor',
  ])('refuses the query %s', async (query) => {
    await using world = await openWorld()
    expect(codeOf(await world.client.get(`stores/shop/records?${query}`))).toBe('400 invalid')
  })

  it('of a store that does not exist is not found, whatever its name', async () => {
    await using world = await openWorld()
    for (const name of ['other', '__proto__', 'constructor', '%E0%A4%A', '..'])
      expect(codeOf(await world.client.get(`stores/${name}/records`))).toBe('404 not_found')
  })
})

describe('a record', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

  it('is shown with attributes, payload, history, trace and the records behind it', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'before', key: 'k' })
    await settle(world.store, { result: 'published' })
    await append(world.store, {
      id: 'a',
      key: 'k',
      attributes: { traceparent, retries: 3, urgent: true, signature: new Uint8Array([1, 2]), expirytime: new Date(0) },
    })
    await settle(world.store, { result: 'failed', error: 'first' })
    await world.runtime.advance(60_000)
    await settle(world.store, { result: 'parked', error: 'second '.repeat(100), cause: 'second' })
    await append(world.store, ...Array.from({ length: 25 }, (_, index) => ({ id: `b${index}`, key: 'k' })))
    await append(world.store, { id: 'elsewhere', key: 'k', destination: 'mail' }, { id: 'other key', key: 'j' })
    const { body } = await world.client.get<RecordDetail>('stores/shop/records/2')

    expect(body).toMatchObject({
      id: '2',
      state: 'parked',
      lastError: 'second '.repeat(100),
      attributes: { id: 'a', retries: 3, urgent: true, signature: 'AQI=', expirytime: '1970-01-01T00:00:00.000Z' },
      payload: { kind: 'json', content: '{"total":7}', truncated: false },
      history: [{ error: expect.stringMatching(/^second/) }, { error: 'first' }],
      traceId: '0af7651916cd43dd8448eb211c80319c',
    })
    expect(body.behind.map(({ messageId }) => messageId)).toEqual(Array.from({ length: 20 }, (_, index) => `b${index}`))
  })

  it('has its partition and the relay that owns it, with order per key, until it is published', async () => {
    const runtime = new VirtualRuntime()
    const shop = new MemoryOutboxStore({ runtime, order: 'perKey', retain: true })
    await using world = await openWorld({ stores: { shop }, runtime })
    await append(shop, { id: 'a', key: 'k' })
    const { partition: number } = (await shop.get('1')) ?? {}
    const report = async (id: string, relay: Partial<RelayReport>) =>
      await shop.notes.put('relay', [{ name: id, value: JSON.stringify({ host: `${id}.test`, pid: 7, ...relay }) }], 30_000)
    const partition = async () => (await world.client.get<RecordDetail>('stores/shop/records/1')).body.partition

    await report('r1', {})
    expect(await partition()).toBeUndefined()
    await report('r2', { partitions: 0 })
    expect(await partition()).toEqual({ number })
    await report('r3', { partitions: 256, ownedPartitions: '0-255' })
    expect(await partition()).toEqual({ number, owner: { id: 'r3', host: 'r3.test', pid: 7 } })
    await settle(shop, { result: 'published' })
    expect(await partition()).toBeUndefined()
  })

  it('is shown with the records behind it, also if the store finds them on several pages, or not in time', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a', key: 'k' }, ...Array.from({ length: 20 }, (_, index) => ({ id: `m${index}` })), {
      id: 'b',
      key: 'k',
    })
    const behindOf = async (pageTime: number) => {
      const other: World = await openWorld({
        stores: { shop: withFunctions(world.store, { list: shortPages(world.store, 8, () => other.runtime.advance(pageTime)) }) },
      })
      await using _other = other
      const { behind, behindComplete } = (await other.client.get<RecordDetail>('stores/shop/records/1')).body
      return [behind.map(({ messageId }) => messageId), behindComplete]
    }

    expect(await behindOf(100)).toEqual([['b'], true])
    expect(await behindOf(600)).toEqual([[], false])
  })

  it('has no payload without the right to see it, and no download', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a' })
    const viewer = world.as('bob', ['view'])

    expect((await viewer.get<RecordDetail>('stores/shop/records/1')).body).not.toHaveProperty('payload')
    expect(codeOf(await viewer.get('stores/shop/records/1/payload'))).toBe('403 forbidden')
  })

  it.each([
    ['text', new TextEncoder().encode('plain\ttext\n'), undefined, 'plain\ttext\n'],
    ['text', new TextEncoder().encode('{"a":1}'), 'text/plain', '{"a":1}'],
    ['text', new TextEncoder().encode('{"a":'), 'application/json', '{"a":'],
    ['json', new TextEncoder().encode('{"a":1}'), 'application/cloudevents+json; charset=utf-8', '{"a":1}'],
    ['binary', new Uint8Array([0xff, 0xfe]), undefined, '//4='],
    ['binary', new TextEncoder().encode('a\u0000b'), undefined, 'YQBi'],
    ['text', new Uint8Array(), undefined, ''],
  ])('shows a payload as %s', async (kind, data, contentType, content) => {
    await using world = await openWorld()
    await append(world.store, { id: 'a', data, attributes: contentType === undefined ? {} : { datacontenttype: contentType } })

    expect((await world.client.get<RecordDetail>('stores/shop/records/1')).body.payload).toEqual({ kind, content, truncated: false })
  })

  it('shows the first 64 kB of a payload, without half a character', async () => {
    await using world = await openWorld()
    const text = `x${'é'.repeat(40_000)}`
    await append(world.store, { id: 'a', data: text }, { id: 'b', data: new Uint8Array(100_000).fill(255) })
    const [first, second] = await Promise.all(['1', '2'].map((id) => world.client.get<RecordDetail>(`stores/shop/records/${id}`)))

    expect(first?.body.payload).toEqual({ kind: 'text', content: `x${'é'.repeat(32_767)}`, truncated: true })
    expect(second?.body.payload).toMatchObject({ kind: 'binary', truncated: true })
    expect(Buffer.from(second?.body.payload?.content ?? '', 'base64').byteLength).toBe(64 * 1024)
  })

  it('is downloaded as bytes, never as a page', async () => {
    await using world = await openWorld()
    const page = '<!doctype html><script>alert(1)</script>'
    await append(world.store, { id: 'a"\r\nx: y', data: page, attributes: { datacontenttype: 'text/html' } })
    const response = await world.dashboard.fetch(
      new Request('http://x/api/stores/shop/records/1/payload', { headers: { 'x-user': 'ann', 'x-rights': 'view payload' } }),
    )

    expect([response.status, await response.text()]).toEqual([200, page])
    expect(response.headers.get('content-type')).toBe('application/octet-stream')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="payload-1.bin"')
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  })

  it('with an odd id has an ordinary file name', async () => {
    await using world = await openWorld()
    await append(world.store, { id: 'a' })
    const record = (await world.store.get('1')) as OutboxRecord
    const id = '../"x"\r\n'
    await using other = await openWorld({ stores: { shop: withFunctions(world.store, { get: async () => ({ ...record, id }) }) } })
    const response = await other.dashboard.fetch(
      new Request(`http://x/api/stores/shop/records/${encodeURIComponent(id)}/payload`, {
        headers: { 'x-user': 'ann', 'x-rights': 'view payload' },
      }),
    )

    expect(response.headers.get('content-disposition')).toBe('attachment; filename="payload.bin"')
  })

  it('that does not exist is not found', async () => {
    await using world = await openWorld()
    expect(codeOf(await world.client.get('stores/shop/records/7'))).toBe('404 not_found')
    expect(codeOf(await world.client.get('stores/shop/records/7/payload'))).toBe('404 not_found')
  })

  it('passes hostile texts through JSON unchanged', async () => {
    await using world = await openWorld()
    const hostile = '</script><script>alert(1)</script><img src=x onerror=alert(1)> javascript:alert(1) \u202e\u2028 "\'`'
    await append(world.store, { id: hostile, type: hostile, key: 'k'.repeat(10_000), data: hostile, attributes: { extra: hostile } })
    await settle(world.store, { result: 'parked', error: hostile, cause: hostile })
    const { body, headers } = await world.client.get<RecordDetail>('stores/shop/records/1')

    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(body).toMatchObject({
      messageId: hostile,
      type: hostile,
      lastError: hostile,
      cause: hostile,
      orderingKey: 'k'.repeat(10_000),
      attributes: { extra: hostile },
      payload: { kind: 'text', content: hostile },
    })
    for (const [, value] of headers) expect(value).not.toContain('alert')
  })
})

describe('groups', () => {
  it.each([
    ['by=failure', { ECONNREFUSED: 3 }],
    ['by=type', { 'order.placed': 2, 'order.paid': 1 }],
    ['by=destination', { orders: 2, mail: 1 }],
    ['by=destination&destination=mail', { mail: 1 }],
    ['by=failure&state=waiting', {}],
  ])('%s', async (query, expected) => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'a' }, { id: 'b' }, { id: 'c', destination: 'mail', type: 'order.paid' })
    const { body } = await world.client.get<RecordGroups>(`stores/shop/groups?${query}`)

    expect(Object.fromEntries(body.groups.map(({ name, count }) => [name, count]))).toEqual(expected)
    expect(body.complete).toBe(true)
  })

  it.each(['', 'by=age', 'by=type&state=odd', 'by=type&colour=red'])('refuse the query "%s"', async (query) => {
    await using world = await openWorld()
    expect(codeOf(await world.client.get(`stores/shop/groups?${query}`))).toBe('400 invalid')
  })
})

it('a store without the optional functions shows empty parts', async () => {
  await using world = await openWorld()
  await appendParked(world.store, { id: 'a' })
  const shop = withFunctions(world.store, {
    activity: undefined,
    groups: undefined,
    history: undefined,
    audit: undefined,
    relays: undefined,
    pauses: undefined,
    rates: undefined,
    pause: undefined,
    resume: undefined,
  })
  await using other = await openWorld({ stores: { shop } })

  expect((await other.client.get('stores/shop/groups?by=failure')).body).toEqual({ groups: [], complete: true })
  expect((await other.client.get('stores/shop/audit')).body).toEqual({ entries: [] })
  expect((await other.client.get('stores/shop/records/1')).body).toMatchObject({ history: [], lastError: 'Connection refused.' })
  expect((await other.client.get('overview')).body).toMatchObject({ stores: [{ relays: [], rates: [], destinations: [{ parked: 1 }] }] })
  for (const action of ['pause', 'resume'])
    expect(codeOf(await other.client.post('stores/shop/actions', { action, destination: 'orders', reason: 'r' }))).toBe('409 unsupported')
  const all = { which: { filter: { type: 'order.placed' } }, reason: 'r' }
  expect((await other.client.post('stores/shop/preview', { action: 'rearm', ...all })).body).toEqual({ count: 1, capped: false })
})

it('the audit of a store is shown, the latest first', async () => {
  await using world = await openWorld()
  await appendParked(world.store, { id: 'a' })
  await world.client.post('stores/shop/actions', { action: 'pause', destination: 'orders', reason: 'maintenance' })
  await world.client.post('stores/shop/actions', { action: 'rearm', which: { ids: ['1'] }, reason: 'fixed' })

  expect((await world.client.get('stores/shop/audit')).body).toMatchObject({
    entries: [
      { action: 'rearm', by: 'ann', reason: 'fixed', what: '1', count: 1 },
      { action: 'pause', by: 'ann', reason: 'maintenance', what: 'orders', count: 1 },
    ],
  })
})
