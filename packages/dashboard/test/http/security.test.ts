import { InvalidOptionError } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { append, appendParked, codeOf, everyRight, openWorld } from '../support/world.ts'

const actionsPath = 'stores/shop/actions'
const rearm = { action: 'rearm', which: { ids: ['1'] }, reason: 'r' }

describe('a POST', () => {
  it.each<[string, Record<string, string | undefined>]>([
    ['of this origin', {}],
    ['with Sec-Fetch-Site', { 'sec-fetch-site': 'same-origin' }],
    ['of a client that is no browser', { origin: undefined }],
    ['with the default port in the host', { origin: 'http://shop.example', host: 'shop.example:80' }],
    ['behind a proxy that keeps the host', { origin: 'https://admin.example', host: 'admin.example' }],
    ['behind a proxy that replaces the host', { origin: 'https://admin.example', 'x-forwarded-host': 'proxy.example, admin.example' }],
    ['with parameters of its type', { 'content-type': 'Application/JSON; charset=utf-8' }],
  ])('%s is accepted', async (_, headers) => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'a' })
    expect((await world.client.post(actionsPath, rearm, headers)).body).toMatchObject({ count: 1 })
  })

  it.each<[string, Record<string, string | undefined>, string]>([
    ['of another origin', { origin: 'http://evil.example' }, '403 cross_origin'],
    ['of another port', { origin: 'http://dashboard.test:8080' }, '403 cross_origin'],
    ['of an opaque origin', { origin: 'null' }, '403 cross_origin'],
    ['of a file', { origin: 'file://' }, '403 cross_origin'],
    ['of another site', { 'sec-fetch-site': 'cross-site', origin: undefined }, '403 cross_origin'],
    ['of a subdomain', { 'sec-fetch-site': 'same-site' }, '403 cross_origin'],
    ['without a token', { 'x-ackord-csrf': undefined }, '403 csrf'],
    ['without a token, of a client that is no browser', { 'x-ackord-csrf': undefined, origin: undefined }, '403 csrf'],
    ['with a wrong token', { 'x-ackord-csrf': 'x'.repeat(43) }, '403 csrf'],
    ['with a token of another length', { 'x-ackord-csrf': 'é' }, '403 csrf'],
    ['of a form', { 'content-type': 'application/x-www-form-urlencoded' }, '400 invalid'],
    ['of text', { 'content-type': 'text/plain' }, '400 invalid'],
    ['without a type', { 'content-type': undefined }, '400 invalid'],
  ])('%s is refused', async (_, headers, expected) => {
    await using world = await openWorld()
    await appendParked(world.store, { id: 'a' })
    for (const path of [actionsPath, 'stores/shop/preview', 'jobs/1/stop', 'doctor', 'dead-letters/x/replay'])
      expect(codeOf(await world.client.post(path, rearm, headers))).toBe(expected)
    expect(await world.store.get('1')).toMatchObject({ state: 'parked' })
  })

  it('with the token of another user, or of another dashboard, is refused', async () => {
    await using world = await openWorld()
    await using other = await openWorld()
    const { csrf } = await world.client.session()
    expect(codeOf(await world.as('bob', everyRight).post(actionsPath, rearm, { 'x-ackord-csrf': csrf }))).toBe('403 csrf')
    expect(codeOf(await other.client.post(actionsPath, rearm, { 'x-ackord-csrf': csrf }))).toBe('403 csrf')
  })
})

