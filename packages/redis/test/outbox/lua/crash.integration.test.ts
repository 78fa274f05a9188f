import { crashScenarios, formatTable, ResultTable, testCrashPoints } from '@ackord/testkit/suites'
import { afterAll, describe, it, vi } from 'vitest'
import { crashMatrix } from '../../../../../scripts/test-depth.mjs'
import { crashProgram } from '../../support/crash-program.ts'
import { crashWorld } from '../../support/crash-world.ts'

vi.setConfig({ testTimeout: 60_000, maxConcurrency: 4 })

const results = new ResultTable()
const service = crashProgram()

// Edge 4: a real process is killed at every probe: after storing, after claiming, after the confirmation, and before settling.
testCrashPoints(
  // Concurrent, because the tests mostly wait for processes to start and for leases to expire.
  { describe, it: it.concurrent },
  { name: 'Redis (Lua outbox) and RabbitMQ', open: crashWorld(service, 'exclusive', 'lua'), matrix: crashMatrix, results },
)

afterAll(() => {
  const order = crashScenarios({ matrix: crashMatrix }).map(({ name }) => name)
  console.log(formatTable(results.rows.toSorted((one, other) => order.indexOf(one.scenario) - order.indexOf(other.scenario))))
})
