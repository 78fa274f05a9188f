import { silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { beforeAll, describe, expect, it } from 'vitest'
import { ackord } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { mariadbUrl, openTestStore, postgresUrl, redisUrl, type TestStore } from '../support/services.ts'

beforeAll(bundleMain)

async function fail(world: TestStore, error: string, cause: string): Promise<void> {
  const outbox = world.store.outbox({ logger: silentLogger })
  const claims = await outbox.claim({ limit: 100, lease: 30_000 })
  await outbox.settle(claims.map(({ id, token }) => ({ id, token, result: 'parked', error, cause })))
}

describe.each([
  ['SQLite', undefined, {}],
  ['PostgreSQL', postgresUrl, {}],
  ['MariaDB', mariadbUrl, {}],
  ['Redis', redisUrl, {}],
  ['Redis, with the Lua outbox', redisUrl, { outbox: 'lua' }],
] as const)('on %s', (_, url, more) => {
  it('failures groups records by their cause, and list, show, rearm and discard accept it', async () => {
    await using world = await openTestStore(url, more)
    expect((await ackord(['failures', ...world.args])).stdout).toContain('No parked or waiting record has failed.')
    await world.fill('a', 3)
    await fail(world, 'message 17 is too large', 'message N is too large')
    await world.fill('b', 1)
    await fail(world, 'connection refused', 'connection refused')
    const { last, code } = await ackord(['failures', '--json', ...world.args])
    expect(code).toBe(0)
    expect(last).toMatchObject({
      groups: [
        { name: 'message N is too large', count: 3 },
        { name: 'connection refused', count: 1 },
      ],
      complete: true,
    })
    expect((await ackord(['failures', ...world.args])).stdout).toMatch(/^ +3 .+ message N is too large$/m)
    const byDestination = await ackord(['failures', '--json', '--group-by', 'destination', '--destination', 'b', ...world.args])
    expect(byDestination.last['groups']).toMatchObject([{ name: 'b', count: 1 }])

    const tooLarge = ['--cause', 'message N is too large', ...world.args]
    const listed = await ackord(['list', '--json', ...tooLarge])
    const records = listed.last['records'] as { readonly id: string; readonly cause: string }[]
    expect(records.map(({ cause }) => cause)).toEqual(Array(3).fill('message N is too large'))
    const found = await ackord(['list', '--json', '--error', 'REFUSED', '--newer-than', '1h', ...world.args])
    expect(found.last['records']).toHaveLength(1)
    expect((await ackord(['list', '--json', '--older-than', '1h', ...world.args])).last['records']).toEqual([])
    const shown = await ackord(['show', records[0]?.id ?? '', ...world.args])
    expect(shown.stdout).toMatch(/errors, the latest first\n {2}\d{4}-\S+Z message 17 is too large\n/)
    expect((await ackord(['rearm', '--json', ...tooLarge])).last).toEqual({ rearmed: 3 })
    const discard = ['discard', '--json', '--cause', 'connection refused', '--reason', 'test', '--yes']
    expect((await ackord([...discard, ...world.args])).last).toEqual({ discarded: 1 })
  })

  it('relays says which partitions each relay owns, and show which relay owns that of a record', async () => {
    await using world = await openTestStore(url, more)
    await world.fill('orders', 1)
    const outbox = world.store.outbox({ logger: silentLogger })
    const { records } = await outbox.list({}, { limit: 1 })
    const id = records[0]?.id ?? ''
    expect((await ackord(['show', id, ...world.args])).stdout).not.toContain('partition ')
    const report = { host: 'web-1', pid: 7, uptime: 1, inFlight: 0, down: [], partitions: 255, published: 0, failed: 0, parked: 0 }
    const value = JSON.stringify({ ...report, ownedPartitions: '0-127, 128-255' })
    await outbox.notes?.put('relay', [{ name: 'r1', value }], 30_000)

    const rate = { destination: 'orders', duration: 300_000, published: 500, failed: 25, parked: 1 }
    await outbox.notes?.put('rate', [{ name: 'r1/0', value: JSON.stringify(rate) }], 300_000)

    const { stdout } = await ackord(['relays', ...world.args])
    expect(stdout).toMatch(/PARTITIONS +OWNS .*\nweb-1 .* 255 +0-127, 128-255 /)
    expect(stdout).toMatch(/\n\nDESTINATION +PUBLISHED\/MIN +FAILED\/MIN +PARKED\/MIN\norders +100 +5 +0\.2\n/)
    expect((await ackord(['relays', '--json', ...world.args])).last).toMatchObject({ relays: [{ owned_partitions: '0-127, 128-255' }] })
    const [shown, { last }] = await Promise.all([ackord(['show', id, ...world.args]), ackord(['show', id, '--json', ...world.args])])
    const hasPartitions = records[0]?.partition !== undefined
    expect(hasPartitions).toBe(world.store.kind !== 'redis')
    if (!hasPartitions) return
    expect(shown.stdout).toMatch(/^partition +\d+, owned by web-1 pid 7$/m)
    expect(last['partition']).toEqual({ number: records[0]?.partition, owner: { id: 'r1', host: 'web-1', pid: 7 } })
  })

  it('pause, resume, relays and audit: who paused a destination and why, which relay is alive, and what was done', async () => {
    await using world = await openTestStore(url, more)
    const outbox = world.store.outbox({ logger: silentLogger })
    expect((await ackord(['relays', ...world.args])).stdout).toContain('has reported in the last 30 seconds')
    const missing = await ackord(['pause', 'orders', ...world.args])
    expect(missing.code).toBe(2)
    expect(missing.stderr).toContain('--reason is missing')
    const paused = await ackord(['pause', 'orders', '--for', '1h', '--reason', 'maintenance', '--by', 'ann', ...world.args])
    expect(paused).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing is published to orders for 1 h') })

    const sent: string[] = []
    const publisher = {
      async publish(destination: string, messages: readonly unknown[]) {
        sent.push(destination)
        return messages.map(() => ({ ok: true }) as const)
      },
    }
    const relay = new Relay(outbox, { publisher, logger: silentLogger, pollInterval: 50 }).start()
    try {
      await world.fill('orders', 1)
      await world.fill('payments', 1)
      await expect.poll(() => sent, { timeout: 10_000 }).toEqual(['payments'])
      await expect.poll(async () => (await outbox.relays?.())?.length, { timeout: 10_000 }).toBe(1)
      const shown = await ackord(['relays', '--json', ...world.args])
      expect(shown.last).toMatchObject({
        relays: [{ pid: process.pid, in_flight: 0, down: [] }],
        pauses: [{ destination: 'orders', by: 'ann', reason: 'maintenance', until: expect.stringMatching(/Z$/) }],
      })
      expect((await ackord(['relays', ...world.args])).stdout).toMatch(/orders was paused by ann at .+: maintenance/)
      expect((await ackord(['resume', 'orders', '--by', 'bob', ...world.args])).stdout).toContain('publish to orders again')
      await expect.poll(() => sent, { timeout: 10_000 }).toEqual(['payments', 'orders'])
    } finally {
      await relay.stop()
    }
    expect((await ackord(['resume', 'orders', ...world.args])).code).toBe(1)
    const { stdout } = await ackord(['audit', '--json', ...world.args])
    const entries = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(entries.map(({ action, by, count }) => [action, by, count]).slice(1)).toEqual([
      ['resume', 'bob', 1],
      ['pause', 'ann', 1],
    ])
    expect((await ackord(['audit', ...world.args])).stdout).toMatch(/ann +pause +1 +orders +maintenance/)
    expect((await ackord(['audit', '--json', '--limit', '1', ...world.args])).stdout.trimEnd().split('\n')).toHaveLength(1)
  })
})
