import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { emptyDirectory } from './ackord.ts'
import { main } from './bundle-main.ts'

const folder = fileURLToPath(new URL('../..', import.meta.url))

/** What `--otlp` needs, as a user would install it. */
export const otlpPackages: readonly string[] = [
  '@ackord/telemetry',
  '@opentelemetry/api',
  '@opentelemetry/exporter-trace-otlp-http',
  '@opentelemetry/exporter-metrics-otlp-http',
]

/** A directory with these packages in its `node_modules`. Those of Ackord are bundled from their sources, the others are links. */
export async function projectWith(packages: readonly string[]): Promise<string> {
  const project = emptyDirectory()
  for (const name of packages) {
    if (name === '@ackord/telemetry') await bundleTelemetry(packageFolder(project, name))
    else link(name, project)
  }
  return project
}

/** Installs a package that consists of this code. */
export function installFake(project: string, name: string, code: string): void {
  const target = packageFolder(project, name)
  mkdirSync(target, { recursive: true })
  writeFileSync(join(target, 'package.json'), JSON.stringify({ name, main: 'index.cjs' }))
  writeFileSync(join(target, 'index.cjs'), code)
}

/** Installs the command and its dependencies, and nothing else, and returns the path of its script. `bundleMain()` must have built it before. */
export function installCommand(): string {
  const project = emptyDirectory()
  const target = packageFolder(project, 'ackord')
  cpSync(dirname(main), join(target, 'dist'), { recursive: true })
  cpSync(join(folder, 'package.json'), join(target, 'package.json'))
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { readonly dependencies: object }
  // The bundle contains those of Ackord.
  for (const name of Object.keys(dependencies)) if (!name.startsWith('@ackord/')) link(name, project)
  return join(target, 'dist', 'main.mjs')
}

function packageFolder(project: string, name: string): string {
  return join(project, 'node_modules', name)
}

function link(name: string, project: string): void {
  const target = packageFolder(project, name)
  mkdirSync(dirname(target), { recursive: true })
  symlinkSync(installedFolder(name), target)
}

/** Packages may hide their package.json, so it is searched for on the disk. */
function installedFolder(name: string): string {
  const searched = createRequire(join(folder, 'any.js')).resolve.paths(name) ?? []
  for (const directory of searched) {
    try {
      readFileSync(join(directory, name, 'package.json'))
      return join(directory, name)
    } catch {
      // It is in one of the next ones.
    }
  }
  throw new Error(`${name} is not installed.`)
}

async function bundleTelemetry(target: string): Promise<void> {
  const bundled = await rolldown({
    input: join(folder, '../telemetry/src/index.ts'),
    platform: 'node',
    external: (id) => id.startsWith('@opentelemetry/'),
    resolve: { conditionNames: ['@ackord/source', 'node', 'import'] },
    transform: { target: 'node20' },
  })
  try {
    await bundled.write({ dir: target, entryFileNames: 'index.mjs', chunkFileNames: '[name]-[hash].mjs', format: 'esm' })
  } finally {
    await bundled.close()
  }
  writeFileSync(join(target, 'package.json'), JSON.stringify({ name: '@ackord/telemetry', exports: { '.': { default: './index.mjs' } } }))
}
