import { readFileSync } from 'node:fs'
import { MemoryOutboxStore } from '@ackord/outbox'
import { expect, it } from 'vitest'
import { allowEverybody, createDashboard, type DashboardOptions } from '../src/index.ts'
import { version } from '../src/version.ts'

const stores = { shop: new MemoryOutboxStore() }
const authorize = allowEverybody()

it.each([
  ['stores', { stores: undefined, authorize }],
  ['stores', { stores: [], authorize }],
  ['stores.shop', { stores: { shop: {} }, authorize }],
  ['stores.shop', { stores: { shop: null }, authorize }],
  ['a name in stores', { stores: { '': stores.shop }, authorize }],
  ['inboxes.shop', { stores, authorize, inboxes: { shop: {} } }],
  ['deadLetters.shop', { stores, authorize, deadLetters: { shop: { list() {} } } }],
  ['doctor', { stores, authorize, doctor: [] }],
  ['authorize', { stores }],
  ['authorize', { stores, authorize: true }],
  ['readOnly', { stores, authorize, readOnly: 'yes' }],
  ['redact', { stores, authorize, redact: [] }],
  ['onAction', { stores, authorize, onAction: 'log' }],
  ['traceUrl', { stores, authorize, traceUrl: 'https://traces.example/' }],
  ['traceUrl', { stores, authorize, traceUrl: 'javascript:alert("{traceId}")' }],
  ['basePath', { stores, authorize, basePath: 'ackord' }],
  ['basePath', { stores, authorize, basePath: '/ackord?a' }],
  ['basePath', { stores, authorize, basePath: '//evil.example' }],
  ['logger', { stores, authorize, logger: {} }],
  ['relay', { stores, authorize, relay: 1 }],
])('refuses a wrong %s: %o', (name, wrong) => {
  expect(() => createDashboard(wrong as unknown as DashboardOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it('names allowEverybody() if authorize is missing, and refuses all requests without it', async () => {
  expect(() => createDashboard({ stores } as unknown as DashboardOptions)).toThrow('allowEverybody()')
  await using dashboard = createDashboard({ stores, authorize: () => undefined })
  expect((await dashboard.fetch(new Request('http://x/api/session'))).status).toBe(401)
})

it('allowEverybody() gives all rights', async () => {
  await using dashboard = createDashboard({ stores, authorize, traceUrl: 'https://traces.example/{traceId}' })
  expect(await (await dashboard.fetch(new Request('http://x/api/session'))).json()).toMatchObject({
    name: 'everybody',
    rights: ['view', 'payload', 'rearm', 'edit', 'discard', 'pause'],
    readOnly: false,
    stores: ['shop'],
    inboxes: [],
    deadLetters: [],
    doctor: false,
    traceUrl: 'https://traces.example/{traceId}',
    version,
  })
})

it('has the version of the package', () => {
  expect(version).toBe(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
})
