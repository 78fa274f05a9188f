// @ts-check
import { drawCharts } from './charts.mjs'
import { peersSection } from './peers-section.mjs'
import { pipelineTable } from './pipeline-section.mjs'

const head = `# Benchmarks

What Ackord costs, compared with the same work written by hand. Each ratio is the throughput of Ackord divided by that of hand-written code, or of the client alone, on the same driver and the same server, in the same run: the two take turns,
round by round. A ratio of 1 means that it costs nothing, 0.8 that it takes a fifth of the throughput, more than 1 that it is faster than the code it replaces.

Ratios are worth more than rates: rates of different machines cannot be compared. To see those of your machine, run \`make bench\`, or for your own store \`ackord bench --store <url>\`. This page and its charts are made from
\`docs/benchmarks.json\` by \`node scripts/plots.mjs\`; with \`--measure\` it runs the benchmarks first. What to change when something is too slow: [tuning](guides/tuning.md).
`

/** @param {import('./charts.mjs').Results} results @returns {string} docs/benchmarks.md */
export function benchmarksPage(results) {
  const append = results['lua']?.figures['append_ratio']
  const { peers, pipeline } = results
  const charts = drawCharts(results).map(({ chart }) => chart)
  const ofPeers = charts.filter(({ file }) => file.startsWith('peers-'))
  return [
    head,
    ...charts.filter((chart) => !ofPeers.includes(chart)).map((chart) => `## ${chartSection(chart)}`),
    ...(pipeline === undefined ? [] : [`### All figures of the way of an order\n\n${pipelineTable(pipeline)}`]),
    ...(typeof append === 'number'
      ? [
          `## The Lua outbox\n\nStoring events one by one, 50 at once, has ${append.toFixed(2)} times the throughput of its own script called by hand once per event: calls that wait at the same time are sent together.\n`,
        ]
      : []),
    ...(peers === undefined ? [] : [peersSection(peers, ofPeers.map((chart) => `### ${chartSection(chart)}\n`).join(''))]),
    '## When and where\n',
    '| benchmark | measured | figures | on | versions |\n|---|---|---|---|---|',
    ...Object.entries(results).map(([name, { measured, machine, versions, figures }]) => {
      const list = Object.entries(versions).map((version) => version.join(' '))
      // Earlier versions of the benchmarks kept only the least disturbed round.
      const kind = Object.keys(figures).some((figure) => figure.endsWith('_min')) ? 'medians of the rounds' : 'best round'
      return `| \`${name}\` | ${measured} | ${kind} | ${machine} | ${list.join(', ')} |`
    }),
    '',
  ].join('\n')
}

/** @param {import('./charts.mjs').Chart} chart */
function chartSection({ file, title, subtitle, about }) {
  return `${title}\n\n![${title}: ${subtitle}](public/plots/${file})\n\n${about}\n`
}
