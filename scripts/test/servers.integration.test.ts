import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  startFauxqs,
  startKafkaMock,
  startMariadb,
  startMosquitto,
  startNats,
  startPgbouncer,
  startPostgres,
  startRabbitmq,
  startRedis,
  startRedisCluster,
} from '../servers/index.mjs'
import { kinds } from '../servers/kind.mjs'
import { mosquitto } from '../servers/mosquitto.mjs'
import { queryPostgres } from '../servers/postgres-protocol.mjs'
import { askRedis } from '../servers/redis-protocol.mjs'
import { openWorld, type World } from './services-world.ts'

const starts = {
  postgres: startPostgres,
  pgbouncer: startPgbouncer,
  mariadb: startMariadb,
  rabbitmq: startRabbitmq,
  nats: startNats,
  redis: startRedis,
  kafka: startKafkaMock,
  mosquitto: startMosquitto,
  sqs: startFauxqs,
}

describe('a private server', { timeout: 120_000 }, () => {
  let world: World
  beforeAll(() => {
    world = openWorld()
    vi.stubEnv('TMPDIR', world.directory)
  })
  afterAll(async () => {
    vi.unstubAllEnvs()
    await world[Symbol.asyncDispose]()
  })

  it.each(Object.entries(starts))('%s runs beside the shared one and leaves nothing', async (name, start) => {
    const kind = kinds.find((each) => each.name === name)
    expect(kind).toBeDefined()
    const server = await start()
    try {
      expect(server.port).not.toBe(kind?.defaultPort)
      await kind?.probe(server.url)
      expect(world.leftovers().length).toBeGreaterThanOrEqual(2) // a directory and a process
    } finally {
      await server.stop()
    }
    await world.empty() // helper processes of Erlang end by themselves, a moment later
    await expect(kind?.probe(server.url)).rejects.toThrow('ECONNREFUSED')
  })

  it('Redis has its data after SIGKILL and restart', async () => {
    await using server = await startRedis()
    const { url, pid } = server
    await askRedis(url, ['SET', 'kept', 'yes'])
    await server.kill()
    await expect(askRedis(url, ['PING'])).rejects.toThrow('ECONNREFUSED')
    await server.restart()
    expect(server.url).toBe(url)
    expect(server.pid).not.toBe(pid)
    expect(await askRedis(url, ['GET', 'kept'])).toEqual(['yes'])
  })

  it('PostgreSQL has its data after SIGKILL and restart', async () => {
    await using server = await startPostgres()
    const { url } = server
    await queryPostgres(url, 'create table kept (value text); insert into kept values (1)')
    await server.kill()
    await server.restart()
    expect(server.url).toBe(url)
    expect(await queryPostgres(url, 'select value from kept')).toEqual([['1']])
  })

  it('Mosquitto accepts the users that it was started with, and no others', async () => {
    await using server = await startMosquitto({ users: { shop: 'secret' } })
    expect(server.url).toContain('//shop:secret@')
    await mosquitto.probe(server.url)
    for (const wrong of ['', 'shop:wrong@', 'other:secret@']) {
      await expect(mosquitto.probe(server.url.replace('shop:secret@', wrong))).rejects.toThrow('refuses the connection')
    }
  })

  it('a Redis Cluster becomes whole again when a killed node comes back', async () => {
    await using server = await startRedisCluster({ nodes: 3 })
    expect(server.url.split(',')).toEqual(server.nodes.map((node) => node.url))
    await server.nodes[1]?.kill()
    await server.restart()
    for (const { url } of server.nodes) expect(String(await askRedis(url, ['CLUSTER', 'INFO']))).toContain('state:ok')
  })

  it('can be frozen, and stopped in that state', async () => {
    await using server = await startNats()
    await server.kill('SIGSTOP')
    await server.stop()
    await server.stop()
    await expect(server.restart()).rejects.toThrow('was stopped')
  })

  it('shows the last lines of its log when it ends early, and leaves nothing', async () => {
    await expect(startRedis({ args: ['--no-such-directive', 'x'] })).rejects.toThrow(/exit code 1.*no-such-directive/s)
    expect(world.leftovers()).toEqual([])
  })
})
