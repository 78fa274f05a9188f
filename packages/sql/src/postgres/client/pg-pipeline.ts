import { hash } from 'node:crypto'
import type { Statement } from '../../contract/driver.ts'
import { arrayLiteral } from '../sql-text.ts'

/** The part of a pg connection that is used, in the same way as cursors and streams use it. */
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

type PipelineCallback = (error: unknown) => void

export interface PipelineClient {
  query(pipeline: PgPipeline, callback: PipelineCallback): unknown
  /** Absent on the native client, which has no connection to write to. */
  readonly connection?: object | undefined
  /** In its own pipeline mode pg accepts no other submittable queries. */
  readonly pipeline?: boolean | undefined
}

export interface PipelineOutcome {
  /** The command tags of the completed statements, in order: `INSERT 0 1`. */
  readonly tags: readonly string[]
  /** The error of the statement after the last completed one; neither it nor later ones were executed, unless the connection was lost. */
  readonly failure?: { readonly error: unknown } | undefined
}

/** The statements that a client has prepared. */
const prepared = new WeakMap<object, Set<string>>()

/** The part of a pg connection used to notice that its prepared statements were removed. */
interface WatchedConnection {
  on?(event: 'commandComplete', listener: (message: { readonly text: string }) => void): unknown
  /** The statements that pg itself has prepared, by name. */
  readonly parsedStatements?: Record<string, unknown> | undefined
  readonly submittedNamedStatements?: Record<string, unknown> | undefined
}

/**
 * Returns the statements that a client has prepared. The application may run DISCARD ALL before it returns a client to the pool, which removes
 * prepared statements without notice: its command tag shows that they are gone, and they are prepared again without an error.
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

/** Other statements belong to the user, and pg tracks their names as usual. */
function forgetOwn(names: Record<string, unknown> = {}): void {
  for (const name of Object.keys(names)) if (name.startsWith(ownPrefix)) delete names[name]
}

const ownPrefix = 'ackord_'

/**
 * Several statements with parameters in one round trip: they are sent with one Sync at the end, so that the server skips the statements after a
 * failure. Rows are returned as strings.
 */
class PgPipeline {
  readonly #statements: readonly Statement[]
  readonly #known: Set<string>
  readonly #named: boolean
  readonly tags: string[] = []
  callback: PipelineCallback | undefined

  constructor(statements: readonly Statement[], known: Set<string>, named: boolean) {
    this.#statements = statements
    this.#known = known
    this.#named = named
  }

  // The following methods are called by pg.

  submit(connection: PgConnection): undefined {
    // Otherwise each message would be a packet of its own.
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
    // It is unknown which of them the server has prepared. They are closed before they are prepared again.
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

export function canPipeline(client: PipelineClient): boolean {
  const { connection } = client
  return client.pipeline !== true && connection !== undefined && 'parse' in connection && 'bind' in connection
}

/** Never rejects. */
export function sendPipelined(
  client: PipelineClient,
  statements: readonly Statement[],
  options: { readonly named: boolean },
): Promise<PipelineOutcome> {
  const pipeline = new PgPipeline(statements, preparedBy(client), options.named)
  return new Promise((resolve) => {
    client.query(pipeline, (error) => {
      resolve(error === null ? { tags: pipeline.tags } : { tags: pipeline.tags, failure: { error } })
    })
  })
}

/** The number of rows that a statement changed, from its command tag. */
export function rowsInTag(tag = ''): number {
  const count = Number(tag.slice(tag.lastIndexOf(' ') + 1))
  return Number.isNaN(count) ? 0 : count
}

const names = new Map<string, string>()

/** Derived from the statement itself: behind a pooler another process may have prepared the statement under this name, and it is then the same. */
export function nameOf(sql: string): string {
  let name = names.get(sql)
  if (name === undefined) {
    name = `${ownPrefix}${hash('sha256', sql).slice(0, 32)}`
    names.set(sql, name)
  }
  return name
}

/** Parameters of the library are strings, numbers, bytes, null and arrays of strings. */
function toWire(value: unknown): unknown {
  if (value === null || value === undefined || typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return Array.isArray(value) ? arrayLiteral(value) : String(value)
}
