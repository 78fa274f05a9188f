import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { anchorsOf } from '../../scripts/docs-links.mjs'
import { type Rule, rules, textOf } from './files.ts'
import { knownSeries } from './metric-series.ts'
import { parsePromql } from './promql.ts'

const guide = textOf('docs/guides/operating.md')
const rows = [...guide.matchAll(/^\| (?:`(Ackord\w+)`|no rule) \| (.*?) \| (.*?) \| (.*?) \|$/gm)].map(
  ([, alert, metric = '', when = '', respond = '']) => ({
    alert,
    metric,
    when,
    respond,
  }),
)

describe('the table of alerts in docs/guides/operating.md', () => {
  it('has one row for each rule, in the same order, and reasons for the rows without a rule', () => {
    expect(rows.flatMap(({ alert }) => alert ?? [])).toEqual(rules.map(({ alert }) => alert))
    const others = rows.filter(({ alert }) => alert === undefined)
    expect(others.length).toBeGreaterThan(0)
    for (const { when } of others) expect(when).toMatch(/: .* has the metric/)
  })

  it.each(rules)('has the metric, the duration and the section of $alert', ({ alert, expr, for: duration, annotations }) => {
    const row = rows.find((each) => each.alert === alert)
    const [, metric] = /^`(ackord\.[a-z_.]+)(?:\{.*\})?`$/.exec(row?.metric ?? '') ?? []
    const [selector] = parsePromql(expr).selectors
    expect(metric).toBe(knownSeries.get(selector?.metric ?? '')?.metric)
    const [, minutes] = /for (\d+) minutes/.exec(row?.when ?? '') ?? []
    expect(minutes).toBe(duration?.replace('m', ''))
    const [, anchor] = /\(#([\w-]+)\)$/.exec(row?.respond ?? '') ?? []
    expect(annotations.runbook_url).toBe(`docs/guides/operating.md#${anchor}`)
    expect(anchorsOf(guide)).toContain(anchor)
  })

  it('is followed by rules that are those of the file, without their texts', () => {
    const [, block = ''] = /```yaml\n([\s\S]*?)```/.exec(guide) ?? []
    // The comparison checks its structure.
    const shown = parse(block) as readonly Partial<Rule>[]
    expect(shown.length).toBeGreaterThan(3)
    const withoutTexts = rules.map(({ alert, expr, for: duration }) => ({ alert, expr, ...(duration !== undefined && { for: duration }) }))
    for (const rule of shown) expect(withoutTexts).toContainEqual(rule)
  })
})

describe('the rules', () => {
  it.each(rules)('have a severity and a text with the name of the service: $alert', ({ labels, annotations }) => {
    expect(['warning', 'critical']).toContain(labels.severity)
    expect(annotations.summary).toMatch(/\{\{ \$labels\.\w+ \}\}.*\.$/)
    expect(annotations.description).toContain('{{ $labels.job }}')
  })
})
