import { beforeAll, describe, expect, it } from 'vitest'
import { ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { clusterUrl, openTestStore, postgresUrl, redisUrl } from '../support/services.ts'

beforeAll(bundleMain)

/** The address that the command has printed, without and with its token. */
function addressIn(text: string): { readonly base: string; readonly withToken: string } {
  const [withToken = '', base = ''] = /(http:\/\/[\d.:]+)\/\?token=\S+/.exec(text) ?? []
  return { base, withToken }
}

describe('ackord dashboard', () => {
  it('serves a store on the loopback, to whoever has the token that it prints, once', async () => {
    await using orders = await openTestStore(postgresUrl)
    await orders.fill('order-events', 3)
    const [, prefix = ''] = orders.args.slice(2)
    const command = start(['dashboard', '--store', `orders=${postgresUrl}`, '--prefix', prefix, '--port', '0'])
    await command.said('The dashboard is at ')
    await command.said('Ctrl-C ends it.')
    const { base, withToken } = addressIn(command.stdout)
    expect((await fetch(`${base}/api/session`)).status).toBe(401)
    expect((await fetch(`${base}/?token=wrong`)).status).toBe(401)

    const first = await fetch(withToken, { redirect: 'manual' })
    expect([first.status, first.headers.get('location')]).toEqual([303, '/'])
    const cookie = first.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Path=\/$/)
    expect((await fetch(withToken, { redirect: 'manual' })).status).toBe(401)

    const headers = { cookie: cookie.split(';')[0] ?? '' }
    const session = (await (await fetch(`${base}/api/session`, { headers })).json()) as { readonly stores: string[]; readonly csrf: string }
    expect(session.stores).toEqual(['orders'])
    const overview = await (await fetch(`${base}/api/overview`, { headers })).json()
    expect(overview).toMatchObject({ stores: [{ store: 'orders', destinations: [{ destination: 'order-events', ready: 3 }] }] })
    const page = await fetch(`${base}/`, { headers })
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const doctor = await fetch(`${base}/api/doctor`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'x-ackord-csrf': session.csrf, origin: base },
      body: '{}',
    })
    expect(await doctor.json()).toMatchObject({
      checks: expect.arrayContaining([expect.objectContaining({ store: 'orders', result: 'ok' })]),
    })

    command.child.kill('SIGINT')
    expect((await command.ended).code).toBe(0)
  })

  it('accepts a token of its own on any address, and refuses another address without one', async () => {
    await using store = await openTestStore(redisUrl)
    const refused = await ackord(['dashboard', ...store.args, '--host', '0.0.0.0'])
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('Add --token')
    expect((await ackord(['dashboard', ...store.args, '--host', '127.example.com'])).stderr).toContain('Add --token')
    const command = start(['dashboard', ...store.args, '--host', '0.0.0.0', '--port', '0', '--token', 'secret-of-ours', '--read-only'])
    await command.said('Ctrl-C ends it.')
    const { base } = addressIn(command.stdout)
    const headers = { authorization: 'Bearer secret-of-ours' }
    expect(await (await fetch(`${base}/api/session`, { headers })).json()).toMatchObject({ stores: ['redis'], readOnly: true })
    expect((await fetch(`${base}/api/session`, { headers: { authorization: 'Bearer secret' } })).status).toBe(401)
    command.child.kill('SIGTERM')
    await command.ended
  })

  it('serves a Redis Cluster, whose URL has commas, beside another store', async () => {
    const stores = ['--store', `carts=${clusterUrl}`, '--store', redisUrl]
    const command = start(['dashboard', ...stores, '--port', '0', '--token', 'secret-of-ours'])
    await command.said('Ctrl-C ends it.')
    const { base } = addressIn(command.stdout)
    const session = await fetch(`${base}/api/session`, { headers: { authorization: 'Bearer secret-of-ours' } })
    expect(await session.json()).toMatchObject({ stores: ['carts', 'redis'] })
    command.child.kill('SIGINT')
    expect((await command.ended).code).toBe(0)
  })

  it('rejects stores without a URL, and two with one name', async () => {
    expect((await ackord(['dashboard'])).stderr).toContain('--store is missing')
    const twice = await ackord(['dashboard', '--store', `a=${redisUrl}`, '--store', `a=${redisUrl}`])
    expect(twice.stderr).toContain("two stores with the name 'a'")
  })
})

describe('ackord demo --dashboard', () => {
  it('shows the demo while it runs, and removes its data when it is ended', async () => {
    const command = start(['demo', '--orders', '30', '--dashboard', '--store', redisUrl])
    await command.said('The dashboard is at ')
    const { base, withToken } = addressIn(command.stdout)
    const first = await fetch(withToken, { redirect: 'manual' })
    const headers = { cookie: (first.headers.get('set-cookie') ?? '').split(';')[0] ?? '' }
    await command.said('The dashboard stays until Ctrl-C')
    const overview = (await (await fetch(`${base}/api/overview`, { headers })).json()) as { readonly stores: { readonly error?: string }[] }
    expect(overview.stores).toMatchObject([{ store: 'demo' }])
    expect(overview.stores[0]?.error).toBeUndefined()
    command.child.kill('SIGINT')
    expect((await command.ended).code).toBe(0)
  })
})
