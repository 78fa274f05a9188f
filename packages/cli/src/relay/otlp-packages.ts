import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type CommandError, usageError } from '../output/errors.ts'
import { errorText } from '../output/output.ts'
import { version } from '../version.ts'

/** The packages that the export of telemetry needs. Users install them: most relays need none of them. */
export interface OtlpPackages {
  readonly telemetry: typeof import('@ackord/telemetry')
  readonly traceExporter: typeof import('@opentelemetry/exporter-trace-otlp-http')
  readonly metricExporter: typeof import('@opentelemetry/exporter-metrics-otlp-http')
  // The SDK is a dependency of the exporters, so that it always has their version.
  readonly sdkTrace: typeof import('@opentelemetry/sdk-trace')
  readonly sdkMetrics: typeof import('@opentelemetry/sdk-metrics')
  readonly resources: typeof import('@opentelemetry/resources')
}

const traceExporter = '@opentelemetry/exporter-trace-otlp-http'
const metricExporter = '@opentelemetry/exporter-metrics-otlp-http'
const needed = ['@ackord/telemetry', '@opentelemetry/api', traceExporter, metricExporter]

/** With an npx or global installation the packages of the project are not beside this one. */
const searchedByDefault = () => [process.cwd(), fileURLToPath(new URL('.', import.meta.url))]

/** Loads the packages from the project in the current directory, or from the installation of this command. `searched` are directories of both. */
export async function loadOtlpPackages(searched: readonly string[] = searchedByDefault()): Promise<OtlpPackages> {
  const candidates = searched.map(findNeeded)
  const complete = candidates.find(({ missing }) => missing.length === 0)
  if (complete === undefined) {
    const [least] = candidates.toSorted((one, other) => one.missing.length - other.missing.length)
    throw notUsable(`--otlp requires packages that are not installed: ${least?.missing.join(', ')}.`)
  }
  const [traces, metrics] = [complete.pathOf(traceExporter), complete.pathOf(metricExporter)]
  const sdkTrace = sdkOf(traces, '@opentelemetry/sdk-trace', traceExporter)
  const sdkMetrics = sdkOf(metrics, '@opentelemetry/sdk-metrics', metricExporter)
  const resources = sdkOf(sdkTrace, '@opentelemetry/resources', traceExporter)
  const paths = [complete.pathOf('@ackord/telemetry'), traces, metrics, sdkTrace, sdkMetrics, resources]
  const [telemetry, ...others] = await Promise.all(paths.map(load))
  const [traceModule, metricModule, sdkTraceModule, sdkMetricsModule, resourcesModule] = others
  return {
    telemetry,
    traceExporter: traceModule,
    metricExporter: metricModule,
    sdkTrace: sdkTraceModule,
    sdkMetrics: sdkMetricsModule,
    resources: resourcesModule,
    // The names of the packages say what the modules are.
  } as OtlpPackages
}

interface Candidate {
  readonly missing: readonly string[]
  /** The entry point of a package that is not missing. */
  pathOf(name: string): string
}

/** All from one directory: exporters of two installations may have different versions. */
function findNeeded(directory: string): Candidate {
  const paths = new Map(needed.map((name) => [name, resolveFrom(join(directory, 'any.js'), name)]))
  return {
    missing: needed.filter((name) => paths.get(name) === undefined),
    pathOf: (name) => paths.get(name) ?? '',
  }
}

function resolveFrom(file: string, name: string): string | undefined {
  try {
    return createRequire(file).resolve(name)
  } catch {
    return undefined
  }
}

function sdkOf(file: string, name: string, exporter: string): string {
  const path = resolveFrom(file, name)
  if (path === undefined) throw notUsable(`--otlp requires another version of ${exporter}: the installed one does not use ${name}.`)
  return path
}

async function load(path: string): Promise<unknown> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    throw notUsable(`--otlp requires a package that cannot be loaded: ${errorText(error)}`)
  }
}

function notUsable(text: string): CommandError {
  return usageError(text, `Install: ${installCommand(process.versions.node)}`)
}

/** With versions that run on this Node: the third major version of OpenTelemetry's SDK requires Node 22.15. */
export function installCommand(node: string): string {
  const [major = 0, minor = 0] = node.split('.').map(Number)
  const [api, exporters] = major > 22 || (major === 22 && minor >= 15) ? ['1.10', '0.301'] : ['1.9', '0.223']
  return `npm install @ackord/telemetry@${version} @opentelemetry/api@${api} ${traceExporter}@${exporters} ${metricExporter}@${exporters}`
}
