import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
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

/** The status of a request whose `Host` header has this name, as after DNS rebinding; fetch() does not send one. */
async function statusUnder(host: string, url: string): Promise<number | undefined> {
  const [response] = (await once(get(url, { headers: { host } }), 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}

describe('ackord dashboard', () => {
  it('serves a store on the loopback to a browser with the token that it prints, once', async () => {
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
      checks: expect.arrayContaining([expect.objectContaining({ of: 'store', store: 'orders', title: 'connection', result: 'ok' })]),
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
    const command = start(['dashboard', ...store.args, '--host', '0.0.0.0', '--port', '0', '--token', 'a-secret-of-ours', '--read-only'])
    await command.said('Ctrl-C ends it.')
    const { base } = addressIn(command.stdout)
    const headers = { authorization: 'Bearer a-secret-of-ours' }
    expect(await (await fetch(`${base}/api/session`, { headers })).json()).toMatchObject({ stores: ['redis'], readOnly: true })
    expect((await fetch(`${base}/api/session`, { headers: { authorization: 'Bearer secret' } })).status).toBe(401)
    command.child.kill('SIGTERM')
    await command.ended
  })

  it('serves a Redis Cluster, whose URL has commas, beside another store', async () => {
    const stores = ['--store', `carts=${clusterUrl}`, '--store', redisUrl]
    const command = start(['dashboard', ...stores, '--port', '0', '--token', 'a-secret-of-ours'])
    await command.said('Ctrl-C ends it.')
    const { base } = addressIn(command.stdout)
    const session = await fetch(`${base}/api/session`, { headers: { authorization: 'Bearer a-secret-of-ours' } })
    expect(await session.json()).toMatchObject({ stores: ['carts', 'redis'] })
    command.child.kill('SIGINT')
    expect((await command.ended).code).toBe(0)
  })

  it('answers only under a name of the loopback when it has no token of its own', async () => {
    await using store = await openTestStore(redisUrl)
    const command = start(['dashboard', ...store.args, '--port', '0'])
    await command.said('Ctrl-C ends it.')
    const { base, withToken } = addressIn(command.stdout)
    const { port } = new URL(base)
    expect(await statusUnder('shop.example', withToken)).toBe(403)
    expect(await statusUnder(`shop.example:${port}`, withToken)).toBe(403)
    expect(await statusUnder(`localhost:${port}`, `${base}/api/session`)).toBe(401)
    const first = await fetch(withToken.replace('/?', '//shop.example/?'), { redirect: 'manual' })
    expect([first.status, first.headers.get('location')]).toEqual([303, '/shop.example/'])
    expect(first.headers.get('set-cookie')).toContain(`ackord-dashboard-${port}=`)
    command.child.kill('SIGTERM')
    await command.ended
  })

  it('names the user for the audit: with --by, or as a proxy names it', async () => {
    await using store = await openTestStore(redisUrl)
    const token = ['--port', '0', '--token', 'a-secret-of-ours']
    const authorization = 'Bearer a-secret-of-ours'
    const named = start(['dashboard', ...store.args, ...token, '--by', 'ann'])
    await named.said('Ctrl-C ends it.')
    const own = await fetch(`${addressIn(named.stdout).base}/api/session`, { headers: { authorization } })
    expect(await own.json()).toMatchObject({ name: 'ann' })
    named.child.kill('SIGTERM')
    await named.ended

    const proxied = start(['dashboard', ...store.args, ...token, '--user-header', 'X-Forwarded-User'])
    await proxied.said('Ctrl-C ends it.')
    const session = (headers: Record<string, string>) => fetch(`${addressIn(proxied.stdout).base}/api/session`, { headers })
    expect(await (await session({ authorization, 'x-forwarded-user': 'bob' })).json()).toMatchObject({ name: 'bob' })
    expect((await session({ authorization })).status).toBe(401)
    expect((await session({ 'x-forwarded-user': 'bob' })).status).toBe(401)
    proxied.child.kill('SIGTERM')
    await proxied.ended
  })

  it('rejects a token that is short, and a header of users without a token', async () => {
    const short = await ackord(['dashboard', '--store', redisUrl, '--token', 'short'])
    expect([short.code, short.stderr]).toEqual([2, expect.stringContaining('at least 16 characters')])
    const alone = await ackord(['dashboard', '--store', redisUrl, '--user-header', 'X-Forwarded-User'])
    expect([alone.code, alone.stderr]).toEqual([2, expect.stringContaining('--user-header requires --token')])
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
