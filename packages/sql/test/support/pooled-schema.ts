import { createSchema, type Database, validateSchema } from '../../src/index.ts'
import type { Pooled } from './pool.ts'
import { type PostgresBaseline, takePostgresBaseline } from './postgres-baseline.ts'

/** Tables that stay when the next test gets the schema, without the rows of this one. */
export interface LastingTables {
  /** Creates the tables of the library, unless they are there. */
  createTables<Handle>(database: Database<Handle>): Promise<void>
  /** Runs these statements, unless an earlier test has. */
  addTables(...statements: string[]): Promise<void>
}

interface PooledSchemaSetup {
  /** There is such a schema, and nothing in it. */
  readonly schema: string
  /** Outside of every transaction, with the schema as search path. */
  query(text: string, parameters?: unknown[]): Promise<Record<string, unknown>[]>
  /** Resolves to whether nobody is left who could still write. */
  isLeft(): Promise<boolean>
  /** Called after the schema was dropped. */
  close(): Promise<void>
}

/** A schema of PostgreSQL with a table of orders, for one test after the other. */
export class PooledSchema implements Pooled {
  readonly schema: string
  readonly query: PooledSchemaSetup['query']
  readonly lasting: LastingTables = {
    createTables: (database) => this.#createTables(database),
    addTables: (...statements) => this.#addTables(statements),
  }
  readonly #setup: PooledSchemaSetup
  readonly #added: string[] = []
  #baseline: PostgresBaseline | undefined

  static async create(setup: PooledSchemaSetup): Promise<PooledSchema> {
    await setup.query(`CREATE TABLE ${setup.schema}.orders (id text PRIMARY KEY, note text)`)
    return new PooledSchema(setup)
  }

  private constructor(setup: PooledSchemaSetup) {
    this.#setup = setup
    this.schema = setup.schema
    this.query = (text, parameters) => setup.query(text, parameters)
  }

  async reset(): Promise<boolean> {
    if (this.#baseline === undefined || (await this.#hasRole())) return false
    return (await this.#setup.isLeft()) && (await this.#baseline.restore())
  }

  async drop(): Promise<void> {
    await this.query('RESET ROLE')
    await this.query(`DROP SCHEMA ${this.schema} CASCADE`)
    await this.query(`DROP ROLE IF EXISTS ${this.schema}`)
    await this.#setup.close()
  }

  /** Whether the test has created a role with the name of the schema, to which privileges were granted. */
  async #hasRole(): Promise<boolean> {
    await this.query('RESET ROLE')
    return (await this.query('SELECT FROM pg_roles WHERE rolname = $1', [this.schema])).length > 0
  }

  async #createTables<Handle>(database: Database<Handle>): Promise<void> {
    // Either way the client has had a connection by now.
    if (this.#baseline !== undefined) return await validateSchema(database)
    await createSchema(database)
    this.#baseline = await takePostgresBaseline(this.query, this.schema)
  }

  async #addTables(statements: readonly string[]): Promise<void> {
    const missing = statements.filter((statement) => !this.#added.includes(statement))
    for (const statement of missing) await this.query(statement)
    this.#added.push(...missing)
    if (missing.length > 0 && this.#baseline !== undefined) this.#baseline = await takePostgresBaseline(this.query, this.schema)
  }
}
