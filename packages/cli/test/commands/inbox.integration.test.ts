import { join } from 'node:path'
import { Message, rootContext } from '@ackord/core'
import { beforeAll, describe, expect, it } from 'vitest'
import { Ackord, ackord, emptyDirectory } from '../support/ackord.ts'
import { bundleMain, main } from '../support/bundle-main.ts'
import { mariadbUrl, openTestStore, postgresUrl, redisUrl, type TestStore } from '../support/services.ts'

beforeAll(bundleMain)

/** Delivers a message to a consumer, and resolves to the number of calls of its handler. */
async function handle({ store }: TestStore, consumer: string, id: string, source = '/shop'): Promise<number> {
  let calls = 0
  const message = new Message({}, { id, type: 'order.place', source, specversion: '1.0' })
  const process = store.transactional({ consumer, destination: 'events' })(async () => {
    calls += 1
    return []
  })
  await process(message, message.context(rootContext()))
  return calls
}

function inbox(world: TestStore, command: string, ...args: readonly string[]) {
  return ackord(['inbox', command, '--json', ...world.args, ...args])
}

describe.each([
  ['SQLite', undefined],
  ['PostgreSQL', postgresUrl],
  ['MariaDB', mariadbUrl],
  ['Redis', redisUrl],
] as const)('inbox on %s', (name, url) => {
  const known = ['--consumer', 'orders', '--source', '/shop']

  it('show says whether a message was handled, and by which consumer', async () => {
    await using world = await openTestStore(url)
    await handle(world, 'orders', 'm1')
    const shown = await inbox(world, 'show', 'm1', ...known)
    expect(shown.code).toBe(0)
    expect(shown.last).toMatchObject({ id: 'm1', handled: true, entries: [{ consumer: 'orders', source: '/shop', state: 'handled' }] })
    const [entry] = shown.last['entries'] as { handled_at?: string; remembered_until?: string }[]
    const instant = name === 'Redis' ? entry?.remembered_until : entry?.handled_at
    expect(Math.abs(Date.parse(instant ?? '') - Date.now())).toBeLessThan(25 * 3_600_000)
    const people = await ackord(['inbox', 'show', 'm1', ...world.args, ...known])
    expect(people.stdout).toMatch(/CONSUMER +SOURCE +STATE/)
    expect(people.stdout).toMatch(/orders +\/shop +handled/)
  })

  it('show ends with exit code 1 if there is no entry, and still prints its JSON', async () => {
    await using world = await openTestStore(url)
    await handle(world, 'orders', 'm1')
    const shown = await inbox(world, 'show', 'm2', ...known)
    expect({ code: shown.code, last: shown.last, stderr: shown.stderr }).toEqual({
      code: 1,
      last: { id: 'm2', handled: false, entries: [] },
      stderr: '',
    })
    const people = await ackord(['inbox', 'show', 'm2', ...world.args, ...known])
    expect(people).toMatchObject({ code: 1, stdout: expect.stringContaining("has handled 'm2'"), stderr: '' })
  })

  it('show finds a message without a source', async () => {
    await using world = await openTestStore(url)
    await handle(world, 'orders', 'm1', '')
    await handle(world, 'orders', 'm1', '/shop')
    const shown = await inbox(world, 'show', 'm1', '--consumer', 'orders', '--source', '')
    expect(shown).toMatchObject({ code: 0, last: { entries: [{ consumer: 'orders', source: '' }] } })
  })

  it('forget makes one consumer handle the message again, after a confirmation', async () => {
    await using world = await openTestStore(url)
    await handle(world, 'orders', 'm1')
    await handle(world, 'billing', 'm1')
    expect(await inbox(world, 'forget', 'm1', ...known)).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
    expect(await handle(world, 'orders', 'm1')).toBe(0)
    expect(await inbox(world, 'forget', 'm1', ...known, '--yes')).toMatchObject({ code: 0, last: { forgotten: 1 } })
    expect(await handle(world, 'billing', 'm1')).toBe(0)
    expect(await handle(world, 'orders', 'm1')).toBe(1)
    expect(await inbox(world, 'forget', 'm9', ...known, '--yes')).toMatchObject({ code: 1, last: { forgotten: 0 } })
    expect(await inbox(world, 'forget', 'm1', '--yes')).toMatchObject({ code: 2, stderr: expect.stringContaining('--consumer is missing') })
  })

  it(name === 'Redis' ? 'show requires the consumer and the source' : 'show finds every consumer and source of an id', async () => {
    await using world = await openTestStore(url)
    await handle(world, 'orders', 'm1')
    await handle(world, 'billing', 'm1', '/branch')
    const shown = await inbox(world, 'show', 'm1')
    if (name === 'Redis') expect(shown).toMatchObject({ code: 2, stderr: expect.stringContaining('--consumer is missing') })
    else expect(shown.last['entries']).toMatchObject([{ consumer: 'billing', source: '/branch' }, { consumer: 'orders' }])
  })
})

