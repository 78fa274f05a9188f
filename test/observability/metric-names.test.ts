import { readdirSync, readFileSync } from 'node:fs'
import { metricTable } from '@ackord/core/internal'
import { describe, expect, it } from 'vitest'
import { dashboard } from '../../observability/grafana/build.mjs'
import { dashboardQueries, type Rule, rules, textOf } from './files.ts'
import { knownSeries, problemsIn, prometheusName, resultLabels } from './metric-series.ts'
import { parsePromql } from './promql.ts'

const expressions = [...rules, ...dashboardQueries].map(({ expr }) => expr)

const templateLabels = (text: string) => [...text.matchAll(/\{\{\s*(?:\$labels\.)?(\w+)/g)].map(([, label = '']) => label)

const unknownLabels = ({ expr, annotations }: Rule) =>
  templateLabels(JSON.stringify(annotations)).filter((label) => label !== 'value' && !resultLabels(expr).includes(label))

describe('names in Prometheus', () => {
  it('have underscores, the unit seconds for durations, and _total for counters', () => {
    expect(prometheusName('ackord.outbox.lag', metricTable['ackord.outbox.lag'])).toBe('ackord_outbox_lag_seconds')
    expect(prometheusName('ackord.messages', metricTable['ackord.messages'])).toBe('ackord_messages_total')
    expect(prometheusName('ackord.in_flight', metricTable['ackord.in_flight'])).toBe('ackord_in_flight')
    expect([...knownSeries.keys()]).toEqual(
      expect.arrayContaining(['ackord_duration_seconds_bucket', 'ackord_duration_seconds_sum', 'ackord_duration_seconds_count']),
    )
    expect(knownSeries.has('ackord_duration_seconds')).toBe(false)
  })
})

describe('the rules', () => {
  it.each(rules)('name metrics and labels that exist: $alert', ({ expr }) => {
    expect(problemsIn(expr)).toEqual([])
  })

  it.each(rules)('use labels in their texts that the result of the expression has: $alert', (rule) => {
    expect(unknownLabels(rule)).toEqual([])
    expect(templateLabels(rule.annotations.description).length).toBeGreaterThan(0)
  })
})

describe('the dashboard', () => {
  it.each(dashboardQueries)('names metrics and labels that exist: $panel, $legend', ({ expr, legend }) => {
    expect(problemsIn(expr)).toEqual([])
    expect(templateLabels(legend).filter((label) => !resultLabels(expr).includes(label))).toEqual([])
  })

  it('offers a choice of labels that exist', () => {
    const definitions = dashboard.templating.list.flatMap((variable) => ('definition' in variable ? [variable.definition] : []))
    expect(definitions).toHaveLength(3)
    for (const definition of definitions) {
      const [, metric, label] = /^label_values\((\w*)\{.*\}, (\w+)\)$/.exec(definition) ?? []
      if (metric !== '') expect(problemsIn(`count by (${label}) (${metric})`)).toEqual([])
      else expect(['job', 'instance']).toContain(label)
    }
  })
})

// The sources without the table, which names every metric whether anything emits it or not.
const sources = readdirSync(new URL('../../packages', import.meta.url))
  .flatMap((name) => {
    const folder = new URL(`../../packages/${name}/src/`, import.meta.url)
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => new URL(file, folder))
  })
  .filter(({ pathname }) => pathname.endsWith('.ts') && !pathname.endsWith('/metric-table.ts'))
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n')

describe('every metric in rules and dashboard', () => {
  const used = expressions.flatMap((expr) => parsePromql(expr).selectors).flatMap(({ metric }) => knownSeries.get(metric)?.metric ?? [])

  it.each([...new Set(used)])('is emitted somewhere: %s', (name) => {
    // The names of claims and settles are assembled.
    const assembled = name.replace(/\b(?:claim|settle)_duration$/, `\${what}_duration`)
    expect([`'${name}'`, `\`${assembled}\``].some((literal) => sources.includes(literal))).toBe(true)
  })
})

describe.each(['docs/guides/operating.md', 'observability/README.md'])('%s', (file) => {
  it('names metrics that exist', () => {
    const text = textOf(file)
    const named = [...text.matchAll(/\backord_[a-z]+(?:_[a-z]+)*/g)].map(([name]) => name)
    const atPort = [...text.matchAll(/`(ackord\.[a-z_.]+)/g)].map(([, name = '']) => name)
    expect(named.length).toBeGreaterThan(0)
    expect(named.filter((name) => !knownSeries.has(name))).toEqual([])
    expect(atPort.filter((name) => !(name in metricTable) && !name.startsWith('ackord.rules.'))).toEqual([])
  })
})

describe('the check', () => {
  it.each([
    [
      'a metric that does not exist',
      'ackord_outbox_destination_lag_seconds',
      'ackord_outbox_destination_delay_seconds',
      'There is no metric',
    ],
    ['a gauge with the suffix of a counter', 'ackord_outbox_store_down)', 'ackord_outbox_store_down_total)', 'There is no metric'],
    ['a duration without its unit', 'destination_lag_seconds', 'destination_lag', 'There is no metric'],
    ['a label that the metric does not have', '{state="parked"}', '{status="parked"}', 'has no label status'],
    ['a value that the label does not have', '{state="parked"}', '{state="dead"}', 'has no state "dead"'],
    [
      'a grouping by a label that the metric does not have',
      'max by (job) (ackord',
      'max by (destination) (ackord',
      'has no label destination',
    ],
    ['the rate of a gauge', 'increase(ackord_settle_failed_total[', 'increase(ackord_in_flight[', 'is a gauge'],
  ])('refuses %s', (_, right, wrong, problem) => {
    const [rule] = rules.filter(({ expr }) => expr.includes(right))
    expect(problemsIn(rule?.expr.replaceAll(right, wrong) ?? '').join('\n')).toContain(problem)
  })

  it('refuses a histogram without the suffix of its parts', () => {
    expect(problemsIn('ackord_duration_seconds')).toEqual(['There is no metric ackord_duration_seconds.'])
  })

  it('refuses a text with a label that the result of the expression does not have', () => {
    const [rule] = rules
    if (rule === undefined) throw new Error('There are no rules.')
    expect(unknownLabels({ ...rule, expr: rule.expr.replace('job, destination', 'job') })).toContain('destination')
  })
})
