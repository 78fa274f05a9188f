import { existsSync } from 'node:fs'
import { dirname } from 'node:path/posix'
import { describe, expect, it } from 'vitest'
import { folder, textOf, yamlOf } from './files.ts'

// There is no Docker here: the files are parsed, and what they say about each other is compared.

interface Compose {
  readonly services: Readonly<
    Record<string, { readonly image: string; readonly ports: readonly string[]; readonly volumes?: readonly string[] }>
  >
}

interface Collector {
  readonly receivers: { readonly otlp: { readonly protocols: Readonly<Record<string, { readonly endpoint: string }>> } }
  readonly processors: object
  readonly exporters: Readonly<Record<string, { readonly endpoint: string }>>
  readonly service: {
    readonly pipelines: Readonly<Record<string, Readonly<Record<'receivers' | 'processors' | 'exporters', readonly string[]>>>>
  }
}

interface Prometheus {
  readonly rule_files: readonly string[]
  readonly scrape_configs: readonly {
    readonly job_name: string
    readonly static_configs: readonly { readonly targets: readonly string[] }[]
  }[]
}

const { services } = yamlOf<Compose>('compose.yaml')
const collector = yamlOf<Collector>('otel-collector/config.yaml')
const prometheus = yamlOf<Prometheus>('prometheus/prometheus.yml')
const { datasources } = yamlOf<{ datasources: readonly { type: string; url: string }[] }>(
  'grafana/provisioning/datasources/datasources.yaml',
)
const { providers } = yamlOf<{ providers: readonly { options: { path: string } }[] }>('grafana/provisioning/dashboards/dashboards.yaml')

/** `[host, container]` of each published port. */
const portsOf = (service: string) => (services[service]?.ports ?? []).map((port) => port.split(':').slice(1))
const mountsOf = (service: string) => (services[service]?.volumes ?? []).map((volume) => volume.split(':'))
const portOf = (address: string) => address.split(':').at(-1) ?? ''
const readme = textOf('observability/README.md')

describe('compose.yaml', () => {
  it.each(Object.entries(services))('pins the version of %s and opens its ports to this machine only', (_, { image, ports }) => {
    expect(image).toMatch(/^[\w./-]+:v?\d+\.\d+\.\d+$/)
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/)
  })

  it('mounts files that exist, read only', () => {
    const mounts = Object.keys(services).flatMap(mountsOf)
    expect(mounts.length).toBeGreaterThan(3)
    for (const [path = '', , mode] of mounts) {
      expect(existsSync(folder + path), path).toBe(true)
      expect(mode).toBe('ro')
    }
  })

  it('publishes the ports that the README names', () => {
    for (const [host = ''] of Object.keys(services).flatMap(portsOf)) expect(readme).toContain(`localhost:${host}`)
  })
})

describe('the collector', () => {
  it('listens on the ports that compose.yaml publishes', () => {
    const listening = Object.values(collector.receivers.otlp.protocols).map(({ endpoint }) => portOf(endpoint))
    expect(portsOf('otel-collector').map(([, container]) => container)).toEqual(listening)
  })

  it('uses only what it defines, in each pipeline', () => {
    expect(Object.keys(collector.service.pipelines)).toEqual(['metrics', 'traces'])
    for (const pipeline of Object.values(collector.service.pipelines)) {
      expect(Object.keys(collector.receivers)).toEqual(expect.arrayContaining([...pipeline.receivers]))
      expect(Object.keys(collector.processors)).toEqual(expect.arrayContaining([...pipeline.processors]))
      expect(Object.keys(collector.exporters)).toEqual(expect.arrayContaining([...pipeline.exporters]))
    }
  })

  it('sends traces to a service of compose.yaml', () => {
    const [host = ''] = collector.exporters['otlp_grpc/jaeger']?.endpoint.split(':') ?? []
    expect(Object.keys(services)).toContain(host)
  })
})

describe('Prometheus', () => {
  const targets = prometheus.scrape_configs.flatMap(({ static_configs: configs }) => configs.flatMap((config) => config.targets))

  it('scrapes the port on which the collector serves metrics, and the port of a relay in the README', () => {
    const [toCollector = '', toRelay = ''] = targets
    expect(toCollector).toBe(`otel-collector:${portOf(collector.exporters['prometheus']?.endpoint ?? '')}`)
    expect(readme).toContain(`ackord relay --host 0.0.0.0 --port ${portOf(toRelay)}`)
  })

  it('loads the rules', () => {
    expect(prometheus.rule_files).toEqual(['ackord.rules.yaml'])
  })
})

describe('Grafana', () => {
  it.each(datasources)('reads $type at a port of its service', ({ url }) => {
    const { hostname, port } = new URL(url)
    expect(portsOf(hostname).map(([, container]) => container)).toContain(port)
  })

  it('finds the dashboard where it is mounted', () => {
    const [dashboard] = mountsOf('grafana').filter(([path]) => path === './grafana/ackord.json')
    expect(dirname(dashboard?.[1] ?? '')).toBe(providers[0]?.options.path)
  })
})
