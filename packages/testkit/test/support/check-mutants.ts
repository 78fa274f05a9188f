import type { describe as Describe, expect as Expect, it as It } from 'vitest'
import { runScenario, type Scenario } from '../../src/run/scenario.ts'
import type { Mutant } from './mutant.ts'

/** Proves the suites: every scenario passes on the correct implementation and fails on each of its mutants, by an assertion and not by a time-out. */
export function checkMutants<Open>(
  scenarios: readonly Scenario<Open>[],
  mutants: readonly Mutant<Open>[],
  correct: Open,
  { describe, expect, it }: { describe: typeof Describe; expect: typeof Expect; it: typeof It },
): void {
  describe('mutants', () => {
    it('are there for every scenario, and every name is used once', () => {
      const names = scenarios.map(({ name }) => name)
      expect(new Set(names).size).toBe(names.length)
      expect(new Set(mutants.map(({ caughtBy }) => caughtBy))).toEqual(new Set(names))
    })

    it.each(mutants.map(({ caughtBy, name, open }) => ({ caughtBy, name, open })))('$caughtBy: $name', async ({ caughtBy, open }) => {
      const scenario = scenarios.find(({ name }) => name === caughtBy)
      if (scenario === undefined) throw new Error(`no scenario '${caughtBy}'`)
      expect(await runScenario(scenario, correct)).toMatchObject({ result: 'passed' })
      const { result, error } = await runScenario(scenario, open, { timeout: 10_000 })
      expect(result).toBe('failed')
      expect(String(error)).not.toContain('did not end within 10000 ms')
    })
  })
}
