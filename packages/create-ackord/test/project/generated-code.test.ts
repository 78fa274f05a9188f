import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allProjects, type GeneratedProject } from '../support/all-projects.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
/** Outside of the workspace, whose configuration of Biome ignores generated files. */
const lintFolder = mkdtempSync(join(tmpdir(), 'ackord-generated-'))
/** Below the workspace, so that its packages are found. */
const typesFolder = join(root, '.cache/create-ackord')

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** Returns the output of a tool that reports problems; nothing if it reports none. */
function run(folder: string, tool: string, ...args: readonly string[]): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, [join(root, 'node_modules', tool), ...args], {
    cwd: folder,
    encoding: 'utf8',
  })
  return status === 0 ? '' : stdout + stderr
}

/** Every store with every broker and, in turn, one of the frameworks: each pair of pieces is in one of them. */
function everyPair(): readonly GeneratedProject[] {
  const pairs = new Map<string, GeneratedProject[]>()
  for (const project of allProjects) {
    const { store, client, broker } = project.choices
    const key = `${store}-${client}-${broker}`
    pairs.set(key, [...(pairs.get(key) ?? []), project])
  }
  const turn = [0, 1, 2, 1, 2, 0, 2, 0, 1]
  return [...pairs.values()].map(
    (projects, index) => projects[(index + (turn[Math.floor(index / 5)] ?? 0)) % projects.length] as GeneratedProject,
  )
}

describe('the code of generated projects', () => {
  beforeAll(() => rmSync(typesFolder, { recursive: true, force: true }))
  afterAll(() => {
    for (const folder of [lintFolder, typesFolder]) rmSync(folder, { recursive: true, force: true })
  })

  it('is formatted, sorted and free of lint errors', () => {
    const written = new Map<string, string>()
    for (const { title, files } of allProjects) {
      for (const [path, text] of files) {
        if (!/\.(ts|json)$/.test(path) || written.has(path + text)) continue
        written.set(path + text, title)
        write(join(lintFolder, 'projects', title, path), text)
      }
    }
    const formatter = { indentStyle: 'space', indentWidth: 2, lineWidth: 120 }
    const javascript = {
      formatter: { quoteStyle: 'single', semicolons: 'asNeeded' },
      parser: { unsafeParameterDecoratorsEnabled: true },
    }
    write(join(lintFolder, 'biome.json'), JSON.stringify({ formatter, javascript }))
    expect(written.size).toBeGreaterThan(100)
    expect(
      run(lintFolder, '@biomejs/biome/bin/biome', 'ci', '--error-on-warnings', '--colors=off', '--max-diagnostics=20', 'projects'),
    ).toBe('')
  })

  it('has the right types: every store with every broker', () => {
    const projects = everyPair()
    for (const { title, files } of projects) for (const [path, text] of files) write(join(typesFolder, title, path), text)
    const { compilerOptions } = JSON.parse(projects[0]?.files.get('tsconfig.json') ?? '')
    const options = {
      ...compilerOptions,
      // Of the projects that have decorators; the others do not notice.
      experimentalDecorators: true,
      // The sources of Ackord need no build, but a newer library of types than their consumers.
      customConditions: ['@ackord/source'],
      lib: ['es2023', 'es2024.string', 'esnext.disposable'],
      typeRoots: [join(root, 'node_modules/@types')],
      paths: { ioredis: [join(root, 'packages/redis/node_modules/ioredis/built/index.d.ts')] },
    }
    write(join(typesFolder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*/src', '*/test'] }))
    expect(run(typesFolder, 'typescript/bin/tsc')).toBe('')
  }, 240_000)
})
