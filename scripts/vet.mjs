// @ts-check
// Runs all checks that do not require the tests. All steps run; the last line lists the failed ones.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packPackages } from './pack-packages.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = (/** @type {string} */ name) => join(root, 'node_modules', '.bin', name)

/** @type {string[]} */
const failed = []

/** @param {string} title @param {() => boolean} check */
function step(title, check) {
  console.log(`\n== ${title}`)
  if (!check()) failed.push(title)
}

/** @param {string} command @param {string[]} args @param {{ cwd?: string }} [options] */
function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: options.cwd ?? root, stdio: 'inherit', env: { ...process.env, NO_COLOR: '1' } })
  if (error !== undefined) console.error(error.message)
  return status === 0
}

const tarballs = mkdtempSync(join(tmpdir(), 'ackord-vet-'))
process.on('exit', () => rmSync(tarballs, { recursive: true, force: true }))

step('biome: format and lint', () => run(bin('biome'), ['ci', '--error-on-warnings', '--colors=off', '.']))
step('tsc: sources', () => run(bin('tsc'), ['-b']))
step('tsc: tests and scripts', () => run(bin('tsc'), ['-p', 'tsconfig.test.json']))
step('dependency-cruiser: directions between rooms and packages', () => run(process.execPath, ['scripts/rooms/check.mjs']))
step('knip: dead files, exports and dependencies', () => run(bin('knip'), ['--no-progress']))
step('the documents as a site, without dead links', () => run(process.execPath, ['scripts/docs.mjs']))

/** @type {ReturnType<typeof packPackages>} */
let packed = []
step('npm pack', () => {
  packed = packPackages(tarballs)
  return packed.length > 0
})
step('publint: packed packages', () => packed.every(({ tarball }) => run(bin('publint'), ['run', '--strict', tarball])))
step('attw: types of packed packages', () =>
  packed.every(({ tarball }) => run(bin('attw'), [tarball, '--profile', 'esm-only', '--no-emoji', '--quiet'])),
)
// Which packages import what a project installs itself.
const optionalPeers = ['@opentelemetry/api']
step('a project that installs the packed packages', () => {
  const consumer = join(tarballs, 'consumer')
  mkdirSync(consumer)
  const names = packed.map(({ name }) => name)
  writeFileSync(join(consumer, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }))
  if (
    !run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', ...packed.map(({ tarball }) => tarball), ...optionalPeers], {
      cwd: consumer,
    })
  )
    return false
  const imports = names.map((name, index) => `import * as p${index} from '${name}'`)
  const uses = names.map((name, index) => `if (Object.keys(p${index}).length === 0) throw new Error('${name} exports nothing')`)
  writeFileSync(join(consumer, 'main.ts'), [...imports, ...uses, ''].join('\n'))
  // A CommonJS file: TypeScript allows it from `module: node20` on.
  writeFileSync(join(consumer, 'main.cts'), [...imports, ...uses, ''].join('\n'))
  writeFileSync(join(consumer, 'main.mjs'), [...imports, ...uses, ''].join('\n'))
  writeFileSync(
    join(consumer, 'main.cjs'),
    names.map((name) => `if (Object.keys(require('${name}')).length === 0) throw new Error('${name}')`).join('\n'),
  )
  const compiler = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--types',
    'node',
    '--typeRoots',
    join(root, 'node_modules/@types'),
  ]
  return (
    run(bin('tsc'), [...compiler, 'main.ts', 'main.cts'], { cwd: consumer }) &&
    run(process.execPath, ['main.mjs'], { cwd: consumer }) &&
    run(process.execPath, ['--no-warnings', 'main.cjs'], { cwd: consumer })
  )
})

console.log('\n== npm audit (a report, not a check)')
run('npm', ['audit', '--omit=dev'])

console.log(failed.length === 0 ? '\nvet: all checks passed.' : `\nvet: failed: ${failed.join('; ')}.`)
process.exit(failed.length === 0 ? 0 : 1)
