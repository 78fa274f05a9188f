import { AckordError } from '@ackord/core'
import { endsConnection, errorNumberOf } from './mysql-error.ts'
import type { MysqlAnswer, MysqlQueryable, MysqlWire } from './mysql-wire.ts'

/** From here on, bytes are worth a prepared statement: in a text, a driver may send each as two digits. */
const large = 64 * 1024

/** Sends a statement of ours. Texts go as bytes, so that no character set of the connection changes them. */
export async function sendStatement(
  wire: MysqlWire,
  handle: MysqlQueryable,
  {
    sql,
    parameters = [],
    prepare = false,
  }: { readonly sql: string; readonly parameters?: readonly unknown[] | undefined; readonly prepare?: boolean | undefined },
): Promise<MysqlAnswer> {
  const values = parameters.map(toWire)
  const size = values.reduce<number>((bytes, value) => bytes + (value instanceof Uint8Array ? value.byteLength : 8), sql.length)
  // Each driver takes its own form.
  const statement = wire.statement(sql, values) as never
  try {
    const call = prepare || size > large + sql.length ? 'execute' : 'query'
    return wire.read(handle, await wire.send(handle, call, statement))
  } catch (error) {
    throw explainSize(error, size)
  }
}

function toWire(value: unknown): unknown {
  if (typeof value === 'string') return Buffer.from(value)
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value
}

/** A server answers a statement that is too large by closing the connection, and it may be that only the closing is seen. */
function explainSize(error: unknown, size: number): unknown {
  const tooLarge = errorNumberOf(error) === 1153 || (endsConnection(error) && size > 1024 * 1024)
  if (!tooLarge) return error
  const text = `The server closed the connection at a statement of ${size} bytes. It takes no more than its max_allowed_packet: raise that, or make the event smaller.`
  return Object.assign(new AckordError('ACKORD_INVALID_OUTPUT', text, { cause: error }), { fatal: true })
}
