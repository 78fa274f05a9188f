// @ts-check
// Runs the suites of each store and broker on every available server version, and writes docs/compatibility.md.
//
//   node scripts/test-servers.mjs [id …]     the ids are those of scripts/servers/foreign/catalogue.mjs, and `own-postgres` and so on
//
// A server that POSTGRES_URL, MYSQL_URL, MARIADB_URL, REDIS_URL, RABBITMQ_URL or NATS_URL names is tested too, as `given-postgres` and so on.
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeCompatibilityPage } from './compatibility-page.mjs'
import { serverVersions } from './server-versions.mjs'
import { aptInstall } from './servers/apt-install.mjs'
import { endAllChildren } from './servers/child.mjs'
import { foreignServers } from './servers/foreign/catalogue.mjs'
import { rootVariable } from './servers/foreign/root.mjs'
import { unpackForeign } from './servers/foreign/unpack.mjs'
import { startMariadb, startNats, startPostgres, startRabbitmq, startRedis, startRedisCluster } from './servers/index.mjs'
import { pgbouncer } from './servers/pgbouncer.mjs'
import { planServer } from './servers/plan.mjs'
import { removeTemporaryDirectories } from './servers/temporary-directory.mjs'

/** @typedef {import('./servers/foreign/catalogue.mjs').ForeignServer['kind']} KindName */

/**
 * @typedef {object} Candidate
 * @property {string} id
 * @property {KindName} kind
 * @property {string | undefined} product `undefined` if only the server knows
 * @property {string} origin its origin, for the table
 * @property {string | undefined} url of a server that already runs
 * @property {import('./servers/foreign/catalogue.mjs').ForeignServer | undefined} foreign
 */

const root = fileURLToPath(new URL('..', import.meta.url))
const resultsFile = join(root, 'docs/compatibility.json')
const scratch = join(root, '.cache/test-servers')

