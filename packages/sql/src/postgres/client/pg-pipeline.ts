import { hash } from 'node:crypto'
import type { Statement } from '../../contract/driver.ts'
import { arrayLiteral } from '../sql-text.ts'

/** What is used of a pg connection, in the way its cursors and streams use it. */
interface PgConnection {
  readonly stream: { cork?(): void; uncork?(): void }
  parse(message: { readonly text: string; readonly name: string; readonly types: readonly number[] }): void
  bind(message: {
    readonly portal: string
    readonly statement: string
    readonly values: readonly unknown[]
    readonly valueMapper: (value: unknown) => unknown
  }): void
  execute(message: { readonly portal: string; readonly rows: number }): void
  close(message: { readonly type: 'S'; readonly name: string }): void
  sync(): void
}

type FlightCallback = (error: unknown) => void

export interface PgFlyer {
  query(flight: PgFlight, callback: FlightCallback): unknown
  /** Absent on the native client, which has no connection to write to. */
  readonly connection?: object | undefined
  /** In its pipeline mode pg takes no queries but its own. */
  readonly pipeline?: boolean | undefined
}

export interface FlightOutcome {
  /** The command tags of the statements that were carried out, in turn: `INSERT 0 1`. */
  readonly tags: readonly string[]
  /** What the one after the last of them failed with; it was not carried out, nor were those behind it, unless the connection was lost. */
  readonly failure?: { readonly error: unknown } | undefined
}

/** Which statements a client has prepared. */
const prepared = new WeakMap<object, Set<string>>()

/** What is used of a pg connection to notice that its prepared statements were removed. */
interface WatchedConnection {
  on?(event: 'commandComplete', listener: (message: { readonly text: string }) => void): unknown
  /** Those that pg itself has prepared, by their names. */
  readonly parsedStatements?: Record<string, unknown> | undefined
  readonly submittedNamedStatements?: Record<string, unknown> | undefined
}

/**
 * Gives what a client has prepared. Whoever gives it back to the pool may run DISCARD ALL, which removes prepared statements without a word to
 * those who made them: by its answer they are known to be gone, and are prepared anew without an error.
 */
export function preparedBy(client: { readonly connection?: object | undefined }): Set<string> {
  let known = prepared.get(client)
  if (known !== undefined) return known
  known = new Set()
  prepared.set(client, known)
  const connection: WatchedConnection = client.connection ?? {}
  connection.on?.('commandComplete', ({ text }) => {
    if (text !== 'DISCARD ALL' && text !== 'DEALLOCATE ALL' && text !== 'DEALLOCATE') return
    known.clear()
    forgetOwn(connection.parsedStatements)
    forgetOwn(connection.submittedNamedStatements)
  })
  return known
}

/** Other statements are those of the user, whose names pg keeps as it always does. */
function forgetOwn(names: Record<string, unknown> = {}): void {
  for (const name of Object.keys(names)) if (name.startsWith(ownPrefix)) delete names[name]
}

const ownPrefix = 'ackord_'

/**
 * Several statements in one round trip, parameters and all: they are sent together with one Sync at the end, so that the server skips what
 * comes after a failure. Rows are given as texts.
 */
class PgFlight {
  readonly #statements: readonly Statement[]
  readonly #known: Set<string>
  readonly #named: boolean
  readonly tags: string[] = []
  callback: FlightCallback | undefined

  constructor(statements: readonly Statement[], known: Set<string>, named: boolean) {
    this.#statements = statements
    this.#known = known
    this.#named = named
  }

  // What follows is called by pg.

  submit(connection: PgConnection): undefined {
    // Otherwise each part would be a packet of its own.
    connection.stream.cork?.()
    try {
      for (const statement of this.#statements) this.#send(connection, statement)
    } catch (error) {
      this.handleError(error)
    } finally {
      connection.sync()
      connection.stream.uncork?.()
    }
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const statement = this.#statements[this.tags.length]
    if (this.#named && statement?.prepare === true) this.#known.add(statement.sql)
    this.tags.push(text)
  }

  handleReadyForQuery(): void {
    this.callback?.(null)
  }

  handleError(error: unknown): void {
    // It is not known which of them the server has prepared. They are closed before they are prepared again.
    this.#known.clear()
    this.callback?.(error)
  }

  handleRowDescription(): void {}

  handleDataRow({ fields }: { readonly fields: readonly unknown[] }): void {
    this.#statements[this.tags.length]?.onRow?.(fields)
  }

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}

  #send(connection: PgConnection, { sql, parameters = [], prepare = false }: Statement): void {
    const name = this.#named && prepare ? nameOf(sql) : ''
    if (name === '' || !this.#known.has(sql)) {
      if (name !== '') connection.close({ type: 'S', name })
      connection.parse({ text: sql, name, types: [] })
    }
    connection.bind({ portal: '', statement: name, values: parameters, valueMapper: toWire })
    connection.execute({ portal: '', rows: 0 })
  }
}

export function canFly(client: PgFlyer): boolean {
  const { connection } = client
  return client.pipeline !== true && connection !== undefined && 'parse' in connection && 'bind' in connection
}

/** Never rejects. */
export function fly(client: PgFlyer, statements: readonly Statement[], options: { readonly named: boolean }): Promise<FlightOutcome> {
  const flight = new PgFlight(statements, preparedBy(client), options.named)
  return new Promise((resolve) => {
    client.query(flight, (error) => {
      resolve(error === null ? { tags: flight.tags } : { tags: flight.tags, failure: { error } })
    })
  })
}

/** How many rows a statement changed, by its command tag. */
export function rowsInTag(tag = ''): number {
  const count = Number(tag.slice(tag.lastIndexOf(' ') + 1))
  return Number.isNaN(count) ? 0 : count
}

const names = new Map<string, string>()

/** Made of the statement itself: behind a pooler another process may have prepared what we find under a name, and it is then the same. */
export function nameOf(sql: string): string {
  let name = names.get(sql)
  if (name === undefined) {
    name = `${ownPrefix}${hash('sha256', sql).slice(0, 32)}`
    names.set(sql, name)
  }
  return name
}

/** Our own parameters are texts, numbers, bytes, null and arrays of texts. */
function toWire(value: unknown): unknown {
  if (value === null || value === undefined || typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return Array.isArray(value) ? arrayLiteral(value) : String(value)
}
