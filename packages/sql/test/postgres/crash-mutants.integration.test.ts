import { crashScenarios, runScenario } from '@ackord/testkit/suites'
import { describe, expect, it, vi } from 'vitest'
import { isProof } from '../../../../scripts/test-depth.mjs'
import { crashMutants } from './crash/crash-mutants.ts'
import { crashService } from './crash/crash-program.ts'
import { crashWorld } from './crash/crash-world.ts'

vi.setConfig({ testTimeout: 60_000, maxConcurrency: 4 })

const service = crashService()
const scenarios = crashScenarios()
// The scenarios of the brief matrix, which every store runs; `make proof` runs all of them.
const brief = new Set(crashScenarios({ matrix: 'brief' }).map(({ name }) => name))
const mutants = isProof ? crashMutants : crashMutants.filter(({ caughtBy }) => brief.has(caughtBy))

/** Validates the test kit itself: each service breaks one rule, and its scenario must detect that and report the reason. */
describe('services that break a rule', () => {
  it('exist for every scenario', () => {
    expect(new Set(crashMutants.map(({ caughtBy }) => caughtBy))).toEqual(new Set(scenarios.map(({ name }) => name)))
  })

  // Run concurrently: most of the time they wait for leases and for timeouts.
  it.concurrent.each(mutants)('$caughtBy: $name', async ({ name, caughtBy, says }) => {
    const scenario = scenarios.find((candidate) => candidate.name === caughtBy)
    if (scenario === undefined) throw new Error(`There is no scenario '${caughtBy}'.`)
    const { result, error } = await runScenario(scenario, crashWorld(service, { mutant: name, patience: 8000 }))
    expect(result).toBe('failed')
    expect(String(error)).toMatch(says)
  })
})
