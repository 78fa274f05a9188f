import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { splitUrls } from '../servers/address.mjs'
import { freePort } from '../servers/free-port.mjs'
import { kinds } from '../servers/kind.mjs'
import { queryPostgres } from '../servers/postgres-protocol.mjs'
import { askRedis } from '../servers/redis-protocol.mjs'
import { waitUntil } from '../servers/wait-until.mjs'
import { openWorld } from './services-world.ts'

const cluster = ['--only', 'redis-cluster']
/** A command that prints `ready` and keeps running. */
const waiting = ['--', process.execPath, '-e', 'console.log("ready"); setInterval(() => {}, 1e6)']
const noCluster = { REDIS_CLUSTER_URLS: '' }

function given(variable: string): string {
  const url = process.env[variable]
  if (url === undefined || url === '') throw new Error(`${variable} is not set: run the tests through scripts/services`)
  return url
}

describe('the servers behind the variables', () => {
  it.each(kinds.map((kind) => [kind.variable, kind.probe] as const))('%s names one', async (variable, probe) => {
    for (const url of splitUrls(given(variable))) await probe(url)
  })

  it('PostgreSQL answers a query', async () => {
    expect(await queryPostgres(given('POSTGRES_URL'), "select 1, 'one', null")).toEqual([['1', 'one', null]])
  })

  it('Redis returns the value that was set', async () => {
    const key = `services-test:${randomUUID()}`
    const replies = await askRedis(given('REDIS_URL'), ['SET', key, 'välue'], ['GET', key], ['DEL', key], ['GET', key])
    expect(replies).toEqual(['OK', 'välue', 1, null])
  })

  it('each node of the Redis Cluster keeps its share of the keys and points to the others for the rest', async () => {
    const urls = splitUrls(given('REDIS_CLUSTER_URLS'))
    expect(urls.length).toBeGreaterThanOrEqual(3)
    const owners = new Set<string>()
    for (let attempt = 0; attempt < 100 && owners.size < 3; attempt++) {
      const key = `services-test:${randomUUID()}`
      const answers = await Promise.allSettled(urls.map((url) => askRedis(url, ['SET', key, 'x', 'PX', 1000])))
      const owner = urls[answers.findIndex(({ status }) => status === 'fulfilled')]
      expect(owner).toBeDefined()
      owners.add(owner ?? '')
      const moved = answers.flatMap((answer) => (answer.status === 'rejected' ? [String(answer.reason)] : []))
      for (const reason of moved) expect(reason).toMatch(/MOVED \d+ /)
    }
    expect(owners.size).toBe(3)
  })
})

