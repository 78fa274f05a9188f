import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Message, type Publisher, type PublishResult, parseMessage, type RawMessage, Router, type Source } from '@ackord/core'
import { httpPublisher, httpSource } from '@ackord/http'
import { fromKafkaJs, kafkaPublisher, kafkaSource } from '@ackord/kafka'
import { natsPublisher, natsSource } from '@ackord/nats'
import { deferred, sourceOf, startFaultProxy } from '@ackord/testkit'
import { jetstreamManager } from '@nats-io/jetstream'
import { type ConnectionOptions, connect } from '@nats-io/transport-node'
import { Kafka, type KafkaConfig, logLevel } from 'kafkajs'
import { describe, expect, it, vi } from 'vitest'
import { serve } from '../../packages/http/test/support/world.ts'
import { findBinary } from '../../scripts/servers/find-binary.mjs'
import { freePort } from '../../scripts/servers/free-port.mjs'
import { startServer } from '../../scripts/servers/server.mjs'
import { expectNoSecrets, handleInVain, password, payload, type Telling, telling } from './secrets.ts'

vi.setConfig({ testTimeout: 120_000 })

const { signal } = new AbortController()

function secretEvent(id: string, text: string = JSON.stringify({ secret: payload })): RawMessage {
  const attributes = { id, type: 'order.place', source: '/shop', specversion: '1.0', datacontenttype: 'application/json' }
  return new Message(new TextEncoder().encode(text), attributes)
}

/** Publishes messages that cannot be delivered, and records the errors. */
async function publishInVain(publisher: Publisher, destination: string, { hear }: Telling): Promise<void> {
  const results: readonly PublishResult[] = await publisher.publish(destination, [secretEvent('m-1'), secretEvent('m-2', payload)], {
    signal,
  })
  expect(results.map(({ ok }) => ok)).toEqual([false, false])
  hear(results)
}

/** Reads until an error ends the iteration, and records the error. */
async function readInVain(source: Source, { hear }: Telling): Promise<void> {
  const messages = source.messages({ signal })[Symbol.asyncIterator]()
  hear(
    await messages.next().then(
      () => expect.unreachable('There was a message.'),
      (error: unknown) => error,
    ),
  )
}

async function nackAll(source: Source): Promise<void> {
  for await (const message of source.messages({ signal })) await message.nack(new Error('out of stock'))
}

async function rejection(work: () => unknown): Promise<unknown> {
  try {
    await work()
  } catch (error) {
    return error
  }
  return expect.unreachable('It was not refused.')
}

