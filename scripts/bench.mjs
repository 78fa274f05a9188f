// @ts-check
// Builds quietly, then runs the named benchmark, or all: `npm run -s bench -- core --json`. `peers` runs only if it is named, because it installs other projects.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const args = process.argv.slice(2)
const build = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-b'], { cwd: root, encoding: 'utf8' })
if (build.status !== 0) {
  process.stderr.write(build.stdout + build.stderr)
  process.exit(1)
}
const status =
  args[0] === 'peers' ? runPeers(args.slice(1)) : run(process.execPath, ['--expose-gc', join(root, 'bench/dist/main.js'), ...args])
process.exit(status)

/** The job queues require a newer Node than Ackord does, so they are no part of the workspace. @param {readonly string[]} options */
function runPeers(options) {
  const latestNode = join(root, 'scripts/with-latest-node')
  const folder = join(root, 'bench/peers')
  const install = spawnSync(latestNode, ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    // The output of the benchmark is the only one on stdout.
    stdio: ['ignore', process.stderr.fd, 'inherit'],
  })
  if (install.status !== 0) return 1
  return run(latestNode, ['node', '--expose-gc', join(folder, 'main.mjs'), ...options])
}

/** @param {string} command @param {readonly string[]} args @returns {number} */
function run(command, args) {
  const { status, signal } = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (signal !== null) console.error(`The benchmark was ended by ${signal}.`)
  return status ?? 1
}
