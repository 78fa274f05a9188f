// @ts-check
// The Grafana dashboard: `node observability/grafana/build.mjs` writes ackord.json, and a test compares the two.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rows } from './panels.mjs'

/** @typedef {import('./panels.mjs').Panel} Panel */

const datasource = { type: 'prometheus', uid: '$datasource' }

/** @param {Panel} panel */
function optionsOf({ type }) {
  if (type === 'stat') return { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: 'background', graphMode: 'area' }
  if (type === 'state-timeline') return { showValue: 'never', legend: { showLegend: false } }
  return { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } }
}

/** @param {Panel} panel @param {{ id: number, x: number, y: number, h: number }} place */
function panelOf(panel, { id, x, y, h }) {
  const { type, title, description, unit, queries, width, redFrom } = panel
  const steps = [{ color: 'green', value: null }, ...(redFrom === undefined ? [] : [{ color: 'red', value: redFrom }])]
  const isGraph = type === 'timeseries'
  return {
    id,
    type,
    title,
    description,
    datasource,
    gridPos: { x, y, w: width, h },
    targets: queries.map(({ expr, legend }, index) => ({ refId: 'ABC'[index], datasource, expr, legendFormat: legend })),
    fieldConfig: {
      defaults: {
        unit,
        ...(isGraph ? { min: 0, color: { mode: 'palette-classic' } } : { color: { mode: 'thresholds' } }),
        thresholds: { mode: 'absolute', steps },
        ...(isGraph && {
          custom: { fillOpacity: 10, showPoints: 'never', thresholdsStyle: { mode: redFrom === undefined ? 'off' : 'dashed' } },
        }),
      },
      overrides: [],
    },
    options: optionsOf(panel),
  }
}

function panels() {
  const all = []
  let y = 0
  for (const [title, members] of rows) {
    all.push({ id: all.length + 1, type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: 24, h: 1 }, panels: [] })
    y += 1
    let x = 0
    const h = members[0]?.type === 'stat' ? 4 : 8
    for (const panel of members) {
      if (x + panel.width > 24) [x, y] = [0, y + h]
      all.push(panelOf(panel, { id: all.length + 1, x, y, h }))
      x += panel.width
    }
    y += h
  }
  return all
}

/** A choice of values of a label. @param {string} name @param {string} series */
function labelVariable(name, series) {
  const definition = `label_values(${series}, ${name})`
  return {
    name,
    type: 'query',
    datasource,
    definition,
    query: { query: definition, refId: name },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: ['All'], value: ['$__all'] },
  }
}

export const dashboard = {
  uid: 'ackord',
  title: 'Ackord',
  description: 'Inbox, outbox and relay of services that process messages.',
  tags: ['ackord'],
  schemaVersion: 42,
  editable: true,
  graphTooltip: 1,
  refresh: '30s',
  time: { from: 'now-1h', to: 'now' },
  templating: {
    list: [
      { name: 'datasource', label: 'data source', type: 'datasource', query: 'prometheus' },
      labelVariable('job', '{__name__=~"ackord_.+"}'),
      labelVariable('instance', '{__name__=~"ackord_.+", job=~"$job"}'),
      labelVariable('destination', 'ackord_outbox_attempts_total{job=~"$job"}'),
    ],
  },
  panels: panels(),
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = fileURLToPath(new URL('ackord.json', import.meta.url))
  writeFileSync(file, JSON.stringify(dashboard))
  execFileSync('npx', ['biome', 'format', '--write', file], { stdio: 'inherit' })
}