/** A NATS server that accepts one secret; after `change()` it accepts another one. */
async function startGuardedNats(kind: 'password' | 'token') {
  const port = await freePort()
  const url = `nats://127.0.0.1:${port}`
  let known = password
  const credentials = (secret: string): ConnectionOptions => (kind === 'token' ? { token: secret } : { user: 'orders', pass: secret })
  const server = await startServer({
    name: 'nats',
    account: undefined,
    launch(directory) {
      const config = join(directory, 'nats.conf')
      const guard = kind === 'token' ? `token: "${known}"` : `user: orders, password: "${known}"`
      writeFileSync(config, `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${directory}" }\nauthorization { ${guard} }\n`)
      return { file: findBinary('nats-server') ?? 'nats-server', args: ['-c', config] }
    },
    async ready() {
      const connection = await connect({ servers: url, ...credentials(known), reconnect: false })
      await connection.close()
      return url
    },
  })
  return {
    url,
    credentials: credentials(password),
    async change() {
      known = 'another'
      await server.restart()
    },
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

describe('errors and logs of brokers hold neither payloads nor passwords', () => {
  it.each(['password', 'token'] as const)('on NATS, with a %s that is no longer valid', async (kind) => {
    const told = telling()
    const { logger, hear } = told
    await using server = await startGuardedNats(kind)
    const connection = await connect({ servers: server.url, ...server.credentials, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: 'orders', subjects: ['orders'] })
    await using publisher = natsPublisher(connection)
    await using source = natsSource(connection, { stream: 'orders', consumer: 'billing', declare: {}, logger, backoff: () => 5 })

    await publishInVain(publisher, 'nobody', told)
    connection.subscribe('echo', { callback: (_, message) => void message.respond(message.data) })
    await publishInVain(publisher, 'echo', told)
    expect(await publisher.publish('orders', [secretEvent('m-1')], { signal })).toEqual([{ ok: true }])
    await handleInVain(source, told)
    await manager.streams.purge('orders')
    const reading = readInVain(source, told)
    await server.change()
    await reading
    await publishInVain(publisher, 'orders', told)
    await readInVain(source, told)
    hear(await rejection(() => connect({ servers: server.url, ...server.credentials, reconnect: false })))
    for (const userInfo of [`orders:${password}`, password]) {
      const servers = server.url.replace('//', `//${userInfo}@`)
      hear(await rejection(() => connect({ servers, reconnect: false })))
    }
    await connection.close()
    expectNoSecrets(told.heard())
  })

  it('on Kafka, with a broker that rejects logins and one that cannot be reached', async () => {
    const told = telling()
    const { logger, hear } = told
    const proxy = await startFaultProxy(process.env['KAFKA_URL'] ?? 'kafka://127.0.0.1:9092')
    const client = (config: Partial<KafkaConfig>) =>
      fromKafkaJs(
        new Kafka({
          brokers: [`127.0.0.1:${proxy.port}`],
          logLevel: logLevel.DEBUG,
          logCreator: () => hear,
          retry: { retries: 1, initialRetryTime: 10 },
          connectionTimeout: 2000,
          ...config,
        }),
      )
    for (const mechanism of ['plain', 'scram-sha-256'] as const) {
      const kafka = client({ sasl: { mechanism: mechanism as 'plain', username: 'user', password } })
      for (const refused of [false, true]) {
        proxy.refuse(refused)
        await using publisher = kafkaPublisher(kafka)
        await publishInVain(publisher, 'orders', told)
        const stop = new AbortController()
        const warned = deferred()
        const source = kafkaSource(kafka, {
          topics: ['orders'],
          group: 'billing',
          logger: {
            ...logger,
            warn(fields, text) {
              logger.warn(fields, text)
              warned.resolve()
            },
          },
        })
        const messages = source.messages({ signal: stop.signal })[Symbol.asyncIterator]()
        const ended = messages.next().then(hear, hear)
        await Promise.race([warned.promise, ended])
        stop.abort()
        await ended
      }
    }
    await proxy[Symbol.asyncDispose]()
    expectNoSecrets(told.heard())
  })

  it('of an HTTP publisher, whatever the receiver responds', async () => {
    const told = telling()
    const { hear } = told
    await using server = await serve((request, response) => {
      const status = Number(/\d+/.exec(request.url ?? '')?.[0] ?? 0)
      // Some receivers repeat parts of the request.
      const said = { location: `http://user:${password}@127.0.0.1/`, 'www-authenticate': `Basic realm="${password}"` }
      request.resume()
      if (status === 999) request.socket.destroy()
      else if (status > 0) response.writeHead(status, said).end(`${request.headers.authorization} ${password} ${payload}`)
    })
    const { origin, host } = new URL(server.url)
    const gone = await freePort()
    const authorization = `Bearer ${password}`
    const inUrl = `http://user:${password}@${host}`
    for (const path of ['/500', '/503', '/401', '/302', '/413', '/999', '/slow', `/500?token=${password}`]) {
      for (const mode of ['binary', 'structured', 'batch'] as const) {
        const common = { mode, timeout: path === '/slow' ? 50 : 5000 }
        await using byHeader = httpPublisher({ url: `${origin}${path}`, headers: { authorization }, ...common })
        await using byUrl = httpPublisher({ url: `${inUrl}${path}`, ...common })
        await using byRoute = httpPublisher({ route: () => `${inUrl}${path}`, headers: async () => ({ authorization }), ...common })
        await using byDestination = httpPublisher(common)
        for (const publisher of [byHeader, byUrl, byRoute]) await publishInVain(publisher, 'orders', told)
        await publishInVain(byDestination, `${inUrl}${path}`, told)
      }
    }
    await using unreached = httpPublisher({ url: `http://user:${password}@127.0.0.1:${gone}/?token=${password}` })
    await publishInVain(unreached, 'orders', told)
    await using signed = httpPublisher({ url: `${origin}/500`, sign: `whsec_${Buffer.from(password).toString('base64')}` })
    await publishInVain(signed, 'orders', told)
    await using odd = httpPublisher()
    for (const destination of [
      `ftp://user:${password}@host`,
      `http://user:${password}@`,
      `user:${password}@host`,
      `http://user:${password}@127.0.0.1:1/`,
    ])
      await publishInVain(odd, destination, told)
    // Node rejects control characters that are not allowed in a header, and undici quotes them in its error.
    for (const bad of ['\u0001', '\u007f', '\u001b', '\n', '\0', '€']) {
      await using broken = httpPublisher({ url: origin, headers: () => ({ authorization: `${authorization}${bad}` }) })
      await publishInVain(broken, 'orders', told)
    }
    await using closed = httpPublisher({ url: inUrl })
    hear(await rejection(() => closed.publish('orders', [secretEvent('m-1')], { signal: AbortSignal.abort() })))
    await closed[Symbol.asyncDispose]()
    hear(await rejection(() => closed.publish(inUrl, [secretEvent('m-1')], { signal })))
    expectNoSecrets(told.heard())
  })

  it('of an HTTP publisher and source that cannot be created', async () => {
    const { hear, heard } = telling()
    const makings: readonly (() => unknown)[] = [
      () => httpPublisher({ url: `http://user:${password}@` }),
      () => httpPublisher({ url: `${password}://host` }),
      () => httpPublisher({ url: 'http://host', headers: { authorization: `Bearer ${password}\n` } }),
      () => httpPublisher({ url: 'http://host', sign: `whsec_${password}!` }),
      () => httpPublisher({ url: 'http://host', sign: [password, ''] }),
      () => httpSource({ verify: `whsec_${password}!` }),
      () => httpSource({ verify: [`${password}!`] }),
    ]
    for (const make of makings) hear(await rejection(make))
    expectNoSecrets(heard())
  })

  it('of an HTTP source, for requests that are refused and messages that are not handled', async () => {
    const told = telling()
    const { logger, hear } = told
    const secret = `whsec_${Buffer.from(password).toString('base64')}`
    const open = httpSource({ logger, settleTimeout: 5000 })
    const guarded = httpSource({ logger, verify: secret })
    const failing = httpSource({ logger, verify: () => Promise.reject(new Error('The list of keys is not there.')) })
    const foreign = httpSource({ logger, attributes: () => ({ id: '', type: 'x', 'Bad Name': 1n }) as never })
    const sources = [open, guarded, failing, foreign]
    const running = sources.map(nackAll)
    const authorization = `Bearer ${password}`
    const structured = { 'content-type': 'application/cloudevents+json' }
    const batch = { 'content-type': 'application/cloudevents-batch+json' }
    const binary = {
      'content-type': 'application/json',
      'ce-id': 'm-1',
      'ce-type': 'order.place',
      'ce-source': '/shop',
      'ce-specversion': '1.0',
    }
    const requests: readonly (readonly [Record<string, string>, string])[] = [
      [structured, `{"${payload}`],
      [structured, `"${payload}"`],
      [structured, JSON.stringify({ id: 'm-1', data: payload })],
      [structured, JSON.stringify({ specversion: '1.0', id: 'm-1', type: 'a', source: '/a', data_base64: `${payload}!` })],
      [batch, `[{"${payload}`],
      [batch, payload],
      [batch, `[{"data":"${payload}"}]`],
      [batch, `{"data":"${payload}"}`],
      [{ ...binary, 'ce-specversion': '7' }, payload],
      [{ ...binary, 'ce-time': `${payload}` }, '{}'],
      [binary, JSON.stringify({ secret: payload })],
      [binary, `{"${payload}`],
      [{ ...binary, 'webhook-id': 'm-1', 'webhook-timestamp': '1', 'webhook-signature': `v1,${password}` }, payload],
    ]
    for (const source of sources) {
      for (const [headers, body] of requests) {
        const url = `http://user.example/events?token=${password}`
        const response = await source.handler(new Request(url, { method: 'POST', headers: { ...headers, authorization }, body }))
        expect(response.status).toBeGreaterThanOrEqual(400)
        hear([response.status, await response.text()])
      }
    }
    for (const source of sources) await source[Symbol.asyncDispose]()
    await Promise.all(running)
    expectNoSecrets(told.heard())
  })

  it('of data and structured events that are not JSON', async () => {
    const told = telling()
    const { logger } = told
    const router = new Router({ logger }).handle({ type: 'order.place', handle: async () => [] })
    await router.run(sourceOf({ message: secretEvent('m-1', payload) }))
    told.hear(await rejection(() => parseMessage(payload)))
    expectNoSecrets(told.heard())
  })
})
