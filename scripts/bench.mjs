// @ts-check
// Builds quietly, then runs the named benchmark, or all: `npm run -s bench -- core --json`.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url))
const build = spawnSync(process.execPath, [tsc, '-b'], { cwd: root, encoding: 'utf8' })
if (build.status !== 0) {
  process.stderr.write(build.stdout + build.stderr)
  process.exit(1)
}
const bench = fileURLToPath(new URL('../bench/dist/main.js', import.meta.url))
const run = spawnSync(process.execPath, ['--expose-gc', bench, ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' })
process.exit(run.status ?? 1)
