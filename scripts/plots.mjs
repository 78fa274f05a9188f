// @ts-check
// Writes docs/benchmarks.md and its charts from docs/benchmarks.json. With --measure it runs the benchmarks first, all or the named ones, and updates that file:
//     node scripts/plots.mjs
//     scripts/services run --only postgres,mariadb,redis,rabbitmq,nats -- node scripts/plots.mjs --measure sql redis peers
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { serverVersions } from './server-versions.mjs'
import { benchmarksPage } from './site/benchmarks-page.mjs'
import { charts, drawCharts } from './site/charts.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const results = join(root, 'docs/benchmarks.json')
const folder = join(root, 'docs/public/plots')
const benchmarks = [...new Set(charts.flatMap(({ bars }) => bars.map(([benchmark]) => benchmark))), 'lua']

const { values, positionals } = parseArgs({ allowPositionals: true, options: { measure: { type: 'boolean', default: false } } })
const unknown = positionals.filter((name) => !benchmarks.includes(name))
if (unknown.length > 0 || (positionals.length > 0 && !values.measure)) {
  console.error(`node scripts/plots.mjs [--measure [${benchmarks.join(' | ')} …]]`)
  process.exit(2)
}

if (values.measure) await measure(positionals.length > 0 ? positionals : benchmarks)
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const { chart, svg } of drawCharts(readResults())) writeFileSync(join(folder, chart.file), svg)
writeFileSync(join(root, 'docs/benchmarks.md'), benchmarksPage(readResults()))

/** @returns {import('./site/charts.mjs').Results} */
function readResults() {
  return JSON.parse(readFileSync(results, 'utf8'))
}

/** Runs the benchmarks and stores their figures, one after the other: a failure keeps those of the earlier ones. @param {readonly string[]} names */
async function measure(names) {
  for (const name of names) {
    console.log(`Measuring ${name}.`)
    const { stdout, status } = spawnSync(process.execPath, [join(root, 'scripts/bench.mjs'), name, '--json'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    if (status !== 0) throw new Error(`The benchmark '${name}' failed.`)
    const { versions = {}, settings, ...figures } = JSON.parse(stdout)
    const result = {
      measured: new Date().toISOString().slice(0, 10),
      machine: `${availableParallelism()} cores, servers on the same machine`,
      versions: { Node: process.versions.node, ...versions, ...(await serverVersions(process.env)) },
      figures,
      settings,
    }
    writeFileSync(results, `${JSON.stringify({ ...readResults(), [name]: result }, undefined, 2)}\n`)
  }
}
