import { hostname } from 'node:os'
import type { Logger } from '@ackord/core'
import type { Telemetry } from '@ackord/telemetry'
import type { MeterProvider } from '@opentelemetry/sdk-metrics'
import type { Sampler } from '@opentelemetry/sdk-trace'
import { endsWithin } from '../lifecycle.ts'
import { usageError } from '../output/errors.ts'
import type { Secrets } from '../output/secrets.ts'
import { parseServiceUrl, type ServiceUrl } from '../settings/urls.ts'
import { version } from '../version.ts'
import { loadOtlpPackages, type OtlpPackages } from './otlp-packages.ts'
import { cpuSeconds, EventLoopMonitor } from './process-metrics.ts'

export interface OtlpExportOptions {
  /** The option to name in errors if the URL is invalid. */
  readonly option: string
  readonly logger: Logger
  readonly secrets: Secrets
}

/** Exports spans and metrics until it is disposed, which sends what is left. */
export interface OtlpExport extends AsyncDisposable {
  readonly telemetry: Telemetry
  /** For output, without secrets. */
  readonly address: string
}

/** Milliseconds that a stop waits for a collector. The exporters try again for longer than that. */
const flushLimit = 3000

/**
 * Exports spans and metrics by OTLP over HTTP, to the collector at a URL to which `/v1/traces` and `/v1/metrics` are added. The providers are not registered globally, so
 * that only the relay reports to them. The exporters read headers, time limits, compression and certificates from the variables of OpenTelemetry.
 */
export async function startOtlpExport(text: string, { option, logger, secrets }: OtlpExportOptions): Promise<OtlpExport> {
  secrets.addUrl(text)
  const { text: url, address } = parseCollectorUrl(option, text)
  const packages = await loadOtlpPackages()
  const { sdkTrace, sdkMetrics } = packages
  const [traces, metrics] = [new ExportReport('traces', address, logger), new ExportReport('metrics', address, logger)]
  const traceExporter = traces.observe(new packages.traceExporter.OTLPTraceExporter({ url: signalUrl(url, 'traces') }))
  const metricExporter = metrics.observe(new packages.metricExporter.OTLPMetricExporter({ url: signalUrl(url, 'metrics') }))
  const resource = resourceOf(packages)
  const tracerProvider = new sdkTrace.TracerProvider({
    resource,
    spanProcessors: [new sdkTrace.BatchSpanProcessor({ exporter: traceExporter })],
    ...samplerOf(packages),
  })
  const meterProvider = new sdkMetrics.MeterProvider({
    resource,
    readers: [new sdkMetrics.PeriodicExportingMetricReader({ exporter: metricExporter, ...exportInterval() })],
  })
  const monitor = reportProcess(meterProvider)
  return {
    address,
    telemetry: packages.telemetry.telemetry({ tracerProvider, meterProvider }),
    async [Symbol.asyncDispose]() {
      // Failures have been logged by the reports.
      const shutdown = () => Promise.allSettled([tracerProvider.shutdown(), meterProvider.shutdown()])
      const isFlushed = await endsWithin(shutdown, flushLimit)
      if (!isFlushed && !traces.isFailing && !metrics.isFailing)
        logger.warn({ otlp: address }, 'The last traces and metrics were not exported: the collector does not answer.')
      traces.end()
      metrics.end()
      monitor[Symbol.dispose]()
    },
  }
}

function parseCollectorUrl(option: string, text: string): ServiceUrl {
  const example = 'http://host:4318'
  const url = parseServiceUrl(option, text, [example])
  if (!/^https?$/.test(url.scheme) || url.hosts.length !== 1)
    throw usageError(`${option} must be the http:// or https:// URL of one collector.`, `Expected: ${example}`)
  return url
}

