import { type MysqlAnswer, readStatus } from './mysql-wire.ts'

interface Header {
  readonly affectedRows: number
  readonly serverStatus?: number | undefined
}

/** Reads what `mysql2` answers: a header, rows, or a list of those from a procedure or several statements, of which the last one tells. */
export function readMysql2Answer(answer: unknown): MysqlAnswer {
  if (!Array.isArray(answer)) {
    const { affectedRows = 0, serverStatus } = (answer ?? {}) as Partial<Header>
    return { rows: [], count: affectedRows, ...readStatus(serverStatus) }
  }
  const last: unknown = answer.at(-1)
  if (Array.isArray(last) || isHeader(last)) return readMysql2Answer(last)
  return { rows: answer, count: 0, ...readStatus(undefined) }
}

function isHeader(value: unknown): boolean {
  return typeof value === 'object' && value !== null && value.constructor?.name === 'ResultSetHeader'
}
