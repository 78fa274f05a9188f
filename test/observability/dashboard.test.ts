import { describe, expect, it } from 'vitest'
import { dashboard } from '../../observability/grafana/build.mjs'
import { textOf } from './files.ts'

const panels = dashboard.panels.flatMap((panel) => ('targets' in panel ? [panel] : []))

describe('the dashboard', () => {
  it('is the output of its script: node observability/grafana/build.mjs', () => {
    expect(JSON.parse(textOf('observability/grafana/ackord.json'))).toEqual(dashboard)
  })

  it.each(panels)('has a description, a unit and queries of the chosen data source in the panel $title', (panel) => {
    expect(panel.description).toMatch(/^\p{Lu}.*\.$/u)
    expect(panel.fieldConfig.defaults.unit).not.toBe('')
    expect(panel.targets.length).toBeGreaterThan(0)
    for (const { refId, datasource, expr } of panel.targets) {
      expect(refId).toMatch(/^[A-Z]$/)
      expect(datasource.uid).toBe('$datasource')
      // The variables at the top of the page select services and processes in every panel.
      expect(expr.match(/\{/g)?.length).toBe(expr.match(/\{job=~"\$job", instance=~"\$instance"/g)?.length)
    }
  })

  it('has panels beside and below each other, never on top of each other', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)}, ${y + Math.floor(cell / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(dashboard.panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true)
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
  })
})
