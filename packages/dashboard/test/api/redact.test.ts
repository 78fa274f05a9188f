import type { AuditEntry, OutboxRecord } from '@ackord/outbox'
import { expect, it, vi } from 'vitest'
import type { Job, RecordDetail, RecordGroups, RecordPage } from '../../src/api/types.ts'
import { append, codeOf, openWorld, settle, withFunctions } from '../support/world.ts'

const secret = 'hunter2'
const hide = (text: string) => text.replaceAll(secret, '***')

/** Hides the secret in the payload, the attributes and the error. */
function redact(record: OutboxRecord): OutboxRecord {
  const { message, lastError } = record
  const payload = JSON.parse(Buffer.from(message.data).toString()) as { password?: string }
  const data = new TextEncoder().encode(JSON.stringify('password' in payload ? { ...payload, password: '***' } : payload))
  const attributes = { subject: message.attributes.subject && hide(message.attributes.subject), type: hide(message.type ?? '') }
  return { ...record, message: message.copy(data).withAttributes(attributes), lastError: lastError && hide(lastError) }
}

async function fill(store: Parameters<typeof append>[0]): Promise<void> {
  const records = ['a', 'b'].map((id) => ({
    id,
    key: 'k',
    type: `user.${secret}`,
    data: `{"password":"${secret}"}`,
    attributes: { subject: secret },
  }))
  await append(store, ...records)
  await settle(store, { result: 'parked', error: `wrong password: ${secret}`, cause: `wrong password: ${secret}` })
}

const paths = ['records', 'records/1', 'groups?by=failure', 'groups?by=type']

it('redact is applied to lists, details, groups and downloads', async () => {
  await using world = await openWorld({ redact })
  await fill(world.store)
  const [list, detail, failures, types] = await Promise.all(paths.map((path) => world.client.get(`stores/shop/${path}`)))

  expect(JSON.stringify([list, detail, failures, types].map((answer) => answer?.body))).not.toContain(secret)
  expect(list?.body as RecordPage).toMatchObject({
    records: [{ type: 'user.***', lastError: 'wrong password: ***', cause: 'wrong password: ***' }, {}],
  })
  expect(detail?.body as RecordDetail).toMatchObject({
    lastError: 'wrong password: ***',
    size: 18,
    attributes: { subject: '***', id: 'a' },
    payload: { content: '{"password":"***"}' },
    history: [{ error: 'wrong password: ***' }],
    behind: [{ messageId: 'b', type: 'user.***' }],
  })
  expect(failures?.body as RecordGroups).toMatchObject({ groups: [{ name: 'wrong password: ***', count: 2 }] })
  expect(types?.body as RecordGroups).toMatchObject({ groups: [{ name: 'user.***', count: 2 }] })
  const headers = { 'x-user': 'ann', 'x-rights': 'view payload' }
  const response = await world.dashboard.fetch(new Request('http://x/api/stores/shop/records/1/payload', { headers }))
  expect(await response.text()).toBe('{"password":"***"}')
})

it.each<[string, (record: OutboxRecord) => OutboxRecord]>([
  [
    'throws',
    () => {
      throw new Error('broken')
    },
  ],
  ['returns nothing', () => undefined as unknown as OutboxRecord],
  ['returns a promise', (async (record: OutboxRecord) => record) as unknown as (record: OutboxRecord) => OutboxRecord],
  ['returns other data', (record) => ({ ...record, message: record.message.copy('text') as never })],
  ['returns another error', (record) => ({ ...record, lastError: {} as never })],
])('a record is shown without its content if redact %s', async (_, broken) => {
  await using world = await openWorld({ redact: broken })
  await fill(world.store)
  const answers = await Promise.all(paths.map((path) => world.client.get(`stores/shop/${path}`)))

  expect(JSON.stringify(answers.map(({ body }) => body))).not.toContain(secret)
  expect(answers[0]?.body).toMatchObject({
    records: [{ id: '1', state: 'parked', destination: 'orders', lastError: 'could not be redacted' }, {}],
  })
  expect(answers[1]?.body).toMatchObject({ attributes: {}, history: [{ error: 'could not be redacted' }] })
  expect(answers[1]?.body).not.toHaveProperty('payload')
  expect(codeOf(await world.client.get('stores/shop/records/1/payload'))).toBe('409 not_redacted')
  // Once a minute, not once per record.
  expect(world.logger.at('error')).toHaveLength(1)
})

