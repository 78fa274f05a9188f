import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join, relative } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { provideKafka, startKafka, startKafkaMock } from '../servers/index.mjs'
import { kafka, kafkaProperties } from '../servers/kafka.mjs'
import { countKafkaBrokers, isRealKafka } from '../servers/kafka-protocol.mjs'
import { planServer } from '../servers/plan.mjs'
import type { Server } from '../servers/server.mjs'
import { type FakeKafka, makeFakeKafka } from './fake-kafka.ts'
import { openWorld, type World } from './services-world.ts'

const ports = { port: 10_001, controllerPort: 10_002, internalPort: 10_003 }
let mock: Server
let fake: FakeKafka

beforeAll(async () => {
  mock = await startKafkaMock()
  fake = makeFakeKafka(mock.url)
})
afterAll(async () => {
  fake[Symbol.dispose]()
  await mock.stop()
})
beforeEach(() => {
  vi.stubEnv('KAFKA_HOME', fake.home)
  vi.stubEnv('JAVA_HOME', fake.java('17.0.15'))
  vi.stubEnv('KAFKA_URL', '')
})
afterEach(() => vi.unstubAllEnvs())

/** The plan for Kafka in the environment of the test. */
async function plan(): Promise<string> {
  const found = await planServer(kafka, process.env)
  return found.source === 'missing' ? found.reason : found.source
}

