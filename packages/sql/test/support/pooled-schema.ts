import { createSchema, type Database, validateSchema } from '../../src/index.ts'
import type { Pooled } from './pool.ts'
import { type PostgresBaseline, takePostgresBaseline } from './postgres-baseline.ts'

/** Tables that are kept, without their rows, when the next test uses the schema. */
export interface LastingTables {
  /** Creates the tables of the library, unless they exist. */
  createTables<Handle>(database: Database<Handle>): Promise<void>
  /** Runs these statements, unless an earlier test has run them. */
  addTables(...statements: string[]): Promise<void>
}

interface PooledSchemaSetup {
  /** The name of an existing, empty schema. */
  readonly schema: string
  /** Runs a statement outside any transaction, with the schema as search path. */
  query(text: string, parameters?: unknown[]): Promise<Record<string, unknown>[]>
  /** Resolves to whether no connection is left that could still write. */
  isLeft(): Promise<boolean>
  /** Called after the schema was dropped. */
  close(): Promise<void>
}

/** A PostgreSQL schema with a table of orders that tests use one after another. */
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

  /** Whether the test has created a role with the name of the schema, which has privileges. */
  async #hasRole(): Promise<boolean> {
    await this.query('RESET ROLE')
    return (await this.query('SELECT FROM pg_roles WHERE rolname = $1', [this.schema])).length > 0
  }

  async #createTables<Handle>(database: Database<Handle>): Promise<void> {
    // Both branches make the client open a connection.
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