/** @type {Readonly<Record<KindName, { variable: string, suite: string, start: () => Promise<import('./servers/server.mjs').Server> }>>} */
const kinds = {
  postgres: { variable: 'POSTGRES_URL', suite: 'packages/sql/test/postgres', start: startPostgres },
  mariadb: { variable: 'MARIADB_URL', suite: 'packages/sql/test/mysql', start: startMariadb },
  redis: { variable: 'REDIS_URL', suite: 'packages/redis/test', start: startRedis },
  rabbitmq: { variable: 'RABBITMQ_URL', suite: 'packages/rabbitmq/test', start: startRabbitmq },
  nats: { variable: 'NATS_URL', suite: 'packages/nats/test', start: () => startNats() },
}
/** For each database, the other one that the shared tests need as well, in its installed version. */
const companions = /** @type {const} */ ({ postgres: 'mariadb', mariadb: 'postgres' })
const sharedTests = readdirSync(join(root, 'packages/sql/test'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.integration.test.ts') && !/^(postgres|mysql|sqlite)\//.test(file))
  .map((file) => join('packages/sql/test', file))
/**
 * Additional files of a suite: the tests shared by all databases; for MySQL and MariaDB only those that use them.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const sharedFiles = {
  'packages/sql/test/postgres': sharedTests,
  'packages/sql/test/mysql': sharedTests.filter((file) => /mysqlKinds|onEachClient/.test(readFileSync(join(root, file), 'utf8'))),
}
const amqp10Suite = 'packages/amqp/test'
// Its fault tests start a server of their own, which is another version.
const amqp10Tests = readdirSync(join(root, amqp10Suite), { recursive: true, encoding: 'utf8' })
  .filter((file) => !file.startsWith('faults'))
  .map((file) => join(amqp10Suite, file))
const products = {
  postgres: ['PostgreSQL'],
  mariadb: ['MariaDB', 'MySQL'],
  redis: ['Valkey', 'Redis'],
  rabbitmq: ['RabbitMQ'],
  nats: ['NATS'],
}

const stop = new AbortController()
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.on(signal, () => stop.abort())

mkdirSync(scratch, { recursive: true })
const wanted = process.argv.slice(2)
const candidates = allCandidates(process.env)
const unknown = wanted.find((id) => !candidates.some((candidate) => candidate.id === id))
if (unknown !== undefined) {
  console.error(`unknown server "${unknown}"; there are ${candidates.map(({ id }) => id).join(', ')}`)
  process.exit(2)
}
let failed = false
try {
  for (const candidate of candidates) {
    if (stop.signal.aborted) break
    if (wanted.length > 0 && !wanted.includes(candidate.id)) continue
    const result = await testServer(candidate)
    if (result === undefined) break
    failed ||= result.failed !== 0 || result.unavailable !== undefined
    record(candidate.id, result)
  }
} finally {
  await endAllChildren()
  await removeTemporaryDirectories()
}
process.exit(stop.signal.aborted ? 130 : failed ? 1 : 0)

/**
 * @param {NodeJS.ProcessEnv} environment
 * @returns {Candidate[]}
 */
function allCandidates(environment) {
  const names = /** @type {KindName[]} */ (Object.keys(kinds))
  /** @type {Candidate[]} */
  const own = names.map((kind) => ({
    id: `own-${kind}`,
    kind,
    product: undefined,
    origin: 'installed',
    url: undefined,
    foreign: undefined,
  }))
  const foreign = foreignServers.map((server) => {
    const { id, kind, product, suite } = server
    return { id, kind, product, origin: `Debian ${suite}`, url: undefined, foreign: server }
  })
  const variables = [
    ...names.map((kind) => /** @type {const} */ ([kind, kinds[kind].variable])),
    /** @type {const} */ (['mariadb', 'MYSQL_URL']),
  ]
  const given = variables.flatMap(([kind, variable]) => {
    const url = environment[variable]
    if (url === undefined || url === '') return []
    const id = variable === 'MYSQL_URL' ? 'given-mysql' : `given-${kind}`
    return [{ id, kind, product: undefined, origin: `named by ${variable}`, url, foreign: undefined }]
  })
  return [...own, ...foreign, ...given]
}

/**
 * @param {Candidate} candidate
 * @returns {Promise<import('./compatibility-page.mjs').Result | undefined>} `undefined` if it was interrupted
 */
async function testServer({ id, kind, product, origin, url, foreign }) {
  const { variable, suite, start } = kinds[kind]
  const name = rootVariable(kind)
  const date = new Date().toISOString().slice(0, 10)
  const base = { origin, suite, date, product: product ?? id, version: '', passed: 0, failed: 0, skipped: 0, failures: [] }
  /** @type {import('./servers/server.mjs').Server[]} */
  const servers = []
  try {
    delete process.env[name]
    if (foreign !== undefined) {
      console.log(`${id}: fetching from ${origin} ...`)
      process.env[name] = await unpackForeign(foreign)
    }
    /** @type {Record<string, string>} */
    const urls = { [variable]: url ?? (await own(start)) }
    if (kind === 'postgres' || kind === 'mariadb') {
      const companion = kinds[companions[kind]]
      urls[companion.variable] = process.env[companion.variable] || (await own(companion.start))
    }
    // The setup of the test run records the Redis server that it finds, which is not the one under test.
    if (kind !== 'redis') urls['REDIS_URL'] = 'redis://127.0.0.1:1'
    else if (url === undefined) urls['REDIS_CLUSTER_URLS'] = await own(startRedisCluster)
    const [found, version] = await productOf(kind, String(urls[variable]))
    console.log(`${id}: ${found} ${version}, ${suite}`)
    // From version 4 on RabbitMQ speaks AMQP 1.0 at the same port.
    const speaksAmqp10 = kind === 'rabbitmq' && Number.parseInt(version, 10) >= 4
    if (speaksAmqp10) urls['AMQP_URL'] = String(urls[variable])
    if (kind === 'postgres' && (await planServer(pgbouncer, {})).source === 'installable') await aptInstall([pgbouncer.debianPackage])
    const counts = await runSuite(id, suite, { ...process.env, ...urls }, speaksAmqp10 ? amqp10Tests : [])
    if (stop.signal.aborted) return undefined
    console.log(`${id}: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
    return { ...base, product: found, version, ...counts }
  } catch (error) {
    if (stop.signal.aborted) return undefined
    const reason = error instanceof Error ? error.message : String(error)
    console.error(`${id}: ${reason}`)
    return { ...base, unavailable: publicText(reason) }
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
    delete process.env[name]
  }

  /** @param {() => Promise<import('./servers/server.mjs').Server>} begin */
  async function own(begin) {
    const server = await begin()
    servers.push(server)
    return server.url
  }
}

/**
 * @param {KindName} kind
 * @param {string} url
 * @returns {Promise<[product: string, version: string]>}
 */
async function productOf(kind, url) {
  for (const product of products[kind]) {
    const variable = `${product.toUpperCase().replace('POSTGRESQL', 'POSTGRES')}_URL`
    const version = (await serverVersions({ [variable]: url }))[product]
    if (version !== undefined) return [product, version]
  }
  throw new Error(`the server does not report its version: expected ${products[kind].join(' or ')}`)
}

/**
 * @param {string} id
 * @param {string} suite
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} more further files
 * @returns {Promise<{ passed: number, failed: number, skipped: number, failures: string[] }>}
 */
async function runSuite(id, suite, env, more) {
  const own = readdirSync(join(root, suite), { recursive: true }).map((file) => join(suite, String(file)))
  const files = [...own, ...(sharedFiles[suite] ?? []), ...more].filter((file) => file.endsWith('.integration.test.ts')).sort()
  const output = join(scratch, `${id}.json`)
  writeFileSync(output, '')
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const args = [
    'run',
    '--config',
    'vitest.servers.config.ts',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${output}`,
    ...files,
  ]
  await new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [vitest, ...args], { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] })
    stop.signal.addEventListener('abort', () => child.kill())
    child.on('error', reject)
    child.on('exit', resolve)
  })
  const text = readFileSync(output, 'utf8')
  if (text === '') throw new Error('vitest ended without writing its results')
  const report = JSON.parse(text)
  /** @type {string[]} */
  const failures = []
  for (const file of report.testResults) {
    const path = String(file.name).slice(root.length)
    const broken = file.assertionResults.filter((/** @type {{ status: string }} */ { status }) => status === 'failed')
    for (const test of broken) failures.push(`${path}: ${test.fullName}`)
    // The file did not load, or its beforeAll failed and all of its tests were skipped.
    if (file.status === 'failed' && broken.length === 0) failures.push(`${path}: ${publicText(String(file.message))}`)
  }
  const { numPassedTests: passed, numPendingTests: pending, numTodoTests: todo } = report
  return { passed, failed: failures.length, skipped: pending + todo, failures }
}

/**
 * The first line, without details of this machine: its directories, and the address of its mirror.
 *
 * @param {string} text
 */
function publicText(text) {
  return (text.split('\n')[0] ?? '').replaceAll(root, '').replaceAll(/\b[a-z+]+:\/\/\S+/g, '(address)')
}

/**
 * Keeps the results of the servers that were not tested this time.
 *
 * @param {string} id
 * @param {import('./compatibility-page.mjs').Result} result
 */
function record(id, result) {
  /** @type {Record<string, import('./compatibility-page.mjs').Result>} */
  let results = {}
  try {
    results = JSON.parse(readFileSync(resultsFile, 'utf8'))
  } catch {
    // This is the first run.
  }
  const order = candidates.map((candidate) => candidate.id)
  const entries = Object.entries({ ...results, [id]: result }).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b))
  writeFileSync(resultsFile, `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`)
  writeCompatibilityPage(Object.fromEntries(entries))
}
