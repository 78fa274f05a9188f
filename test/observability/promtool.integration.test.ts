import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { canAptInstall } from '../../scripts/servers/apt-install.mjs'
import { planTool } from '../../scripts/servers/tools.mjs'
import { dashboardQueries, folder, type Rule, type RuleTests, rules, yamlOf } from './files.ts'
import { type PromtoolResult, runPromtool } from './promtool.ts'

const tests = yamlOf<RuleTests>('prometheus/ackord.rules.test.yaml')

describe('the alert rules', () => {
  it('are valid, as is the configuration of Prometheus that loads them', async () => {
    const { code, output } = await runPromtool(['check', 'config', `${folder}prometheus/prometheus.yml`])
    expect(output).toContain(`SUCCESS: ${rules.length} rules found`)
    expect(code).toBe(0)
  })

  it('fire in the played outages at the right time, and resolve', async () => {
    const { code, output } = await runPromtool(['test', 'rules', `${folder}prometheus/ackord.rules.test.yaml`])
    expect(output).toContain('SUCCESS')
    expect(code).toBe(0)
  })

  it.each(rules)('include $alert, which is expected before, during and after its outage', ({ alert }) => {
    const outages = tests.tests.map(({ alert_rule_test: expectations }) => {
      const own = expectations.filter(({ alertname }) => alertname === alert)
      return own.map(({ exp_alerts: expected }) => (expected.length > 0 ? 'fires' : 'absent')).join(' ')
    })
    expect(outages).toContainEqual(expect.stringMatching(/^absent.* fires.* absent$/))
  })

  // Each mutant is a copy of all rules with a mistake in one of them.
  describe.each(rules)('refuse a mutant of $alert', (rule) => {
    const alwaysTrue = rule.expr.replaceAll(/(?:>|==) [\d.]+/g, '>= 0').replace(/\s+unless group by[\s\S]*/, '')
    const mutants: readonly (readonly [string, Rule])[] = [
      ['fires too late', { ...rule, for: '2h' }],
      ['never resolves', { ...rule, expr: alwaysTrue }],
      ...(rule.for === undefined ? [] : [['fires too early', { ...rule, for: '0s' }] as const]),
    ]

    it.each(mutants)('that %s', async (_, mutant) => {
      const { code, output } = await playOutagesOf(mutant)
      expect(output).toMatch(new RegExp(`FAILED:[\\s\\S]*alertname: ?${rule.alert}`))
      expect(code).not.toBe(0)
    })
  })
})

function playOutagesOf(rule: Rule): Promise<PromtoolResult> {
  const own = tests.tests.filter(({ alert_rule_test: expectations }) => expectations.some(({ alertname }) => alertname === rule.alert))
  const mutated = rules.map((each) => (each.alert === rule.alert ? rule : each))
  return runPromtool(['test', 'rules', 'test.yaml'], {
    'ackord.rules.yaml': { groups: [{ name: 'ackord', rules: mutated }] },
    'test.yaml': { ...tests, tests: own },
  })
}

describe('the queries of the dashboard', () => {
  const check = (expressions: readonly string[]) => {
    const recording = expressions.map((expr, index) => ({ record: `query:${index}`, expr: expr.replaceAll('$__rate_interval', '5m') }))
    return runPromtool(['check', 'rules', 'queries.yaml'], { 'queries.yaml': { groups: [{ name: 'queries', rules: recording }] } })
  }

  it('are valid PromQL', async () => {
    expect(dashboardQueries.length).toBeGreaterThan(30)
    const { code, output } = await check(dashboardQueries.map(({ expr }) => expr))
    expect(output).toContain(`SUCCESS: ${dashboardQueries.length} rules found`)
    expect(code).toBe(0)
  })

  it('would be refused with a mistake in one of them', async () => {
    const { code, output } = await check([...dashboardQueries.map(({ expr }) => expr), 'sum by (job (ackord_in_flight)'])
    expect(output).toContain('could not parse expression')
    expect(code).not.toBe(0)
  })
})

describe('scripts/services', () => {
  it('finds the tool', () => {
    const services = fileURLToPath(new URL('../../scripts/services', import.meta.url))
    const { status, stdout } = spawnSync(services, ['check', '--only', 'promtool'], { encoding: 'utf8' })
    expect(stdout).toMatch(/^promtool +installed: \/.*\/promtool\n$/)
    expect(status).toBe(0)
  })

  it('installs a missing tool where it may, and otherwise says what to do', () => {
    const plan = planTool({ name: 'thing', debianPackage: 'things', locate: () => undefined })
    if (canAptInstall()) expect(plan).toMatchObject({ source: 'installable' })
    else expect(plan).toMatchObject({ source: 'missing', reason: 'not found: install things (its name in Debian)' })
  })
})
