import { errorNumberOf } from './mysql-error.ts'
import type { MysqlAnswer, MysqlQueryable, MysqlWire } from './mysql-wire.ts'
import { explainSize, sizeOf, toWire } from './statement-values.ts'

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
