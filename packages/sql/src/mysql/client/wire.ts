import { AckordError } from '@ackord/core'
import type { StatementResult } from '../../contract/driver.ts'
import { endsConnection, errorNumberOf } from '../errors.ts'

export interface MysqlAnswer extends StatementResult {
  /** Whether the connection is in a transaction afterwards; `undefined` if the answer has no status. */
  readonly inTransaction: boolean | undefined
  /** Whether statements outside of transactions are committed automatically. */
  readonly autocommit: boolean | undefined
}

/** The methods of a pool or a connection that statements of the library use. `sql` is the client's own form of a statement with options. */
export interface MysqlQueryable {
  query(sql: never): Promise<unknown>
  execute(sql: never): Promise<unknown>
}

export interface MysqlConnection extends MysqlQueryable {
  /** Returns it to its pool. */
  release(): void | Promise<void>
  /** Closes it; the pool creates another. */
  destroy(): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface MysqlPool extends MysqlQueryable {
  getConnection(): Promise<MysqlConnection>
}

/** A statement of the library, ready to be sent. */
export interface WireStatement {
  readonly call: 'query' | 'execute'
  readonly sql: string
  readonly values: readonly unknown[]
  /** Whether it returns rows, and so needs the options for reading them that override those of the pool. */
  readonly returnsRows: boolean
  /** Turns its error into a better one. */
  readonly explain: (error: unknown) => unknown
}

/** The differences between drivers. */
export interface MysqlWire {
  /** The name of the adapter, for error texts. */
  readonly name: string
  /** The calls with which adapters send statements. */
  readonly calls: readonly string[]
  /** Sends a statement of the library and reads the answer. */
  send(handle: MysqlQueryable, statement: WireStatement): Promise<MysqlAnswer>
  /** Reads the result of an adapter's call. */
  read(handle: MysqlQueryable, result: unknown): MysqlAnswer
}

/** The flags SERVER_STATUS_IN_TRANS and SERVER_STATUS_AUTOCOMMIT of a status. */
export function readStatus(status: unknown): Pick<MysqlAnswer, 'inTransaction' | 'autocommit'> {
  if (typeof status !== 'number') return { inTransaction: undefined, autocommit: undefined }
  return { inTransaction: (status & 1) !== 0, autocommit: (status & 2) !== 0 }
}

/** From this size on, bytes are sent with a prepared statement: in a text protocol a driver may send each byte as two digits. */
const large = 64 * 1024

/** The server has reached its limit of prepared statements over all clients: nothing was executed, and the text protocol needs none. */
const noMoreStatements = 1461

/** The parts of a statement of the library that are sent. */
export interface SentStatement {
  readonly sql: string
  readonly parameters?: readonly unknown[] | undefined
  readonly prepare?: boolean | undefined
  /** Default: true. */
  readonly returnsRows?: boolean | undefined
}

/** Sends a statement of the library. Not async: it is called several times per message, and the driver returns the promise. */
export function sendStatement(wire: MysqlWire, handle: MysqlQueryable, statement: SentStatement): Promise<MysqlAnswer> {
  const { sql, parameters = [], prepare = false, returnsRows = true } = statement
  const values = parameters.map(toWire)
  const size = sizeOf(sql, values)
  const send = (call: 'query' | 'execute') =>
    wire.send(handle, { call, sql, values, returnsRows, explain: (error) => explainSize(error, size) })
  if (!prepare && size <= large + sql.length) return send('query')
  return send('execute').catch((error: unknown) => {
    if (errorNumberOf(error) !== noMoreStatements) throw error
    return send('query')
  })
}

/** A parameter as it is sent. Strings are sent as bytes, so that the character set of the connection does not change them. */
export function toWire(value: unknown): unknown {
  if (typeof value === 'string') return Buffer.from(value)
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value
}

/** The approximate size of a statement in bytes: for a string that is not encoded yet, its characters. */
export function sizeOf(sql: string, values: readonly unknown[]): number {
  return values.reduce<number>((bytes, value) => bytes + lengthOf(value), sql.length)
}

function lengthOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength
  return typeof value === 'string' ? value.length : 8
}

/** A server rejects a statement that is too large by closing the connection, and the client may see only that. */
export function explainSize(error: unknown, size: number): unknown {
  const tooLarge = errorNumberOf(error) === 1153 || (endsConnection(error) && size > 1024 * 1024)
  if (!tooLarge) return error
  const text = `The server closed the connection because of a statement of ${size} bytes, which exceeds its max_allowed_packet. Raise that setting, or make the event smaller.`
  return Object.assign(new AckordError('ACKORD_INVALID_OUTPUT', text, { cause: error }), { fatal: true })
}
