// @ts-check
// Bun and Deno: the packed packages in a project of their own, with one program that runs on both (runtime-program/).
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ownName } from '../test-run.mjs'
import { runCommand } from './commands.mjs'
import { judgeResults, readResults } from './runtime-results.mjs'
import { openStore } from './stores.mjs'

export const runtimes = /** @type {const} */ ([
  { name: 'Bun', version: '1.4.4', command: 'node_modules/.bin/bun' },
  { name: 'Deno', version: '2.9.6', command: 'node_modules/.bin/deno run --allow-all' },
]).map((runtime) => ({ ...runtime, title: `${runtime.name} ${runtime.version}` }))

/** @typedef {(typeof runtimes)[number]} RuntimeToTest */

/** What does not work, with the reason. A check that is listed and passes fails the target, too. Keep docs/guides/bun-and-deno.md the same. @type {readonly import('./runtime-results.mjs').KnownFailure[]} */
const knownFailures = []

const clients = {
  '@nats-io/jetstream': '3.4.0',
  '@nats-io/transport-node': '3.4.0',
  '@photostructure/sqlite': '1.2.1',
  amqplib: '2.3.1',
  'fast-check': '4.10.2',
  hono: '4.13.17',
  ioredis: '6.0.0',
  mysql2: '3.24.5',
  pg: '8.23.1',
}

/** Each is a file `part-<name>.mjs` of the program. */
const parts = ['memory', 'postgres', 'mysql', 'sqlite', 'redis', 'rabbitmq', 'nats', 'redis-streams', 'http', 'dashboard']
const program = fileURLToPath(new URL('runtime-program', import.meta.url))

/**
 * Installs the packages, their clients and the runtimes.
 *
 * @param {readonly RuntimeToTest[]} chosen
 * @param {string} folder
 * @param {readonly import('../pack-packages.mjs').PackedPackage[]} packed
 */
export async function createRuntimeProject(chosen, folder, packed) {
  cpSync(program, folder, { recursive: true })
  const own = Object.fromEntries(packed.map(({ name, tarball }) => [name, `file:${tarball}`]))
  const named = ['core', 'dashboard', 'http', 'nats', 'outbox', 'rabbitmq', 'redis', 'sql', 'testkit'].map((name) => `@ackord/${name}`)
  const project = {
    private: true,
    type: 'module',
    dependencies: { ...Object.fromEntries(named.map((name) => [name, own[name]])), ...clients },
    devDependencies: Object.fromEntries(chosen.map(({ name, version }) => [name.toLowerCase(), version])),
    overrides: Object.fromEntries(Object.entries(own).filter(([name]) => !named.includes(name))),
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(project))
  await runCommand('npm install --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error', { cwd: folder })
  // Puts the binary, which npm has installed as an optional dependency, in its place. npm runs such a script only if it is allowed to.
  for (const { name } of chosen) {
    const { scripts } = JSON.parse(readFileSync(join(folder, 'node_modules', name.toLowerCase(), 'package.json'), 'utf8'))
    await runCommand(scripts.postinstall, { cwd: join(folder, 'node_modules', name.toLowerCase()) })
  }
}

/**
 * Runs the program on a runtime, and reports each of its suites as one check.
 *
 * @param {RuntimeToTest} runtime
 * @param {string} folder
 * @param {import('./report.mjs').Report} report
 */
export async function testRuntime({ name, title, command }, folder, report) {
  const word = `ackordpkg${ownName()}`
  /** @type {(() => Promise<unknown>)[]} */
  const undo = []
  /** @type {readonly import('./runtime-results.mjs').Result[]} */
  let results = []

  async function run() {
    const own = join(folder, name.toLowerCase())
    mkdirSync(own)
    const postgres = await openStore['postgres']?.(word, own)
    const redis = await openStore['redis']?.(word, own)
    if (postgres === undefined || redis === undefined) throw new Error('There is no PostgreSQL or no Redis.')
    undo.push(postgres.remove, redis.remove)
    const environment = {
      ...postgres.environment,
      ...redis.environment,
      MARIADB_URL: process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test',
      RABBITMQ_URL: process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672',
      NATS_URL: process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222',
      NAME: word,
      // Nothing is written outside of the folder, and nobody is asked for newer versions.
      DENO_DIR: own,
      DENO_NO_UPDATE_CHECK: '1',
      DO_NOT_TRACK: '1',
    }
    results = readResults(await runCommand(`${command} main.mjs ${parts.join(' ')}`, { cwd: folder, environment }), parts)
  }

  const hasRun = await report.check(`${title}: the program runs`, run)
  if (hasRun) {
    const known = knownFailures.filter(({ runtime }) => runtime === name)
    for (const { suite, checks, problems } of judgeResults(results, known)) {
      await report.check(`${title}: ${suite}, ${checks} checks`, async () => {
        if (problems.length > 0) throw new Error(problems.join('\n'))
      })
    }
  }
  await report.check(`${title}: cleans up`, async () => {
    for (const step of undo) await step()
  })
}
