import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { exitCode } from '../../src/output/errors.ts'
import { installCommand, loadOtlpPackages } from '../../src/relay/otlp-packages.ts'
import { version } from '../../src/version.ts'
import { Ackord, type AckordOptions, emptyDirectory } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { installFake, installCommand as installHere, otlpPackages, projectWith } from '../support/projects.ts'

beforeAll(bundleMain)

const install = installCommand(process.versions.node)

describe('a relay with --otlp, without the packages that it requires', () => {
  async function relayFails(args: readonly string[], options: AckordOptions): Promise<string> {
    // Neither server exists: the packages are missing before the relay connects to anything.
    const servers = ['--from', 'postgres://127.0.0.1:1/a', '--to', 'amqp://127.0.0.1:1']
    const { code, stderr } = await new Ackord([process.execPath, installHere(), 'relay', ...servers, ...args], options).ended
    expect(code).toBe(exitCode.usage)
    return stderr
  }

  it('ends with a command that installs them', async () => {
    expect(await relayFails(['--otlp', 'http://127.0.0.1:1'], {})).toBe(
      `ackord: --otlp requires packages that are not installed: ${otlpPackages.join(', ')}.\n  Install: ${install}\n`,
    )
  })

  it('names those that the project does not have, and the variable that the URL comes from', async () => {
    const cwd = await projectWith(['@ackord/telemetry', '@opentelemetry/api'])
    const missing = '@opentelemetry/exporter-trace-otlp-http, @opentelemetry/exporter-metrics-otlp-http'
    expect(await relayFails([], { cwd, env: { ACKORD_OTLP: 'http://127.0.0.1:1' } })).toBe(
      `ackord: ACKORD_OTLP requires packages that are not installed: ${missing}.\n  Install: ${install}\n`,
    )
  })
})

describe('the packages for --otlp', () => {
  it('are loaded from the first directory that has all of them', async () => {
    const incomplete = await projectWith(otlpPackages.slice(0, 3))
    const packages = await loadOtlpPackages([emptyDirectory(), incomplete, await projectWith(otlpPackages)])
    expect(packages.telemetry.telemetry).toBeTypeOf('function')
    expect(packages.sdkTrace.TracerProvider).toBeTypeOf('function')
    expect(packages.sdkMetrics.MeterProvider).toBeTypeOf('function')
    expect(packages.resources.envDetector).toBeTypeOf('object')
  })

  it('are rejected if an exporter is too old to depend on the SDK that is used', async () => {
    const project = await projectWith(otlpPackages.filter((name) => !name.includes('trace')))
    installFake(project, '@opentelemetry/exporter-trace-otlp-http', 'exports.OTLPTraceExporter = class {}')
    await expect(loadOtlpPackages([project])).rejects.toMatchObject({
      exitCode: exitCode.usage,
      message:
        '--otlp requires another version of @opentelemetry/exporter-trace-otlp-http: the installed one does not use @opentelemetry/sdk-trace.',
      hint: `Install: ${install}`,
    })
  })

  it('are rejected if one of them cannot be loaded', async () => {
    const project = await projectWith(otlpPackages.slice(1))
    installFake(project, '@ackord/telemetry', "throw new Error('It needs another Node.')")
    await expect(loadOtlpPackages([project])).rejects.toMatchObject({
      exitCode: exitCode.usage,
      message: '--otlp requires a package that cannot be loaded: It needs another Node.',
      hint: `Install: ${install}`,
    })
  })

  it.each([
    ['20.19.0', '1.9', '0.223'],
    ['22.14.0', '1.9', '0.223'],
    ['22.15.0', '1.10', '0.301'],
    ['24.1.0', '1.10', '0.301'],
  ])('are installed in versions that run on Node %s', (node, api, exporters) => {
    expect(installCommand(node)).toBe(
      `npm install @ackord/telemetry@${version} @opentelemetry/api@${api} @opentelemetry/exporter-trace-otlp-http@${exporters} @opentelemetry/exporter-metrics-otlp-http@${exporters}`,
    )
  })

  it('are optional for a user of the command', () => {
    const { dependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(
      readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
    ) as Record<string, Record<string, unknown>>
    for (const name of otlpPackages) {
      expect(peerDependencies).toHaveProperty(name)
      expect(peerDependenciesMeta?.[name]).toEqual({ optional: true })
      expect(dependencies).not.toHaveProperty(name)
    }
  })
})
