import { crashScenarios, formatTable, ResultTable, testCrashPoints } from '@ackord/testkit/suites'
import { afterAll, describe, it, vi } from 'vitest'
import { crashMatrix } from '../../../../scripts/test-depth.mjs'
import { crashService } from './crash/crash-program.ts'
import { crashWorld } from './crash/crash-world.ts'

vi.setConfig({ testTimeout: 60_000, maxConcurrency: 3 })

const results = new ResultTable()

testCrashPoints(
  // The tests run concurrently: most of the time they wait for processes to start and for leases to expire.
  { describe, it: it.concurrent },
  { name: 'SQLite and RabbitMQ', open: crashWorld(crashService()), matrix: crashMatrix, results },
)

afterAll(() => {
  const order = crashScenarios({ matrix: crashMatrix }).map(({ name }) => name)
  const rows = results.rows.toSorted((one, other) => order.indexOf(one.scenario) - order.indexOf(other.scenario))
  console.log(formatTable(rows))
})
