import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { pages } from '../docs-links.mjs'
import { benchmarksPage } from '../site/benchmarks-page.mjs'
import { drawCharts, type Results } from '../site/charts.mjs'
import { root, typescriptBlocks } from './docs-blocks.ts'

const read = (file: string) => readFileSync(root + file, 'utf8')
const drawings = readdirSync(`${root}docs/public`, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.svg'))

/** The lines of code blocks that are longer than the column of the site at 1280 pixels; the font size in docs/.vitepress/theme/style.css belongs to it. */
function longLines(markdown: string): string[] {
  const longest = 92
  return [...markdown.matchAll(/^ *```.*\n([\s\S]*?)^ *```$/gm)].flatMap(([, code = '']) =>
    code.split('\n').filter((line) => line.length > longest),
  )
}

describe('the front page', () => {
  it('shows the same example in the README, where it is run, and on the site', () => {
    const [answer] = typescriptBlocks('README.md')
    expect(typescriptBlocks('docs/index.md').map(({ code }) => code)).toEqual([answer?.code])
    expect(answer?.code.split('\n').filter((line) => line !== '').length).toBeLessThanOrEqual(20)
  })

  it.each(['README.md', 'docs/index.md'])('says the problem, the answer and how to start, in this order: %s', (file) => {
    const headings = [...read(file).matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
    expect(headings.slice(0, 3)).toEqual(['The problem', 'The answer', 'Start in 60 seconds'])
    expect(read(file)).toContain('demo.svg')
    expect(read(file)).toContain('plots/handling.svg')
  })
})

describe('the picture of the problem', () => {
  it.each(['README.md', 'docs/.vitepress/theme/index.mjs'])('is shown by %s', (file) => {
    expect(read(file)).toContain('/dual-write.svg')
  })
})

describe('the code on the pages of the site', () => {
  it('is found with its long lines', () => {
    const long = 'x'.repeat(93)
    expect(longLines(`${long}\n\`\`\`ts\n${long}\n\`\`\`\n1. y\n   \`\`\`sh\n   ${long}\n   \`\`\`\n`)).toEqual([long, `   ${long}`])
  })

  it.each(['README.md', ...pages().map(({ file }) => file)])('does not scroll sideways on a desktop: %s', (file) => {
    expect(longLines(read(file))).toEqual([])
  })
})

describe('the drawings', () => {
  it.each(drawings.filter((name) => !['logo.svg', 'favicon.svg'].includes(name)))('are described in words, light and dark: %s', (name) => {
    const svg = read(`docs/public/${name}`)
    expect(svg).toMatch(/<svg [^>]*role="img" aria-labelledby="\S+ \S+"/)
    expect(svg).toMatch(/<title id="[^"]+">.+<\/title>\s*<desc id="[^"]+">.{40,}<\/desc>/)
    expect(svg).toMatch(/@media \(prefers-color-scheme: ?dark\)/)
  })

  it.each(drawings)('load nothing: %s', (name) => {
    const svg = read(`docs/public/${name}`).replaceAll('http://www.w3.org/2000/svg', '')
    expect(svg).not.toMatch(/https?:|url\(|@import|<script|<foreignObject/)
  })
})

describe('the charts', () => {
  const results: Results = JSON.parse(read('docs/benchmarks.json'))

  it('are drawn from docs/benchmarks.json (node scripts/plots.mjs)', () => {
    const drawn = drawCharts(results).map(({ chart, svg }) => [`plots/${chart.file}`, svg] as const)
    expect(drawn.map(([file]) => file).sort()).toEqual(drawings.filter((name) => name.startsWith('plots/')).sort())
    for (const [file, svg] of drawn) expect(read(`docs/public/${file}`), file).toBe(svg)
    expect(read('docs/benchmarks.md')).toBe(benchmarksPage(results))
  })

  it('have a bar for each figure that was measured, and no others', () => {
    const of = (figures: Record<string, number>) => ({ measured: '2026-11-18', machine: '2 cores', versions: {}, figures })
    const drawn = drawCharts({ relay: of({ ratio: 0.5, latency_p50_ms: 1.5, latency_p99_ms: 6 }) })
    expect(drawn.map(({ chart }) => chart.file)).toEqual(['relay.svg', 'latency.svg'])
    const [relay = '', latency = ''] = drawn.map(({ svg }) => svg)
    const widths = (svg: string) => [...svg.matchAll(/class="bar" .*?width="(\d+)"/g)].map(([, width]) => Number(width))
    expect(widths(latency)).toEqual([92, 368])
    expect(latency).toContain('Same process (median): 1.5 ms')
    // Half as long as the line at 1.
    expect(widths(relay)).toEqual([184])
    expect(relay).toContain(`class="base" d="M${16 + 368} `)
    expect(relay).toContain('>1.0 = written by hand</text>')
  })

  it('draw two values of a bar in one row, and other projects in another colour', () => {
    const figures = { ackord_latency_p50_ms: 2, ackord_latency_p99_ms: 8, pg_boss_latency_p50_ms: 0, pg_boss_latency_p99_ms: 4 }
    const [drawn] = drawCharts({ peers: { measured: '2026-11-18', machine: '2 cores', versions: {}, figures } })
    const svg = drawn?.svg ?? ''
    const bars = [...svg.matchAll(/<rect class="((?:bar|upper)[^"]*)" .*?width="(\d+)"/g)].map(([, kind, width]) => [kind, Number(width)])
    const full = Math.max(...bars.map(([, width]) => Number(width)))
    expect(bars).toEqual([
      ['upper', full],
      ['bar', Math.round(full / 4)],
      ['upper other', Math.round(full / 2)],
      ['bar other', 0],
    ])
    expect(svg).toContain('>2 / 8 ms</text>')
    expect(svg).toContain('pg-boss (PostgreSQL): &lt; 0.1 / 4 ms')
  })

  it('name the benchmarks and figures that exist', () => {
    const sources = readdirSync(`${root}bench/src`, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => read(`bench/src/${name}`))
      .join('\n')
    const bars = drawCharts(everyFigure()).flatMap(({ chart }) => chart.bars)
    const figures = bars.filter(([benchmark]) => benchmark !== 'peers').map(([, figure]) => figure)
    expect(figures.length).toBeGreaterThan(20)
    // The figures of brokers are assembled: `${name}_publish_ratio`, and those of the pipeline of a broker, a number of relays and a measure.
    const assembled = (figure: string) =>
      figure.replace(/^(?:rabbitmq|nats|redis)_(publish|consume)/, '_$1').replace(/^(?:rabbitmq|nats|redis|memory)_[124]_relays?_/, '')
    expect(figures.filter((figure) => !sources.includes(assembled(figure)))).toEqual([])
  })

  it('name contestants that exist, and what is measured of them', () => {
    const folder = `${root}bench/peers/contestants/`
    const sources = readdirSync(folder).map((name) => readFileSync(folder + name, 'utf8'))
    const contestants = sources.flatMap((source) =>
      [...source.matchAll(/ name: '(\w+)',[\s\S]*?measures: \[(.*?)\]/g)].map(([, name = '', measures = '']) => ({ name, measures })),
    )
    expect(contestants.length).toBeGreaterThan(7)
    const existing = contestants.flatMap(({ name, measures }) => [
      ...(measures.includes("'drain'") ? [`${name}_drain_ratio`] : []),
      ...(measures.includes("'latency'") ? [`${name}_latency_p50_ms`, `${name}_latency_p99_ms`] : []),
      ...(measures.includes("'snapshot'") ? [`${name}_snapshot_p50_ms`, `${name}_snapshot_p99_ms`] : []),
    ])
    const bars = drawCharts(everyFigure()).flatMap(({ chart }) => chart.bars.filter(([benchmark]) => benchmark === 'peers'))
    const figures = bars.flatMap(([, figure, , , upper]) => [figure, ...(upper === undefined ? [] : [upper])])
    expect(figures.length).toBeGreaterThan(15)
    expect(figures.filter((figure) => !existing.includes(figure))).toEqual([])
  })
})

describe('the page of benchmarks', () => {
  /** The row that compares pg-boss with Ackord. */
  const comparison = (ratios: Record<string, readonly [median: number, min: number, max: number]>) => {
    const figures = Object.fromEntries(
      Object.entries(ratios).flatMap(([figure, [median, min, max]]) => {
        const name = `pg_boss_${figure}_to_ackord`
        return [
          [name, median],
          [`${name}_min`, min],
          [`${name}_max`, max],
        ]
      }),
    )
    const page = benchmarksPage({ peers: { measured: '2026-11-18', machine: '2 cores', versions: {}, figures } })
    return page.split('\n').find((line) => line.startsWith('| pg-boss, PostgreSQL |'))
  }

  it('says where another project is better, and a lower latency is the better one', () => {
    expect(
      comparison({
        drain_per_s: [2, 1.5, 2.5],
        append_per_s: [0.5, 0.4, 0.6],
        latency_p50_ms: [0.25, 0.2, 0.3],
        latency_p99_ms: [4, 3, 5],
      }),
    ).toBe('| pg-boss, PostgreSQL | **pg-boss**, 2.0 times | Ackord, 2.0 times | **pg-boss**, 4.0 times | Ackord, 4.0 times |')
  })

  it('claims no difference that not all rounds show', () => {
    expect(comparison({ drain_per_s: [2, 0.9, 2.5], latency_p50_ms: [0.5, 0.4, 1.1] })).toBe(
      '| pg-boss, PostgreSQL | no clear difference | – | no clear difference | – |',
    )
  })

  it('shows a large backlog and a held snapshot only if they were measured', () => {
    const spread = (name: string, value: number) => ({ [name]: value, [`${name}_min`]: value, [`${name}_max`]: value })
    const figures = {
      backlog_messages: 1_000_000,
      ...spread('pg_boss_backlog_per_s', 2500),
      ...spread('pg_boss_snapshot_p50_ms_to_ackord', 4),
    }
    const page = benchmarksPage({ peers: { measured: '2026-11-18', machine: '2 cores', versions: {}, figures } })
    expect(page).toContain('the first orders of a backlog of 1,000,000')
    expect(page).toContain('| pg-boss, PostgreSQL | – | 2,500 (2,500 to 2,500) | – | – |')
    expect(page).toContain('| pg-boss, PostgreSQL | – | – | Ackord, 4.0 times | – |')
    expect(benchmarksPage({ peers: { measured: '2026-11-18', machine: '2 cores', versions: {}, figures: {} } })).not.toContain('backlog of')
  })

  it('has a row for each broker and number of relays', () => {
    const figures = {
      rounds: 5,
      messages: 4000,
      load_per_s: 200,
      nats_2_relays_cpu_us: 900,
      nats_2_relays_cpu_us_min: 800,
      nats_2_relays_cpu_us_max: 1000,
    }
    const page = benchmarksPage({ pipeline: { measured: '2026-11-18', machine: '2 cores', versions: {}, figures } })
    expect(page).toContain('| NATS JetStream, 2 relays | – | – | – | 900 (800 to 1,000) | – |')
    expect(page.match(/^\| .*, \d relays? \|/gm)).toHaveLength(12)
  })

  it('does not divide by a latency of zero', () => {
    expect(comparison({ latency_p50_ms: [0, 0, 0] })).toContain('**pg-boss**, more than 50 times')
  })
})

/** Results that have every figure. */
function everyFigure(): Results {
  const figures = new Proxy({}, { get: () => 1 })
  return new Proxy({}, { get: () => ({ measured: '', machine: '', versions: {}, figures }) })
}
