// @ts-check
// Which test files belong to which target. The configurations of vitest and scripts/proof.mjs read it.
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Tests of what users read and copy: they compile and run whole programs. `make test-docs` runs them. */
export const documentTests = [
  'scripts/test/{readme,docs-code,docs-defaults,documents}.test.ts',
  'scripts/test/{docs-run,job-queues,own-broker,payload-guide,site}.integration.test.ts',
  'packages/create-ackord/test/project/generated-code.test.ts',
  'examples/*/test/**/*.test.ts',
]

/** The test files of packages, and of what crosses them. */
export const testFiles = ['test', 'proof/test', ...readdirSync(`${root}packages`).map((name) => `packages/${name}/test`)].flatMap(
  (folder) =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.test.ts') && !file.includes('node_modules'))
      .map((file) => `${folder}/${file}`),
)

/**
 * The same tests in every other combination: each ORM and client beyond the first, the demo on every store and broker, each HTTP server killed on each store, AMQP 1.0; and the
 * tests of the tests: the mutants of the suites, and the simulation. `make test-matrix` runs them, and so does `make proof`.
 */
export const matrixTests = select([
  /^packages\/sql\/test\/postgres\/orm\/(knex|kysely|mikro-orm|prisma|sequelize|typeorm)\.integration\.test\.ts$/,
  /^packages\/sql\/test\/mysql\/orm\/(drizzle|knex|kysely|prisma|typeorm)\.integration\.test\.ts$/,
  /^packages\/sql\/test\/postgres\/client\/from-pg-native\.integration\.test\.ts$/,
  /^packages\/cli\/test\/demo\/demo[^/]*\.test\.ts$/,
  /^packages\/http\/test\/idempotency\/crash\.integration\.test\.ts$/,
  /^packages\/testkit\/test\/suites\/.*-mutants\.test\.ts$/,
  /^proof\/test\/simulation\/.*\.test\.ts$/,
  // They need RabbitMQ 4, which is downloaded.
  /^packages\/amqp\/test\/.*\.integration\.test\.ts$/,
  /^test\/pipeline\/amqp-pipeline\.integration\.test\.ts$/,
])

/**
 * Only `make proof` runs these: crashes of services with inbox partitions, whose inbox statement `make test` covers without them, and crashes of services in log mode and with
 * batch handlers, which take long.
 */
export const proofTests = select([
  /^packages\/sql\/test\/inbox\/partition-crashes\.integration\.test\.ts$/,
  /^packages\/sql\/test\/postgres\/log\/crash-points\.integration\.test\.ts$/,
  /^packages\/sql\/test\/postgres\/batch-crash-points\.integration\.test\.ts$/,
])

/**
 * A pattern that selects nothing is a mistake: the file that it named has moved, and runs in another target.
 *
 * @param {readonly RegExp[]} patterns
 */
function select(patterns) {
  return patterns.flatMap((pattern) => {
    const found = testFiles.filter((file) => pattern.test(file))
    if (found.length === 0) throw new Error(`No test file matches ${pattern} of scripts/test-selection.mjs.`)
    return found
  })
}