it('a payload that is shown redacted cannot be edited', async () => {
  await using world = await openWorld({ redact })
  await fill(world.store)
  await append(world.store, { id: 'c', data: '{"a":1}' })
  await settle(world.store, { result: 'parked' })
  const edit = { payload: { kind: 'json', content: '{"password":"***","fixed":true}' } }
  const rearm = (id: string) => world.client.post('stores/shop/actions', { action: 'rearm', which: { ids: [id] }, edit, reason: 'r' })

  expect(codeOf(await rearm('1'))).toBe('409 redacted')
  expect(Buffer.from((await world.store.get('1'))?.message.data ?? []).toString()).toContain(secret)
  expect((await rearm('3')).body).toMatchObject({ state: 'done', count: 1 })
})

it('an attribute that is shown redacted cannot be replaced, but removed', async () => {
  await using world = await openWorld({ redact })
  await fill(world.store)
  const rearm = (attributes: object, ids = ['1']) =>
    world.client.post('stores/shop/actions', { action: 'rearm', which: { ids }, edit: { attributes }, reason: 'r' })
  await append(world.store, { id: 'c', attributes: { subject: 'visible' } })
  await settle(world.store, { result: 'parked' })

  expect(codeOf(await rearm({ subject: '*** of Ann' }))).toBe('409 redacted')
  expect(codeOf(await rearm({ subject: 'new' }, ['3', '2']))).toBe('409 redacted')
  expect((await world.store.get('1'))?.message.attributes.subject).toBe(secret)
  expect((await rearm({ subject: 'new', priority: 3 }, ['3'])).body).toMatchObject({ state: 'done', count: 1 })
  expect((await rearm({ priority: 3 })).body).toMatchObject({ state: 'done', count: 1 })
  expect((await rearm({ subject: null }, ['2'])).body).toMatchObject({ state: 'done', count: 1 })
  const { message } = (await world.store.get('2')) ?? {}
  expect(message?.attributes).not.toHaveProperty('subject')
})

it('an attribute that is shown redacted is not replaced in the records that a filter selects, either', async () => {
  const isSecret = ({ message }: OutboxRecord) => new TextDecoder().decode(message.data).includes('private')
  await using world = await openWorld({
    redact: (record) => (isSecret(record) ? { ...record, message: record.message.withAttributes({ subject: '***' }) } : record),
  })
  await append(world.store, { id: 'a', attributes: { subject: 'visible' } })
  await append(world.store, { id: 'b', attributes: { subject: secret }, data: '{"private":true}', destination: 'mail' })
  await settle(world.store, { result: 'parked' })
  const rearm = async (filter: object, attributes: object) => {
    const action = { action: 'rearm', which: { filter }, edit: { attributes }, reason: 'r' }
    const { body } = await world.client.post<Job>('stores/shop/actions', action)
    return await vi.waitUntil(async () => {
      const job = (await world.client.get<Job>(`jobs/${body.id}`)).body
      return job.state === 'running' ? undefined : job
    })
  }

  const refused = await rearm({ destination: 'mail' }, { subject: 'new' })
  expect(refused).toMatchObject({ state: 'failed', count: 0, error: expect.stringContaining('The attribute subject of the record 2 is') })
  expect((await world.store.get('2'))?.message.attributes.subject).toBe(secret)
  expect(await rearm({ destination: 'mail' }, { priority: 3 })).toMatchObject({ state: 'done', count: 1 })
  expect(await rearm({ destination: 'orders' }, { subject: 'new' })).toMatchObject({ state: 'done', count: 1 })
  expect((await world.store.get('1'))?.message.attributes.subject).toBe('new')
})

