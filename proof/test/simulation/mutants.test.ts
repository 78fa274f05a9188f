import { ResultTable } from '@ackord/testkit/suites'
import { afterAll, describe, expect, it } from 'vitest'
import { isProof } from '../../../scripts/test-depth.mjs'
import { invariants } from '../../src/simulation/plan/invariants.ts'
import { simulationRules } from '../../src/simulation/plan/simulation-rules.ts'
import { reportFailure, searchHistories, simulate } from '../../src/simulation/simulate.ts'
import { simulationMutants } from '../../src/simulation/simulation-mutants.ts'

const table = new ResultTable()
afterAll(() => console.log(table.format()))

describe('mutants', () => {
  it('have names of their own, and there is one for every rule and every invariant', () => {
    expect(new Set(simulationMutants.map(({ name }) => name)).size).toBe(simulationMutants.length)
    expect(new Set(simulationMutants.flatMap(({ broken }) => Object.keys(broken)))).toEqual(new Set(Object.keys(simulationRules)))
    expect(new Set(simulationMutants.map(({ breaks }) => breaks))).toEqual(new Set(Object.keys(invariants)))
  })

  it.each(simulationMutants)('are found by their pinned seeds: $name', async ({ name, pitfall, broken, breaks, seed }) => {
    const { violations } = await simulate(seed, { broken })
    expect(violations.map(({ invariant }) => invariant)).toContain(breaks)
    // It is the defect that is found, not the history.
    const right = await simulate(seed)
    expect(right.violations.length === 0 ? '' : await reportFailure(right)).toBe('')
    const note = `${pitfall}; breaks ${breaks}; ${seed} ${seed === 1 ? 'history' : 'histories'}, seed ${seed}`
    table.add({ suite: 'simulation: mutants', implementation: 'found', scenario: name, result: 'passed', note })
  })
})

if (isProof) {
  describe('the numbers of histories', () => {
    it.each(simulationMutants)('are what a search from seed 1 needs: $name', { timeout: 600_000 }, async ({ broken, breaks, seed }) => {
      const { failure, histories } = await searchHistories(2000, { broken })
      expect({ histories, seed: failure?.plan.seed }).toEqual({ histories: seed, seed })
      expect(failure?.violations.map(({ invariant }) => invariant)).toContain(breaks)
    })
  })
}
