import { crashScenarios, formatTable, ResultTable, testCrashPoints } from '@ackord/testkit/suites'
import { afterAll, describe, it, vi } from 'vitest'
import { isProof, crashMatrix as matrix } from '../../../../scripts/test-depth.mjs'
import { crashProgram } from '../support/crash-program.ts'
import { crashWorld } from '../support/crash-world.ts'

vi.setConfig({ testTimeout: 60_000, maxConcurrency: 4 })

const results = new ResultTable()
const service = crashProgram()

for (const mode of isProof ? (['exclusive', 'optimistic'] as const) : (['exclusive'] as const)) {
  testCrashPoints(
    // Concurrent, because the tests mostly wait for processes to start and for leases to expire.
    { describe, it: it.concurrent },
    { name: `Redis (ioredis, ${mode}) and RabbitMQ`, open: crashWorld(service, mode), matrix, results },
  )
}

afterAll(() => {
  const order = crashScenarios({ matrix }).map(({ name }) => name)
  const rows = results.rows.toSorted((one, other) => order.indexOf(one.scenario) - order.indexOf(other.scenario))
  console.log(formatTable(rows))
})