it('redact is applied to the errors of actions, and to the audit', async () => {
  await using other = await openWorld()
  await fill(other.store)
  const shop = withFunctions(other.store, {
    async rearm(which, _edit, options) {
      return await other.store.audited({ action: 'rearm', what: JSON.stringify(which), by: options?.by }, () => {
        throw new Error(`Duplicate key: ${secret}.`)
      })
    },
  })
  await using world = await openWorld({ redact, stores: { shop } })
  const action = { action: 'rearm', which: { ids: ['1'] }, reason: 'r' }
  const { body: job } = await world.client.post('stores/shop/actions', action)
  expect(job).toMatchObject({ state: 'failed', error: 'Duplicate key: ***.' })
  expect((await world.client.get(`jobs/${job.id}`)).body).toEqual(job)
  expect(world.actions).toMatchObject([{ error: `Duplicate key: ${secret}.` }])

  await other.store.discard({ filter: { error: secret } }, 'old', { by: 'ann' })
  await other.store.pause('orders', { by: 'ann' })
  const { body } = await world.client.get<{ readonly entries: readonly AuditEntry[] }>('stores/shop/audit')
  expect(body.entries.map(({ what, error }) => [what, error])).toEqual([
    ['orders', undefined],
    ['{"error":"***"}', undefined],
    ['{"ids":["1"]}', 'Duplicate key: ***.'],
  ])
})

it('a group whose name is redacted is a filter nevertheless, as are the values of a record', async () => {
  await using world = await openWorld({ redact })
  await fill(world.store)
  await append(world.store, { id: 'c', type: 'user.other' })
  await settle(world.store, { result: 'parked', error: 'refused', cause: 'refused' })
  const referenceOf = async (by: string) =>
    (await world.client.get<RecordGroups>(`stores/shop/groups?by=${by}`)).body.groups.find(({ count }) => count === 2)?.reference ?? ''
  const listed = async (name: string, reference: string) =>
    (await world.client.get<RecordPage>(`stores/shop/records?${name}=${encodeURIComponent(reference)}`)).body.records.map(({ id }) => id)

  const [cause, type] = [await referenceOf('failure'), await referenceOf('type')]
  expect([cause, type].join()).not.toContain(secret)
  expect(await listed('cause', cause)).toEqual(['1', '2'])
  expect(await listed('type', type)).toEqual(['1', '2'])
  expect(await referenceOf('failure')).toBe(cause)
  const { references } = (await world.client.get<RecordDetail>('stores/shop/records/1')).body
  expect(references).toEqual({ messageId: 'a', orderingKey: 'k', cause, type })
  expect(await listed('cause', 'refused')).toEqual(['3'])
  for (const wrong of ['redacted:AAAA', cause.replace(/.{6}$/, 'AAAAAA')])
    expect(codeOf(await world.client.get(`stores/shop/records?cause=${encodeURIComponent(wrong)}`))).toBe('400 invalid')

  const action = { action: 'rearm', which: { filter: { cause } }, reason: 'r' }
  expect((await world.client.post('stores/shop/preview', action)).body).toEqual({ count: 2, capped: false })
  let { body: job } = await world.client.post('stores/shop/actions', action)
  while (job.state === 'running') job = (await world.client.get<Job>(`jobs/${job.id}`)).body
  expect(job).toMatchObject({ state: 'done', count: 2 })
})

it('a value that looks like a redacted one is found', async () => {
  await using world = await openWorld()
  await append(world.store, { id: 'a', type: 'redacted:x' })
  await settle(world.store, { result: 'parked' })
  const { groups } = (await world.client.get<RecordGroups>('stores/shop/groups?by=type')).body
  expect(groups).toMatchObject([{ name: 'redacted:x' }])
  const path = `stores/shop/records?type=${encodeURIComponent(groups[0]?.reference ?? '')}`
  expect((await world.client.get<RecordPage>(path)).body.records).toMatchObject([{ type: 'redacted:x' }])
})