describe('authorize', () => {
  const request = new Request('http://x/api/session')

  it.each([undefined, null])('refuses the request by returning %s', async (found) => {
    await using world = await openWorld({ authorize: (async () => found) as () => Promise<undefined> })
    const response = await world.dashboard.fetch(request)
    expect([response.status, await response.json()]).toMatchObject([401, { error: { code: 'unauthorized' } }])
  })

  it.each<[string, unknown]>([
    ['an unknown right', { name: 'ann', rights: ['veiw'] }],
    ['no rights', { name: 'ann' }],
    ['no name', { name: '', rights: [] }],
    ['a name that is too long', { name: 'x'.repeat(201), rights: [] }],
    ['true', true],
  ])('that returns %s is an error of the application', async (_, found) => {
    await using world = await openWorld({ authorize: (() => found) as () => undefined })
    const response = await world.dashboard.fetch(request)
    expect([response.status, await response.json()]).toMatchObject([500, { error: { code: 'internal' } }])
    expect(world.logger.at('error')).toMatchObject([{ fields: { err: { message: expect.stringContaining('authorize()') } } }])
  })

  it.each<[string, () => Promise<undefined>]>([
    [
      'throws',
      () => {
        throw new Error('the key of the session store is hunter2')
      },
    ],
    ['rejects', () => Promise.reject(new Error('the key of the session store is hunter2'))],
    ['rejects with an error of Ackord', () => Promise.reject(new InvalidOptionError('key', 'must not be hunter2.'))],
  ])('that %s is logged and not shown', async (_, authorize) => {
    await using world = await openWorld({ authorize })
    const response = await world.dashboard.fetch(request)
    const text = await response.text()
    expect([response.status, text.includes('hunter2')]).toEqual([500, false])
    expect(world.logger.at('error')).toMatchObject([{ fields: { err: { message: expect.stringContaining('hunter2') } } }])
  })

  it('is called for every route of the API, also for those that do not exist', async () => {
    await using world = await openWorld({ authorize: () => undefined })
    for (const path of ['session', 'events', 'stores/shop/records', 'nothing'])
      expect((await world.dashboard.fetch(new Request(`http://x/api/${path}`))).status).toBe(401)
    expect((await world.dashboard.fetch(new Request('http://x/api/doctor', { method: 'POST' }))).status).toBe(401)
  })
})

describe('routes', () => {
  it.each([
    '',
    'nothing',
    'stores',
    'stores/shop',
    'stores/shop/records/',
    'stores//records',
    'session/',
    'stores/shop/records/1/payload/x',
  ])('"%s" does not exist', async (path) => {
    await using world = await openWorld()
    expect(codeOf(await world.client.get(path))).toBe('404 not_found')
  })

  it.each([
    ['POST', 'session', 'GET'],
    ['HEAD', 'events', 'GET'],
    ['GET', actionsPath, 'POST'],
    ['DELETE', 'stores/shop/records/1', 'GET'],
    ['OPTIONS', 'doctor', 'POST'],
  ])('do not accept another method: %s %s', async (method, path, allow) => {
    await using world = await openWorld()
    const headers = { 'x-user': 'ann', 'x-rights': 'view' }
    const response = await world.dashboard.fetch(new Request(`http://x/api/${path}`, { method, headers }))
    expect([response.status, response.headers.get('allow')]).toEqual([405, allow])
  })
})

it('an error of a store is logged, and its text is not shown', async () => {
  const failing = { list: () => Promise.reject(new Error('password authentication failed for user hunter2')) }
  await using world = await openWorld()
  await using other = await openWorld({ stores: { shop: Object.assign(Object.create(world.store), failing) } })
  const answer = await other.client.get('stores/shop/records')

  expect(codeOf(answer)).toBe('500 internal')
  expect(JSON.stringify(answer.body)).not.toContain('hunter2')
  expect(other.logger.at('error')).toMatchObject([{ fields: { path: 'api/stores/shop/records', method: 'GET' } }])
})

it('every response has the security headers', async () => {
  await using world = await openWorld({ basePath: '/ackord' })
  await append(world.store, { id: 'a' })
  const headers = { 'x-user': 'ann', 'x-rights': everyRight.join(' ') }
  const paths = ['session', 'overview', 'events', 'nothing', 'stores/shop/records/1/payload', 'stores/shop/records?limit=0']
  const urls = [...paths.map((path) => `http://x/ackord/api/${path}`), 'http://x/ackord', 'http://x/ackord/', 'http://x/other']
  for (const url of urls) {
    const response = await world.dashboard.fetch(new Request(url, { headers }))
    expect(Object.fromEntries(response.headers), url).toMatchObject({
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'cache-control': expect.stringContaining('no-store'),
    })
    await response.body?.cancel()
  }
})
