import { AckordError } from '@ackord/core'
import type { StatementResult } from '../../contract/driver.ts'
import { endsConnection, errorNumberOf } from '../errors.ts'

export interface MysqlAnswer extends StatementResult {
  /** Whether the connection is in a transaction afterwards; `undefined` if the answer does not tell. */
  readonly inTransaction: boolean | undefined
  /** Whether statements outside of transactions are committed by themselves. */
  readonly autocommit: boolean | undefined
}

/** What our own statements need of a pool or a connection. `sql` is its own form of a statement with options. */
export interface MysqlQueryable {
  query(sql: never): Promise<unknown>
  execute(sql: never): Promise<unknown>
}

export interface MysqlConnection extends MysqlQueryable {
  /** Gives it back to its pool. */
  release(): void | Promise<void>
  /** Ends it; the pool makes another. */
  destroy(): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface MysqlPool extends MysqlQueryable {
  getConnection(): Promise<MysqlConnection>
}

/** A statement of ours, ready to be sent. */
export interface WireStatement {
  readonly call: 'query' | 'execute'
  readonly sql: string
  readonly values: readonly unknown[]
  /** Whether it gives rows, so that it needs the options by which we read them, whatever the pool was made with. */
  readonly givesRows: boolean
  /** Makes a better error of what it fails with. */
  readonly explain: (error: unknown) => unknown
}

/** What differs between drivers. */
export interface MysqlWire {
  /** The adapter, for texts. */
  readonly name: string
  /** The calls by which adapters send statements. */
  readonly calls: readonly string[]
  /** Sends a statement of ours and reads the answer. */
  send(handle: MysqlQueryable, statement: WireStatement): Promise<MysqlAnswer>
  /** Reads what a call of an adapter gave back. */
  read(handle: MysqlQueryable, result: unknown): MysqlAnswer
}

/** The flags SERVER_STATUS_IN_TRANS and SERVER_STATUS_AUTOCOMMIT of a status. */
export function readStatus(status: unknown): Pick<MysqlAnswer, 'inTransaction' | 'autocommit'> {
  if (typeof status !== 'number') return { inTransaction: undefined, autocommit: undefined }
  return { inTransaction: (status & 1) !== 0, autocommit: (status & 2) !== 0 }
}

/** From here on, bytes are worth a prepared statement: in a text, a driver may send each as two digits. */
const large = 64 * 1024

/** The server has as many prepared statements as it may, of whomever: nothing was done, and a text needs none. */
const noMoreStatements = 1461

/** What is sent of a statement of ours. */
export interface SentStatement {
  readonly sql: string
  readonly parameters?: readonly unknown[] | undefined
  readonly prepare?: boolean | undefined
  /** Default: true. */
  readonly givesRows?: boolean | undefined
}

/** Sends a statement of ours. Not async: it is called several times per message, and the driver gives the promise. */
export function sendStatement(wire: MysqlWire, handle: MysqlQueryable, statement: SentStatement): Promise<MysqlAnswer> {
  const { sql, parameters = [], prepare = false, givesRows = true } = statement
  const values = parameters.map(toWire)
  const size = sizeOf(sql, values)
  const send = (call: 'query' | 'execute') =>
    wire.send(handle, { call, sql, values, givesRows, explain: (error) => explainSize(error, size) })
  if (!prepare && size <= large + sql.length) return send('query')
  return send('execute').catch((error: unknown) => {
    if (errorNumberOf(error) !== noMoreStatements) throw error
    return send('query')
  })
}

/** A parameter of ours as it is sent. Texts go as bytes, so that no character set of the connection changes them. */
export function toWire(value: unknown): unknown {
  if (typeof value === 'string') return Buffer.from(value)
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value
}

/** Of a statement, in bytes, as far as it matters: of a text that is not sent yet, its characters. */
export function sizeOf(sql: string, values: readonly unknown[]): number {
  return values.reduce<number>((bytes, value) => bytes + lengthOf(value), sql.length)
}

function lengthOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength
  return typeof value === 'string' ? value.length : 8
}

/** A server answers a statement that is too large by closing the connection, and it may be that only the closing is seen. */
export function explainSize(error: unknown, size: number): unknown {
  const tooLarge = errorNumberOf(error) === 1153 || (endsConnection(error) && size > 1024 * 1024)
  if (!tooLarge) return error
  const text = `The server closed the connection at a statement of ${size} bytes. It takes no more than its max_allowed_packet: raise that, or make the event smaller.`
  return Object.assign(new AckordError('ACKORD_INVALID_OUTPUT', text, { cause: error }), { fatal: true })
}
