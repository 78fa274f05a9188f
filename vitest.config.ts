import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { kafkaHome } from './scripts/servers/kafka-distribution.mjs'
import { isRealKafka } from './scripts/servers/kafka-protocol.mjs'
import { isProof } from './scripts/test-depth.mjs'
import { documentTests, matrixTests, proofTests } from './scripts/test-selection.mjs'

// vitest hands these to Node. Not `import`: CommonJS packages would then get the ESM form of what they require. Not `module`: that form is for bundlers, and Node cannot
// load it in @opentelemetry/api.
const conditions = ['@ackord/source', 'node']

/** Files that wait for leases, groups and processes for up to a minute. Started last, they would keep one worker busy while the others have ended. */
const slow = /crash|demo|dead-letters|kafka|faults|topolog|pipeline|every-step|order-conformance|relay\/(relay|interruptions)/

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => (slow.test(moduleId) ? 0 : 1)
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

/** What only a real Kafka can show: the one that KAFKA_URL names, and brokers of its own from the distribution in KAFKA_HOME. `make test-kafka` runs them. */
const realKafkaTests = [
  ...((await isRealKafka(process.env['KAFKA_URL'])) ? [] : ['packages/kafka/test/real/*.test.ts']),
  ...(kafkaHome() === undefined ? ['packages/kafka/test/real/own-broker/*.test.ts'] : []),
]

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts', 'scripts/test/**/*.test.ts', 'proof/test/**/*.test.ts'],
    exclude: ['**/node_modules/**', ...documentTests, ...realKafkaTests, ...(isProof ? [] : [...matrixTests, ...proofTests])],
    // The compiler needs a core for half a minute; `make test-matrix` runs it.
    typecheck: { enabled: false, include: ['packages/*/test/**/*.test-d.ts'], tsconfig: './tsconfig.types.json' },
    // For a test that hangs; a busy machine takes its time. The whole matrix of kills has tests that run for a minute without hanging.
    testTimeout: isProof ? 300_000 : 60_000,
    hookTimeout: 60_000,
    // The default is one second, in which a busy machine may not finish what a test waits for.
    expect: { poll: { timeout: 30_000 } },
    // What is left behind is found and removed at the end.
    teardownTimeout: 60_000,
    // Most tests wait for servers: with three workers two cores are idle for a third of the time. With six they are busy, and a tenth of that is loading modules.
    maxWorkers: 5,
    // A worker keeps its modules from file to file: starting a process and loading the drivers took a third of the processor's time. Tests undo what they
    // change in globals.
    isolate: false,
    sequence: { sequencer: SlowFirst },
    setupFiles: ['test/leftovers/setup-file.ts'],
    // What Redis is sent during the whole run must be known to 6.0. Nothing must be left of it.
    globalSetup: ['packages/redis/test/support/record-run.ts', 'test/leftovers/leftovers.ts'],
    // A focused test that slipped in would hide every other one.
    allowOnly: false,
  },
})