describe('the distribution in KAFKA_HOME', () => {
  it('is started, even if a server runs at the default port', async () => {
    expect(await planServer(kafka, process.env)).toMatchObject({
      source: 'installed',
      binary: join(fake.home, 'bin/kafka-server-start.sh'),
    })
    expect(kafka.defaultUrl).toBeUndefined()
  })

  it('is not needed if KAFKA_URL names a broker', async () => {
    vi.stubEnv('KAFKA_HOME', '/nowhere')
    vi.stubEnv('KAFKA_URL', mock.url)
    expect(await planServer(kafka, process.env)).toMatchObject({ source: 'environment', url: mock.url })
  })

  it('is the mock cluster without KAFKA_HOME', async () => {
    vi.stubEnv('KAFKA_HOME', '')
    expect(kafka.defaultUrl).toBe('kafka://127.0.0.1:9092')
    expect(kafka.locate()).toMatch(/kcat$/)
    await expect(startKafka()).rejects.toThrow('KAFKA_HOME is not set')
  })

  it('may be named by a path relative to the current directory', async () => {
    vi.stubEnv('KAFKA_HOME', relative(process.cwd(), fake.home))
    expect(await plan()).toBe('installed')
  })

  it('is refused if it has no scripts', async () => {
    for (const wrong of ['/nowhere', dirname(fake.home)]) {
      vi.stubEnv('KAFKA_HOME', wrong)
      expect(await plan()).toBe(
        `KAFKA_HOME is ${wrong}, where bin/kafka-storage.sh is missing or not executable: it must be the directory of an unpacked Kafka, 3.3 or newer`,
      )
      await expect(startKafka()).rejects.toThrow('bin/kafka-storage.sh')
    }
  })

  it.each([
    ['11.0.2', '11'],
    ['1.8.0_402', '8'],
  ])('is refused with Java %s', async (version, major) => {
    const home = fake.java(version)
    vi.stubEnv('JAVA_HOME', home)
    expect(await plan()).toBe(`Kafka needs Java 17 or newer, and ${home}/bin/java is version ${major}: set JAVA_HOME to a newer one`)
  })

  it.each(['17', '17.0.15', '21.0.1', '25-ea'])('is accepted with Java %s', async (version) => {
    vi.stubEnv('JAVA_HOME', fake.java(version))
    expect(await plan()).toBe('installed')
  })

  it('is accepted with the java in the PATH', async () => {
    vi.stubEnv('JAVA_HOME', '')
    vi.stubEnv('PATH', join(fake.java('17.0.1'), 'bin'))
    expect(await plan()).toBe('installed')
  })

  it('is refused without Java', async () => {
    vi.stubEnv('JAVA_HOME', '/nowhere')
    expect(await plan()).toBe('Kafka needs Java 17 or newer, and JAVA_HOME is /nowhere, where bin/java is missing or not executable')
    vi.stubEnv('JAVA_HOME', '')
    vi.stubEnv('PATH', fake.home)
    expect(await plan()).toBe(
      'Kafka needs Java 17 or newer, and there is no java in the PATH: install openjdk-17-jre-headless (its name in Debian) or set JAVA_HOME',
    )
  })

  it('is refused if java prints no version, or fails', async () => {
    const home = fake.java('17')
    vi.stubEnv('JAVA_HOME', home)
    writeFileSync(join(home, 'bin/java'), '#!/bin/sh\necho hello\n')
    expect(await plan()).toMatch(/-version' did not print a version$/)
    writeFileSync(join(home, 'bin/java'), '#!/bin/sh\necho broken >&2; exit 1\n')
    expect(await plan()).toMatch(/-version' failed: .*broken/s)
  })
})

describe('the settings of a broker', () => {
  it('are those of one node in KRaft mode', () => {
    expect(kafkaProperties('/d', ports, undefined)).toMatchObject({
      'process.roles': 'broker,controller',
      'node.id': '1',
      'controller.quorum.voters': '1@127.0.0.1:10002',
      listeners: 'CLIENTS://127.0.0.1:10001,CONTROLLER://127.0.0.1:10002',
      'advertised.listeners': 'CLIENTS://127.0.0.1:10001',
      'listener.security.protocol.map': 'CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT',
      'inter.broker.listener.name': 'CLIENTS',
      'controller.listener.names': 'CONTROLLER',
      'log.dirs': '/d/data',
      'offsets.topic.replication.factor': '1',
    })
  })

  it('have a login for clients, and a listener without one for the broker itself, if there are users', () => {
    expect(kafkaProperties('/d', ports, { admin: 'a', alice: 'b' })).toMatchObject({
      listeners: 'CLIENTS://127.0.0.1:10001,INTERNAL://127.0.0.1:10003,CONTROLLER://127.0.0.1:10002',
      'listener.security.protocol.map': 'CLIENTS:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT',
      'inter.broker.listener.name': 'INTERNAL',
      'listener.name.clients.plain.sasl.jaas.config':
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_alice="b";',
      'super.users': 'User:ANONYMOUS;User:admin',
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    })
  })
})

describe('a broker that is started', { timeout: 60_000 }, () => {
  let world: World
  beforeEach(() => {
    world = openWorld()
    vi.stubEnv('TMPDIR', world.directory)
  })
  afterEach(() => world[Symbol.asyncDispose]())

  it('has formatted storage, answers, and leaves nothing', async () => {
    const before = fake.runs().length
    const server = await startKafka({ properties: { 'message.max.bytes': '5000' } })
    const [format, start] = fake.runs().slice(before)
    const directory = dirname(format?.args.at(-1) ?? '')
    const configured = join(directory, 'server.properties')

    expect(format).toMatchObject({
      script: 'kafka-storage.sh',
      args: ['format', '--cluster-id', expect.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{21}$/), '--config', configured],
    })
    expect(start).toMatchObject({ script: 'kafka-server-start.sh', args: [configured] })
    for (const run of [format, start]) {
      expect(run?.environment).toMatchObject({
        LOG_DIR: `${directory}/logs`,
        JAVA_HOME: process.env['JAVA_HOME'],
        KAFKA_OPTS: expect.stringContaining(`-Djava.io.tmpdir=${directory}`),
      })
      expect(run?.properties).toMatchObject({
        listeners: expect.stringContaining(`CLIENTS://127.0.0.1:${server.port},`),
        'log.dirs': `${directory}/data`,
        'message.max.bytes': '5000',
      })
    }
    expect(await countKafkaBrokers(server.url)).toBe(1)
    await server.stop()
    await world.empty()
    await expect(kafka.probe(server.url)).rejects.toThrow('ECONNREFUSED')
  })

  it('keeps its storage and its port when it is killed and restarted, and is formatted once', async () => {
    const before = fake.runs().length
    await using server = await startKafka()
    const { url, pid } = server
    await server.kill()
    await expect(kafka.probe(url)).rejects.toThrow('ECONNREFUSED')
    await server.restart()
    await server.restart()

    expect(server.url).toBe(url)
    expect(server.pid).not.toBe(pid)
    await kafka.probe(url)
    const scripts = fake.runs().slice(before)
    expect(scripts.map(({ script }) => script)).toEqual(['kafka-storage.sh', ...Array(3).fill('kafka-server-start.sh')])
    expect(existsSync(`${scripts[0]?.properties['log.dirs']}/meta.properties`)).toBe(true)
  })

  it('shows its last lines when it ends early, and leaves nothing', async () => {
    const broken = makeFakeKafka(mock.url, dirname(fake.home))
    writeFileSync(join(broken.home, 'bin/kafka-storage.sh'), '#!/bin/sh\nexit 0\n')
    vi.stubEnv('KAFKA_HOME', broken.home)
    await expect(startKafka()).rejects.toThrow(/kafka ended with exit code 1.*No readable meta\.properties/s)
    await world.empty()
    writeFileSync(join(broken.home, 'bin/kafka-storage.sh'), '#!/bin/sh\necho no storage; exit 3\n')
    await expect(startKafka()).rejects.toThrow(/kafka-storage\.sh ended with exit code 3.*no storage/s)
    await world.empty()
    broken[Symbol.dispose]()
  })

  it('is started, named and stopped by scripts/services', async () => {
    const command = ['--', process.execPath, '-e', 'console.log(process.env.KAFKA_URL)']
    const { code, stdout, stderr } = await world.run(['run', '--only', 'kafka', ...command]).ended
    expect(stderr).toMatch(/^kafka: 127\.0\.0\.1:\d+, started by us/m)
    expect(stdout).toMatch(/^kafka:\/\/127\.0\.0\.1:\d+\n$/)
    expect({ code, leftovers: world.leftovers() }).toEqual({ code: 0, leftovers: [] })
    expect(fake.runs().at(-1)?.properties['listeners']).toContain(stdout.trim().replace('kafka://', 'CLIENTS://'))
  })

  it('says in one line what is missing', async () => {
    const environment = { KAFKA_HOME: '/nowhere' }
    const run = await world.run(['run', '--only', 'kafka', '--', 'echo', 'never'], environment).ended
    expect(run.stderr).toMatch(/^kafka: KAFKA_HOME is \/nowhere, where [^\n]*\n$/)
    expect(run).toMatchObject({ code: 1, stdout: '' })
    const check = await world.run(['check', '--only', 'kafka'], environment).ended
    expect(check).toMatchObject({ code: 1, stdout: expect.stringMatching(/^kafka +missing: KAFKA_HOME is \/nowhere, /) })
  })
})

describe('a Kafka for a test', () => {
  it('is a separate mock cluster, if neither variable names a real broker', async () => {
    vi.stubEnv('KAFKA_HOME', '')
    vi.stubEnv('KAFKA_URL', mock.url)
    const provided = await provideKafka()
    expect(provided).toMatchObject({ isReal: false })
    expect(provided.url).not.toBe(mock.url)
    await provided.stop()
  })

  it('is started from the distribution, if there is one', async () => {
    const provided = await provideKafka()
    expect(provided).toMatchObject({ isReal: true, server: { name: 'kafka' } })
    await provided.stop()
  })

  it('is not real if it does not answer, answers something else, or is the mock cluster', async () => {
    const garbage = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'.repeat(10)))
    await new Promise<void>((resolve) => garbage.listen(0, '127.0.0.1', resolve))
    const address = garbage.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const urls = [undefined, '', mock.url, 'kafka://127.0.0.1:1', `kafka://127.0.0.1:${port}`, 'kafka://']
    expect(await Promise.all(urls.map(isRealKafka))).toEqual(urls.map(() => false))
    garbage.close()
  })

  it('is real if it offers to create topics', async () => {
    // ApiVersions: no error, one entry: CreateTopics from 2 to 7.
    const answer = Buffer.from([0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 19, 0, 2, 0, 7])
    const broker = createServer((socket) => socket.on('data', () => socket.write(answer)))
    await new Promise<void>((resolve) => broker.listen(0, '127.0.0.1', resolve))
    const address = broker.address()
    const url = `kafka://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
    expect(await isRealKafka(url)).toBe(true)
    vi.stubEnv('KAFKA_HOME', '')
    vi.stubEnv('KAFKA_URL', url)
    expect(await provideKafka()).toMatchObject({ isReal: true, url, server: undefined })
    broker.close()
  })
})
