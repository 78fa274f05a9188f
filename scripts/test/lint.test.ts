import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

const refused: Record<string, string> = {
  'date-now': 'export const value: number = Date.now()\n',
  'new-date': 'export const value: Date = new Date()\n',
  'math-random': 'export const value: number = Math.random()\n',
  'random-uuid': "import { randomUUID } from 'node:crypto'\n\nexport const value: string = randomUUID()\n",
  'set-timeout': 'setTimeout(() => {}, 5)\n',
  'timers-promises': "import { setTimeout as sleep } from 'node:timers/promises'\n\nawait sleep(5)\n",
  'performance-now': "import { performance } from 'node:perf_hooks'\n\nexport const value: number = performance.now()\n",
  hrtime: "import { hrtime } from 'node:process'\n\nexport const value: [number, number] = hrtime()\n",
  'duration-by-wall-clock': reading('runtime.now() - startedAt'),
  'remaining-by-wall-clock': reading('startedAt - runtime.now()'),
  'deadline-by-wall-clock': reading('runtime.now() + 1000'),
  'comparison-with-wall-clock': reading('runtime.now() >= startedAt'),
  'reversed-comparison-with-wall-clock': reading('startedAt < runtime.now()'),
  'duration-by-variable-now':
    "import type { Runtime } from '@ackord/core'\n\nexport function value(runtime: Runtime, startedAt: number): number {\n  const now = runtime.now()\n  return now - startedAt\n}\n",
  'duration-by-private-runtime':
    'export class Value {\n  readonly #runtime = { now: () => 5 }\n\n  since(startedAt: number): number {\n    return this.#runtime.now() - startedAt\n  }\n}\n',
  console: "console.log('text')\n",
  process: 'process.exit(1)\n',
}
const allowed = {
  instant: 'export const value: Date = new Date(5)\n',
  'monotonic-duration': reading('runtime.monotonic() - startedAt'),
  'wall-clock-instant': reading('new Date(runtime.now())'),
  'justified-calculation': reading('runtime.now() + 1000', '// biome-ignore lint/plugin: it leaves the process.'),
}

function reading(expression: string, comment = ''): string {
  return `import type { Runtime } from '@ackord/core'\n\nexport function value(runtime: Runtime, startedAt: number): unknown {\n  void startedAt\n  ${comment}\n  return ${expression}\n}\n`
}

describe('the lint rules', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ackord-lint-'))
  const found = new Map<string, string>()

  beforeAll(() => {
    const { vcs: _vcs, $schema: _schema, ...config } = JSON.parse(readFileSync(`${root}biome.json`, 'utf8'))
    writeFileSync(join(folder, 'biome.json'), JSON.stringify(config))
    cpSync(`${root}scripts/lint`, join(folder, 'scripts/lint'), { recursive: true })
    for (const place of ['src', 'test']) {
      mkdirSync(join(folder, 'packages/core', place), { recursive: true })
      for (const [name, code] of Object.entries({ ...refused, ...allowed }))
        writeFileSync(join(folder, 'packages/core', place, `${name}.ts`), code)
    }
    for (const layer of ['domain', 'application', 'adapters']) {
      const place = join(folder, 'examples/order-service/src', layer)
      mkdirSync(place, { recursive: true })
      writeFileSync(join(place, 'store.ts'), "import { Database } from '@ackord/sql'\n\nexport const database: unknown = Database\n")
    }
    const biome = spawnSync(`${root}node_modules/.bin/biome`, ['lint', '--reporter=github', '--max-diagnostics=none', '.'], {
      cwd: folder,
      encoding: 'utf8',
    })
    for (const line of biome.stdout.split('\n')) {
      const file = /\/packages\/core\/([a-z/-]+)\.ts,/.exec(line)?.[1]
      if (file !== undefined) found.set(file, line)
      const layer = /order-service\/src\/([a-z]+)\/store\.ts,/.exec(line)?.[1]
      if (layer !== undefined) found.set(`example:${layer}`, line)
    }
  })
  it.each(['domain', 'application'])('refuse a store in the %s of the example service, and not in its adapters', (layer) => {
    expect(found.get(`example:${layer}`)).toMatch(/know no store/)
    expect(found.get('example:adapters')).toBeUndefined()
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.each(Object.keys(refused))('refuse %s in the sources of a package, and not in its tests', (name) => {
    expect(found.get(`src/${name}`)).toMatch(/^::error/)
    expect(found.get(`test/${name}`)).toBeUndefined()
  })

  it.each(Object.keys(allowed))('allow %s', (name) => {
    expect(found.get(`src/${name}`)).toBeUndefined()
  })
})
