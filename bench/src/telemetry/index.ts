import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { ratios, spread } from '../figures.ts'
import { createTables, dropTables, type Round, url, type Variant } from './tables.ts'

/** Each generation has new processes: how V8 compiles and lays out the same code differs by some per cent from process to process. */
const generations = 3
const rounds = 3
const warmUps = 2

/**
 * What telemetry costs when messages are handled on PostgreSQL: without an SDK, and with traces and metrics of every message. Each variant is a process of its own, as a
 * service is: in one process the compiled code would be a compromise between all of them, and one variant would collect the garbage of another. They take turns.
 */
export async function telemetry(): Promise<Record<string, unknown>> {
  const schema = `ackord_bench_telemetry_${process.pid}`
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const results: Record<Variant, Round[]> = { plain: [], off: [], on: [] }
  try {
    await createTables(pool, schema)
    for (let generation = 0; generation < generations; generation += 1) await runGeneration(schema, generation, results)
  } finally {
    await dropTables(pool, schema)
    await pool.end()
  }
  const rates = (variant: Variant) => results[variant].map(({ rate }) => rate)
  const cpu = (variant: Variant) => results[variant].map((round) => round.cpu)
  return {
    ...spread('plain_per_s', rates('plain')),
    ...spread('off_per_s', rates('off')),
    ...spread('on_per_s', rates('on')),
    ...spread('off_ratio', ratios(rates('off'), rates('plain'))),
    ...spread('on_ratio', ratios(rates('on'), rates('plain'))),
    ...spread('plain_cpu_us', cpu('plain')),
    ...spread('off_cpu_us', cpu('off')),
    ...spread('on_cpu_us', cpu('on')),
    spans: results.on.at(-1)?.spans,
  }
}

async function runGeneration(schema: string, generation: number, results: Record<Variant, Round[]>): Promise<void> {
  const variants: readonly Variant[] = generation % 2 === 0 ? ['plain', 'off', 'on'] : ['on', 'off', 'plain']
  const processes = variants.map((variant) => ({ variant, child: start(variant, schema) }))
  try {
    for (let round = -warmUps; round < rounds; round += 1) {
      // In another order each time: the server's own background work must not always hit the same variant.
      const first = (round + warmUps) % processes.length
      for (const { variant, child } of [...processes.slice(first), ...processes.slice(0, first)]) {
        const result = await ask(child)
        if (round >= 0) results[variant].push(result)
      }
    }
  } finally {
    for (const { child } of processes) child.kill()
  }
}

function start(variant: Variant, schema: string): ChildProcess {
  return fork(fileURLToPath(new URL('./variant.js', import.meta.url)), [variant, schema], { execArgv: [] })
}

function ask(child: ChildProcess): Promise<Round> {
  return new Promise((resolve, reject) => {
    const onExit = () => reject(new Error('A process of the benchmark has ended.'))
    child.once('exit', onExit)
    child.once('message', (round) => {
      child.off('exit', onExit)
      resolve(round as Round)
    })
    child.send('run')
  })
}
