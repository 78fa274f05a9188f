import { parseArgs } from 'node:util'
import { brokers } from './brokers/index.ts'
import { core, coreVariants } from './core.ts'
import { figureRows } from './figures.ts'
import { lua } from './lua/index.ts'
import { pipeline, pipelineRows, pipelineVariants } from './pipeline/index.ts'
import { redis } from './redis/index.ts'
import { relay } from './relay/index.ts'
import { sql } from './sql/index.ts'
import { telemetry } from './telemetry/index.ts'

interface Benchmark {
  readonly about: string
  readonly variants: Readonly<Record<string, string>>
  readonly run: (variant: string | undefined) => Promise<Record<string, unknown>>
  /** The rows of the table that is printed without --json. Default: one row per figure, with its spread. */
  readonly rows?: (figures: Readonly<Record<string, unknown>>) => Record<string, Record<string, unknown>>
}

/** The benchmarks. Each prints its figures as one line of JSON. */
const benchmarks: Record<string, Benchmark> = {
  core: { about: 'the router against a bare loop', variants: coreVariants, run: core },
  sql: { about: 'exactly-once handling on PostgreSQL against the same statements by hand', variants: {}, run: sql },
  relay: { about: 'the relay on PostgreSQL against a loop by hand', variants: {}, run: relay },
  redis: { about: 'exactly-once handling and the stream relay on Redis against the same by hand', variants: {}, run: redis },
  lua: { about: 'the Lua outbox on Redis against its bare script', variants: {}, run: lua },
  telemetry: { about: 'what OpenTelemetry costs on PostgreSQL, without and with an SDK', variants: {}, run: telemetry },
  brokers: { about: 'publishing and consuming against the bare clients', variants: {}, run: brokers },
  pipeline: {
    about: 'an order through two services, their inboxes, the relay and each broker',
    variants: pipelineVariants,
    run: pipeline,
    rows: pipelineRows,
  },
}

function usage(problem?: string): never {
  if (problem !== undefined) console.error(problem)
  console.error('npm run -s bench -- [NAME …] [--variant VARIANT] [--json]')
  for (const [name, { about, variants }] of Object.entries(benchmarks)) {
    console.error(`  ${name}: ${about}`)
    for (const [variant, what] of Object.entries(variants)) console.error(`    --variant ${variant}: ${what}`)
  }
  // Runs on another version of Node: scripts/bench.mjs.
  console.error(
    '  peers [--short] [--only NAMES] [--measures NAMES] [--rounds N] [--count N] [--seconds N]: Ackord against job queues; only if it is named',
  )
  process.exit(problem === undefined ? 0 : 2)
}

function parse(): { readonly names: readonly string[]; readonly variant: string | undefined; readonly json: boolean } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { json: { type: 'boolean', default: false }, variant: { type: 'string' }, help: { type: 'boolean', default: false } },
    })
    if (values.help) usage()
    return { names: positionals.length > 0 ? positionals : Object.keys(benchmarks), variant: values.variant, json: values.json }
  } catch (error) {
    return usage(error instanceof Error ? error.message : String(error))
  }
}

const { names, variant, json } = parse()
for (const name of names) {
  const benchmark = benchmarks[name]
  if (benchmark === undefined) usage(`There is no benchmark '${name}'.`)
  if (variant !== undefined && !(variant in benchmark.variants)) usage(`The benchmark '${name}' has no variant '${variant}'.`)
  const figures = await benchmark.run(variant)
  if (json) console.log(JSON.stringify(figures))
  else console.table((benchmark.rows ?? figureRows)(figures))
}