describe('scripts/services', { timeout: 30_000 }, () => {
  it('says in one line which variable and which address do not answer, and starts nothing', async () => {
    await using world = openWorld()
    const port = await freePort()
    const run = world.run(['run', '--only', 'redis,redis-cluster', '--', 'echo', 'never'], {
      ...noCluster,
      REDIS_URL: `redis://:secret@127.0.0.1:${port}`,
    })
    const { code, stdout, stderr } = await run.ended
    expect(stderr.trimEnd().split('\n')).toEqual([expect.stringContaining('REDIS_URL')])
    expect(stderr).toContain(`127.0.0.1:${port}`)
    expect(stderr).not.toContain('secret')
    expect({ code, stdout, leftovers: world.leftovers() }).toEqual({ code: 1, stdout: '', leftovers: [] })
  })

  it('does not take a server that speaks another protocol', async () => {
    await using world = openWorld()
    const { code, stdout } = await world.run(['check', '--only', 'redis'], { REDIS_URL: given('NATS_URL') }).ended
    expect(stdout).toMatch(/^redis +missing: REDIS_URL points at .* it does not speak the protocol of Redis\n$/)
    expect(code).toBe(1)
  })

  it.each([
    { command: ['sh', '-c', 'exit 7'], expected: 7 },
    { command: ['sh', '-c', 'kill -KILL $$'], expected: 137 },
    { command: ['./no-such-command'], expected: 127 },
  ])('ends with $expected after $command', async ({ command, expected }) => {
    await using world = openWorld()
    const { code } = await world.run(['run', '--only', 'redis', '--', ...command]).ended
    expect(code).toBe(expected)
  })

  it.each([
    { args: [], says: 'no command' },
    { args: ['destroy'], says: 'destroy' },
    { args: ['run', '--all', '--', 'true'], says: '--all' },
    { args: ['run', '--only', 'oracle', '--', 'true'], says: 'oracle' },
    { args: ['run', '--with', 'oracle', '--', 'true'], says: 'oracle' },
    { args: ['run', 'true'], says: 'after --' },
    { args: ['run', '--only', 'redis'], says: 'needs a command' },
  ])('refuses $args with exit code 2', async ({ args, says }) => {
    await using world = openWorld()
    const { code, stderr } = await world.run(args).ended
    expect(stderr).toContain(says)
    expect(code).toBe(2)
  })

  it('uses a server that must be downloaded only if it is named', async () => {
    await using world = openWorld()
    // Planned, but not used: nothing listens there, and no name server knows it.
    const environment = { AMQP_URL: 'amqp://rabbitmq4.invalid:1' }
    const checked = async (...args: string[]) => (await world.run(['check', ...args], environment).ended).stdout
    expect(await checked()).not.toMatch(/^rabbitmq4 /m)
    expect(await checked('--only', 'redis', '--with', 'rabbitmq4')).toMatch(/^redis .*\nrabbitmq4 +missing: AMQP_URL points at /)
    expect(await checked('--only', 'rabbitmq4')).toMatch(/^rabbitmq4 +missing: AMQP_URL points at /)
  })

  it('passes the URLs of the servers to the command and stops them after it', async () => {
    await using world = openWorld()
    const script = 'console.log(JSON.stringify([process.env.ACKORD_SERVICES, process.env.REDIS_CLUSTER_URLS]))'
    const { code, stdout } = await world.run(['run', ...cluster, '--', process.execPath, '-e', script], noCluster).ended
    expect(code).toBe(0)
    const [flag, urls] = JSON.parse(stdout)
    expect(flag).toBe('1')
    expect(splitUrls(urls)).toHaveLength(3)
    expect(world.leftovers()).toEqual([])
    for (const url of splitUrls(urls)) await expect(askRedis(url, ['PING'])).rejects.toThrow('ECONNREFUSED')
  })

  it('stops the servers that it started on SIGTERM, once the command has ended', async () => {
    await using world = openWorld()
    const run = world.run(['run', ...cluster, ...waiting], noCluster)
    await waitUntil('the start of the command', () => run.stdout().includes('ready'), { timeout: 20_000 })
    expect(world.leftovers()).toHaveLength(6) // three processes, three directories
    run.process.kill('SIGTERM')
    expect((await run.ended).code).toBe(143)
    expect(world.leftovers()).toEqual([])
  })

  it('stops servers that are still starting on SIGINT', async () => {
    await using world = openWorld()
    const run = world.run(['run', ...cluster, '--', 'echo', 'never'], noCluster)
    await waitUntil('the start of a server', () => world.leftovers().length > 0)
    run.process.kill('SIGINT')
    const { code, stdout } = await run.ended
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' })
    await world.empty()
  })

  it('leaves no server behind when it is killed itself', async () => {
    await using world = openWorld()
    const run = world.run(['run', ...cluster, ...waiting], noCluster)
    await waitUntil('the start of the command', () => run.stdout().includes('ready'), { timeout: 20_000 })
    run.process.kill('SIGKILL')
    await world.empty()
    await run.ended // the command held the other end of the pipe
  })

  it('keeps the servers up until Ctrl-C and prints how to reach them', async () => {
    await using world = openWorld()
    const run = world.run(['up', '--only', 'redis,redis-cluster'], noCluster)
    await waitUntil('the list of servers', () => run.stdout().includes('export REDIS_CLUSTER_URLS='), {
      timeout: 20_000,
    })
    run.process.kill('SIGINT')
    const { code, stdout } = await run.ended
    expect(stdout).toMatch(/^redis +\S+ {2}(environment|already running|started by us)$/m)
    expect(stdout).toMatch(/^redis-cluster +\S+ {2}started by us$/m)
    expect({ code, leftovers: world.leftovers() }).toEqual({ code: 0, leftovers: [] })
  })
})