describe('inbox show: until when a message is remembered', () => {
  const minute = 60_000

  it.each([
    ['SQLite', undefined],
    ['PostgreSQL', postgresUrl],
    ['MariaDB', mariadbUrl],
  ] as const)('on %s it is the window of the cleanup after the message was handled, if the window is passed', async (_, url) => {
    await using world = await openTestStore(url)
    await handle(world, 'orders', 'm1')
    const entryWith = async (...args: readonly string[]) => {
      const [entry] = (await inbox(world, 'show', 'm1', ...args)).last['entries'] as Record<string, string | number>[]
      return entry ?? {}
    }
    const without = await entryWith()
    expect(without).not.toHaveProperty('remembered_until')
    expect(without['age_ms']).toBeLessThan(minute)
    const { handled_at: handledAt = '', remembered_until: until = '' } = await entryWith('--inbox-window', '7d')
    expect(Date.parse(String(until)) - Date.parse(String(handledAt))).toBe(7 * 24 * 60 * minute)
  })

  it('is said to people, with the age of the entry if the window is not known', async () => {
    await using world = await openTestStore(postgresUrl)
    const { store, args } = world
    await handle(world, 'orders', 'm1')
    if (store.kind === 'redis') throw new Error('It is PostgreSQL.')
    await store.define(`UPDATE ${store.table('inbox')} SET received_at = now() - interval '3 days 4 hours'`)
    const show = async (...more: readonly string[]) => (await ackord(['inbox', 'show', 'm1', ...args, ...more])).stdout
    const shown = await show()
    expect(shown).toMatch(/HANDLED +AGE +REMEMBERED UNTIL\n/)
    expect(shown).toMatch(/handled +\d{4}-\S+:\d\dZ +3 d 4 h +a cleanup\n\nA cleanup deletes an entry when its age exceeds the window\./)
    expect(await show('--inbox-window', '30d')).toMatch(/3 d 4 h +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$/)
    expect(await show('--inbox-window', '3d')).toMatch(/3 d 4 h +the next cleanup\n$/)
    // As the table says: this cleanup keeps the entry, and the other one deletes it.
    for (const [window, code] of [
      ['4d', 0],
      ['3d', 1],
    ] as const) {
      expect((await ackord(['cleanup', '--inbox-window', window, ...args])).code).toBe(0)
      expect((await inbox(world, 'show', 'm1')).code).toBe(code)
    }
  })

  it('is the instant at which the marker expires, on Redis', async () => {
    await using world = await openTestStore(redisUrl)
    await handle(world, 'orders', 'm1')
    const { stdout } = await ackord(['inbox', 'show', 'm1', '--consumer', 'orders', '--source', '/shop', ...world.args])
    const [, until = ''] = /handled +unknown +(\S+Z)\n/.exec(stdout) ?? []
    expect(Date.parse(until) - Date.now()).toBeGreaterThan(23 * 60 * minute)
  })

  it('is the command that deletes it, for a marker on Redis that does not expire', async () => {
    await using world = await openTestStore(redisUrl)
    const { store, args } = world
    await handle(world, 'orders', 'm1')
    if (store.kind !== 'redis') throw new Error('It is Redis.')
    for (const key of (await store.send('KEYS', `*${store.tag}*`)) as string[]) await store.send('PERSIST', key)
    const { stdout } = await ackord(['inbox', 'show', 'm1', '--consumer', 'orders', '--source', '/shop', ...args])
    expect(stdout).toMatch(/handled +unknown +`ackord inbox forget`\n/)
  })
})

describe('inbox show of a message that is being handled', () => {
  it('says that it is in progress, and until when the lease lasts', async () => {
    await using world = await openTestStore(redisUrl)
    const message = new Message({}, { id: 'm1', type: 'order.place', source: '/shop', specversion: '1.0' })
    const which = ['m1', '--consumer', 'orders', '--source', '/shop', ...world.args]
    const shown: string[] = []
    const process = world.store.transactional({ consumer: 'orders', destination: 'events' })(async () => {
      const { code, stdout } = await ackord(['inbox', 'show', ...which])
      shown.push(`${code} ${stdout}`)
      return []
    })
    await process(message, message.context(rootContext()))
    expect(shown.join()).toMatch(/^0 [\s\S]*orders +\/shop +in progress +not yet +\S+Z \(lease\)\n$/)
  })
})

describe('inbox forget on a terminal', () => {
  it.each([
    ['n', 1, 0],
    ['y', 0, 1],
  ])('asks, and answers %s with exit code %i', async (answer, code, callsAfter) => {
    await using world = await openTestStore(postgresUrl)
    await handle(world, 'orders', 'm1')
    const command = [process.execPath, main, 'inbox', 'forget', 'm1', '--consumer', 'orders', ...world.args].map((word) => `'${word}'`)
    // A pseudo-terminal: text written to its stdin counts as typed.
    const typed = new Ackord(['script', '-qec', command.join(' '), join(emptyDirectory(), 'typescript')], { stdin: 'pipe' })
    await typed.said('[y/N]')
    typed.child.stdin?.write(`${answer}\n`)
    expect((await typed.ended).code).toBe(code)
    expect(typed.stdout).toContain('handled again')
    expect(await handle(world, 'orders', 'm1')).toBe(callsAfter)
  })
})
