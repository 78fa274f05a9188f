import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { dashboard } from '../../observability/grafana/build.mjs'

const root = fileURLToPath(new URL('../../', import.meta.url))
export const folder: string = `${root}observability/`

export interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string }
}

/** The tests that `promtool test rules` runs. */
export interface RuleTests {
  readonly rule_files: readonly string[]
  readonly evaluation_interval: string
  readonly tests: readonly {
    readonly name: string
    readonly alert_rule_test: readonly { readonly alertname: string; readonly eval_time: string; readonly exp_alerts: readonly unknown[] }[]
  }[]
}

/** `file`: relative to the repository. */
export const textOf = (file: string): string => readFileSync(root + file, 'utf8')

/** A YAML file of `observability/`. The caller names its structure, which the tests check. */
export const yamlOf = <T>(file: string): T => parse(textOf(`observability/${file}`)) as T

export const rules: readonly Rule[] = yamlOf<{ groups: readonly { rules: readonly Rule[] }[] }>(
  'prometheus/ackord.rules.yaml',
).groups.flatMap((group) => group.rules)

export interface DashboardQuery {
  readonly panel: string
  readonly expr: string
  readonly legend: string
}

export const dashboardQueries: readonly DashboardQuery[] = dashboard.panels.flatMap((panel) =>
  'targets' in panel ? panel.targets.map(({ expr, legendFormat }) => ({ panel: panel.title, expr, legend: legendFormat })) : [],
)
