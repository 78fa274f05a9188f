import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { version } from '../../src/version.ts'
import { type Ackord, ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { startCollector, startMuteServer } from '../support/collector.ts'
import { otlpPackages, projectWith } from '../support/projects.ts'
import { openTestStore, openTestTopic, rabbitmqUrl, type TestStore } from '../support/services.ts'

let project = ''
beforeAll(async () => {
  await bundleMain()
  project = await projectWith(otlpPackages)
})

const relays: Ackord[] = []
afterEach(() => {
  // For a test that fails before it stops its relay.
  for (const relay of relays.splice(0)) relay.child.kill('SIGKILL')
})

function startRelay(world: TestStore, otlp: string, env: Readonly<Record<string, string>> = {}, ...args: readonly string[]): Ackord {
  const servers = ['--from', ...world.args.slice(1), '--to', rabbitmqUrl, '--otlp', otlp]
  const relay = start(['relay', ...servers, '--json', ...args], { cwd: project, env })
  relays.push(relay)
  return relay
}

/** The log lines with this text. */
function linesOf({ stdout }: Ackord, text: string): readonly Record<string, unknown>[] {
  const lines = stdout.split('\n').filter((line) => line.includes(text))
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** The resource of an export, by the names of its attributes. */
function resourceOf(body: string): Readonly<Record<string, unknown>> {
  const { resourceSpans, resourceMetrics } = JSON.parse(body) as Record<'resourceSpans' | 'resourceMetrics', readonly Entry[] | undefined>
  const { attributes = [] } = (resourceSpans ?? resourceMetrics)?.[0]?.resource ?? {}
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]))
}

interface Entry {
  readonly resource: { readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[] }
}

describe('a relay with --otlp', () => {
  it('exports a span per publish and its metrics, the last ones when it stops', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using collector = await startCollector()
    await world.fill(topic.topic, 3)
    const relay = startRelay(world, `${collector.url}/base/`, { OTEL_EXPORTER_OTLP_HEADERS: 'x-team=orders' }, '--port', '0')
    await topic.read(3)
    const [{ health = '', otlp } = {}] = linesOf(relay, 'The relay is running.')
    expect(otlp).toBe(`${collector.url}/base/`)
    expect(await (await fetch(`${health}/metrics`)).text()).toContain('# TYPE ackord_outbox_published_total counter')
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })

    const [traces, metrics] = ['/base/v1/traces', '/base/v1/metrics'].map((path) => collector.exports.filter((one) => one.path === path))
    expect(traces?.map(({ body }) => body).join()).toContain(`"name":"send ${topic.topic}"`)
    const names = ['ackord.outbox.published', 'messaging.client.sent.messages', 'ackord.build_info']
    const processNames = ['process.memory.usage', 'process.cpu.time', 'nodejs.eventloop.delay.p99']
    for (const name of [...names, ...processNames]) expect(metrics?.at(-1)?.body).toContain(`"name":"${name}"`)
    expect(collector.exports.map(({ headers }) => headers['x-team'])).toEqual(collector.exports.map(() => 'orders'))
    for (const { body } of collector.exports) {
      expect(resourceOf(body)).toMatchObject({ 'service.name': 'ackord-relay', 'service.version': version })
      expect(resourceOf(body)['service.instance.id']).toMatch(/^[0-9a-f-]{36}$/)
      // The arguments of the process contain the URLs of store and broker.
      expect(body).not.toContain('guest')
    }
  })

  it('follows the variables of OpenTelemetry: the name of the service, the interval of metrics, the sampler', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using collector = await startCollector()
    await world.fill(topic.topic, 3)
    const relay = startRelay(world, collector.url, {
      OTEL_SERVICE_NAME: 'orders-relay',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_METRIC_EXPORT_INTERVAL: '50',
      OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    })
    // While it runs.
    const { body } = await collector.received((one) => one.path === '/v1/metrics' && one.body.includes('"ackord.outbox.published"'))
    expect(resourceOf(body)).toMatchObject({ 'service.name': 'orders-relay', 'deployment.environment.name': 'test' })
    await topic.read(3)
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
    expect(collector.exports.filter(({ path }) => path === '/v1/traces')).toEqual([])
  })

  it('logs once that the collector rejects its exports, and that it accepts them again', async () => {
    await using world = await openTestStore()
    await using collector = await startCollector()
    collector.status = 404
    const relay = startRelay(world, collector.url.replace('//', '//user:pa55-w0rd@'), { OTEL_METRIC_EXPORT_INTERVAL: '20' })
    await collector.received(() => collector.exports.length >= 5)
    collector.status = 200
    await relay.said('The collector accepts metrics again.')
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(linesOf(relay, 'The collector does not accept metrics')).toMatchObject([
      { level: 'warn', status: 404, error: 'Not Found', text: 'The collector does not accept metrics; they are lost until it does.' },
    ])
    expect(relay.stdout).not.toContain('pa55-w0rd')
    // As Basic authentication.
    expect(collector.exports[0]?.headers.authorization).toBe(`Basic ${btoa('user:pa55-w0rd')}`)
  })

  it.each([
    ['cannot be reached', async () => ({ url: 'http://127.0.0.1:1', [Symbol.asyncDispose]: async () => {} })],
    ['does not answer', startMuteServer],
  ])('does not wait for a collector that %s, and says that exports are lost', async (_, openCollector) => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using collector = await openCollector()
    await world.fill(topic.topic, 3)
    // Without a limit of its own, the stop would take as long as the exporters try.
    const relay = startRelay(world, collector.url, { OTEL_EXPORTER_OTLP_TIMEOUT: '3600000' })
    await topic.read(3)
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(linesOf(relay, 'The relay has stopped.')).toMatchObject([{ published: 3 }])
    const text = 'The last traces and metrics were not exported: the collector does not answer.'
    expect(linesOf(relay, 'collector')).toMatchObject([{ level: 'warn', otlp: collector.url, text }])
  })

  it.each([
    ['grpc://host:4317', '--otlp must be the http:// or https:// URL of one collector.\n  Expected: http://host:4318'],
    ['http://one:4318,two:4318', '--otlp must be the http:// or https:// URL of one collector.\n  Expected: http://host:4318'],
    ['localhost', '--otlp is not a valid URL.\n  Expected one of: http://host:4318. '],
  ])('rejects the URL %s', async (url, expected) => {
    const { code, stderr } = await ackord(['relay', '--from', 'sqlite:a.db', '--to', rabbitmqUrl, '--otlp', url])
    expect(stderr).toContain(`ackord: ${expected}`)
    expect(code).toBe(2)
  })
})
