import type { OutboxRecord } from '@ackord/outbox'
import { expect, it } from 'vitest'
import type { OutboxGroups, RecordDetail, RecordPage } from '../../src/api/types.ts'
import { append, codeOf, openWorld, settle } from '../support/world.ts'

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
    records: [{ type: 'user.***', lastError: 'wrong password: ***', cause: 'wrong password: ***', size: 18 }, {}],
  })
  expect(detail?.body as RecordDetail).toMatchObject({
    lastError: 'wrong password: ***',
    attributes: { subject: '***', id: 'a' },
    payload: { content: '{"password":"***"}' },
    history: [{ error: 'wrong password: ***' }],
    behind: [{ messageId: 'b', type: 'user.***' }],
  })
  expect(failures?.body as OutboxGroups).toMatchObject({ groups: [{ name: 'wrong password: ***', count: 2 }] })
  expect(types?.body as OutboxGroups).toMatchObject({ groups: [{ name: 'user.***', count: 2 }] })
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
