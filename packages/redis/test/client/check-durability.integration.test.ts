import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { checkDurability, type DurabilityReport } from '../../src/check-durability.ts'
import { redisKinds } from '../support/redis-clients.ts'

const singles = redisKinds.filter(({ cluster }) => !cluster)
const clusters = redisKinds.filter(({ cluster }) => cluster)

function states(report: DurabilityReport): Record<string, string> {
  return Object.fromEntries(report.checks.map(({ name, state }) => [name, state]))
}

describe.each(singles)('checkDurability() on $name [B18]', (kind) => {
  it('reports which settings are right and wrong, and what to set', async () => {
    await using server = await startRedis({ args: ['--appendfsync', 'always', '--maxmemory-policy', 'noeviction'] })
    await using client = await kind.open({ url: server.url })
    expect(states(await checkDurability(client.redis))).toEqual({
      appendonly: 'ok',
      appendfsync: 'ok',
      'maxmemory-policy': 'ok',
      replicas: 'violated',
    })

    await client.command('CONFIG', 'SET', 'appendonly', 'no')
    await client.command('CONFIG', 'SET', 'appendfsync', 'everysec')
    await client.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
    const report = await checkDurability(client.redis)
    expect(report.state).toBe('violated')
    expect(states(report)).toEqual({
      appendonly: 'violated',
      appendfsync: 'violated',
      'maxmemory-policy': 'violated',
      replicas: 'violated',
    })
    const texts = report.checks.map(({ text }) => text).join('\n')
    expect(texts).toContain('Set appendonly yes')
    expect(texts).toContain('Set appendfsync always')
    expect(texts).toContain('inbox markers')
    expect(texts).toContain('min-replicas-to-write 1')
    await client.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    expect((await checkDurability(client.redis)).checks[2]?.text).toContain('streams')
  })

  it('does not report ok if writes are not synced while the file is rewritten', async () => {
    await using server = await startRedis({ args: ['--appendfsync', 'always', '--no-appendfsync-on-rewrite', 'yes'] })
    await using client = await kind.open({ url: server.url })
    const check = (await checkDurability(client.redis)).checks.find(({ name }) => name === 'appendfsync')
    expect(check).toMatchObject({ state: 'violated', text: expect.stringContaining('Set no-appendfsync-on-rewrite no') })
    await client.command('CONFIG', 'SET', 'no-appendfsync-on-rewrite', 'no')
    expect(states(await checkDurability(client.redis))['appendfsync']).toBe('ok')
  })

  it('reports unknown, not ok, for settings that the user may not read', async () => {
    await using server = await startRedis()
    await using admin = await kind.open({ url: server.url })
    await admin.command('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all', '-config', '-info')
    await admin.command('ACL', 'SETUSER', 'app', '+info')
    const url = server.url.replace('redis://', 'redis://app:secret@')
    await using client = await kind.open({ url })
    expect(states(await checkDurability(client.redis))).toEqual({
      appendonly: 'ok',
      appendfsync: 'unknown',
      'maxmemory-policy': 'ok',
      replicas: 'violated',
    })

    await admin.command('ACL', 'SETUSER', 'app', '-info')
    const report = await checkDurability(client.redis)
    expect(report.state).toBe('unknown')
    expect(Object.values(states(report))).toEqual(['unknown', 'unknown', 'unknown', 'unknown'])
    expect(report.checks[0]?.text).toContain('does not reveal')
  })
})

describe('checkDurability() with replicas', () => {
  it('requires min-replicas-to-write, and distinguishes a replica from a master', async () => {
    await using master = await startRedis({ args: ['--appendfsync', 'always', '--repl-diskless-sync-delay', '0'] })
    await using replica = await startRedis()
    const [kind] = singles
    if (kind === undefined) throw new Error('There is no client.')
    await using client = await kind.open({ url: master.url })
    await using other = await kind.open({ url: replica.url })
    await other.command('REPLICAOF', '127.0.0.1', String(master.port))
    while (!String(await client.command('INFO', 'replication')).includes('state=online')) await new Promise(setImmediate)

    const found = async () => (await checkDurability(client.redis)).checks.find(({ name }) => name === 'replicas')
    expect(await found()).toMatchObject({ state: 'violated', text: expect.stringContaining('Set min-replicas-to-write 1') })
    await client.command('CONFIG', 'SET', 'min-replicas-to-write', '1')
    expect(await found()).toMatchObject({ state: 'ok' })
    expect((await checkDurability(client.redis)).state).toBe('ok')
    const onReplica = (await checkDurability(other.redis)).checks.find(({ name }) => name === 'replicas')
    expect(onReplica).toMatchObject({ state: 'violated', text: expect.stringContaining('The server is a replica') })
  })
})

describe.each(clusters)('checkDurability() on $name [B18]', (kind) => {
  it('checks every master', async () => {
    await using client = await kind.open()
    const report = await checkDurability(client.redis)
    const servers = new Set(report.checks.map(({ server }) => server))
    expect(servers.delete('one of the nodes')).toBe(true)
    expect(servers.size).toBe(3)
    for (const server of servers) {
      const checks = report.checks.filter((check) => check.server === server)
      expect(checks.find(({ name }) => name === 'appendonly')).toMatchObject({ state: 'ok' })
      expect(checks.find(({ name }) => name === 'maxmemory-policy')).toMatchObject({ state: 'ok' })
      expect(checks.find(({ name }) => name === 'replicas')).toMatchObject({ state: 'violated' })
      // A client does not report which node answered a command without a key.
      expect(checks.find(({ name }) => name === 'appendfsync')).toMatchObject({ state: 'unknown' })
    }
    expect(report.checks.at(-1)).toMatchObject({ server: 'one of the nodes', name: 'appendfsync', state: 'violated' })
    expect(report.state).toBe('violated')
  })
})
