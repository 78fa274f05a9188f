import { describe, expect, it } from 'vitest'
import { formatTable, ResultTable } from '../../src/run/result-table.ts'
import { registerSuite, runScenario } from '../../src/run/scenario.ts'

describe('ResultTable', () => {
  it('has a table per suite, a line per scenario and a column per implementation', () => {
    const row = (implementation: string, scenario: string, result: 'passed' | 'failed', note?: string) => ({
      implementation,
      suite: 'store',
      scenario,
      result,
      note,
    })
    const table = formatTable([row('memory', 'a|b', 'passed'), row('memory', 'c', 'passed', '2 duplicates'), row('sql', 'c', 'failed')])
    expect(table).toBe(
      [
        '| store | memory                | sql    |',
        '| ----- | --------------------- | ------ |',
        '| a\\|b  | passed                | –      |',
        '| c     | passed (2 duplicates) | failed |',
        '',
      ].join('\n'),
    )
  })

  it('contains every result of a suite, also failures', async () => {
    const results = new ResultTable()
    const tests: (() => Promise<void>)[] = []
    const scenarios = [
      { name: 'good', run: async () => 'a note' },
      {
        name: 'bad',
        async run() {
          throw new Error('broken')
        },
      },
    ]
    const runner = { describe: (_: string, body: () => void) => body(), it: (_: string, body: () => Promise<void>) => tests.push(body) }
    registerSuite(runner, { suite: 'store', name: 'memory', scenarios, open: undefined, results })
    await tests[0]?.()
    await expect(tests[1]?.()).rejects.toThrow('broken')
    expect(results.rows.map(({ scenario, result, note }) => [scenario, result, note])).toEqual([
      ['good', 'passed', 'a note'],
      ['bad', 'failed', undefined],
    ])
  })
})

describe('runScenario', () => {
  it('counts a scenario that does not end as failed', async () => {
    const { result, error } = await runScenario({ name: 'endless', run: () => new Promise(() => {}) }, undefined, { timeout: 5 })
    expect(result).toBe('failed')
    expect(String(error)).toContain("'endless' did not end within 5 ms")
  })
})