function signalUrl(base: string, signal: 'traces' | 'metrics'): string {
  const url = new URL(base)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/${signal}`
  return url.href
}

/** Without the detector of the process: its attributes contain the arguments, which may contain passwords. */
function resourceOf({ resources }: OtlpPackages): ReturnType<OtlpPackages['resources']['defaultResource']> {
  const { defaultResource, detectResources, envDetector, resourceFromAttributes, serviceInstanceIdDetector } = resources
  const own = { 'service.name': 'ackord-relay', 'service.version': version, 'host.name': hostname() }
  return defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [serviceInstanceIdDetector] }))
    .merge(detectResources({ detectors: [envDetector] }))
}

/** The exporters do not read these two variables: in OpenTelemetry's own set-up, `sdk-node` does. A relay starts its traces, so a sampler has no parent to follow. */
function samplerOf({ sdkTrace }: OtlpPackages): { readonly sampler?: Sampler } {
  const [, name] = /^(?:parentbased_)?(always_off|traceidratio)$/.exec(process.env['OTEL_TRACES_SAMPLER'] ?? '') ?? []
  if (name === undefined) return {}
  const ratio = Number(process.env['OTEL_TRACES_SAMPLER_ARG'] || 1)
  return { sampler: name === 'always_off' ? new sdkTrace.AlwaysOffSampler() : new sdkTrace.TraceIdRatioBasedSampler(ratio) }
}

function exportInterval(): { readonly exportIntervalMillis?: number } {
  const interval = Number(process.env['OTEL_METRIC_EXPORT_INTERVAL'])
  return interval > 0 ? { exportIntervalMillis: interval } : {}
}

/** The names are those of OpenTelemetry's conventions. */
function reportProcess(meterProvider: MeterProvider): Disposable {
  const monitor = new EventLoopMonitor()
  const meter = meterProvider.getMeter('ackord', version)
  const memory = meter.createObservableUpDownCounter('process.memory.usage', { unit: 'By', description: 'Resident memory size.' })
  const cpu = meter.createObservableCounter('process.cpu.time', { unit: 's', description: 'CPU time by mode.' })
  const delay = (name: string, description: string) =>
    meter.createObservableGauge(`nodejs.eventloop.delay.${name}`, { unit: 's', description })
  const p50 = delay('p50', 'Median delay of the event loop since the previous export.')
  const p99 = delay('p99', '99th percentile of the delays of the event loop since the previous export.')
  const max = delay('max', 'Longest delay of the event loop since the previous export.')
  meter.addBatchObservableCallback(
    (result) => {
      const delays = monitor.read()
      const { user, system } = cpuSeconds()
      result.observe(memory, process.memoryUsage.rss())
      result.observe(cpu, user, { 'cpu.mode': 'user' })
      result.observe(cpu, system, { 'cpu.mode': 'system' })
      result.observe(p50, delays.p50)
      result.observe(p99, delays.p99)
      result.observe(max, delays.max)
    },
    [memory, cpu, p50, p99, max],
  )
  return monitor
}

interface ExportResult {
  /** 0: success. */
  readonly code: number
  readonly error?: Error
}

interface Exporter<Items> {
  export(items: Items, done: (result: ExportResult) => void): void
}

/** Logs the first failure of an outage, and its end. The SDK itself reports no failures unless a diagnostic logger is set, and then with a stack for each. */
class ExportReport {
  readonly #signal: 'traces' | 'metrics'
  readonly #address: string
  readonly #logger: Logger
  #failing = false
  #ended = false

  constructor(signal: 'traces' | 'metrics', address: string, logger: Logger) {
    this.#signal = signal
    this.#address = address
    this.#logger = logger
  }

  get isFailing(): boolean {
    return this.#failing
  }

  /** Returns the same exporter. */
  observe<Items, E extends Exporter<Items>>(exporter: E & Exporter<Items>): E {
    const send = exporter.export.bind(exporter)
    exporter.export = (items, done) =>
      send(items, (result) => {
        this.#report(result)
        done(result)
      })
    return exporter
  }

  /** An export that fails later than that belongs to a relay that has stopped. */
  end(): void {
    this.#ended = true
  }

  #report({ code, error }: ExportResult): void {
    const failed = code !== 0
    if (this.#ended || failed === this.#failing) return
    this.#failing = failed
    if (!failed) {
      this.#logger.info({ otlp: this.#address }, `The collector accepts ${this.#signal} again.`)
      return
    }
    const status = error !== undefined && 'code' in error && typeof error.code === 'number' ? { status: error.code } : {}
    this.#logger.warn(
      { otlp: this.#address, ...status, err: error },
      `The collector does not accept ${this.#signal}; they are lost until it does.`,
    )
  }
}
