import type { PgPool } from '@ackord/sql/postgres'
import type pg from 'pg'
import type { ExplainedPlan } from './plan.ts'

/** A pool that can show how the server runs what is sent through it: the very statement, with the very parameters. */
export class ExplainingPool implements PgPool {
  readonly #pool: pg.Pool
  #plans: ExplainedPlan[] | undefined

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  async query(statement: string | pg.QueryConfig, values?: unknown[]): Promise<pg.QueryResult> {
    const { text, values: given = values } = typeof statement === 'string' ? { text: statement } : statement
    if (this.#plans !== undefined) this.#plans.push(await this.#explain(text, given))
    return await this.#pool.query(statement, values)
  }

  connect(): Promise<pg.PoolClient> {
    return this.#pool.connect()
  }

  on(event: 'error', listener: (error: Error) => void): unknown {
    return this.#pool.on(event, listener)
  }

  /** Does the work and gives the plans of its statements. Each statement is run twice: first explained and rolled back, then for good. */
  async explained(work: () => Promise<unknown>): Promise<readonly [ExplainedPlan, ...ExplainedPlan[]]> {
    const plans: ExplainedPlan[] = []
    this.#plans = plans
    try {
      await work()
    } finally {
      this.#plans = undefined
    }
    const [first, ...more] = plans
    if (first === undefined) throw new Error('No statement came through query(): the driver sends them in another way by now.')
    return [first, ...more]
  }

  async #explain(text: string, values: unknown[] | undefined): Promise<ExplainedPlan> {
    const client = await this.#pool.connect()
    try {
      await client.query('BEGIN')
      const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values)
      await client.query('ROLLBACK')
      return rows[0]['QUERY PLAN'][0]
    } finally {
      client.release()
    }
  }
}
