import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { problemOf } from '../records/text-limits.ts'

/** In bytes. SQLite has no limit; a longer name is a mistake. */
const maxNameLength = 255

/** The only function that puts names into statements. Every name is valid that is not empty, not too long, without NUL and not reserved by SQLite. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  if (option === 'schema' && name !== 'main') {
    throw new InvalidOptionError(option, `must be 'main': with WAL, what is written to two files is not committed together.`)
  }
  const problem = /^sqlite_/i.test(name) ? 'begins with sqlite_, which SQLite reserves' : problemOf(name, maxNameLength)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `"${name.replaceAll('"', '""')}"`
}

/** The name of an index on a table, in the same schema, and the table's unqualified name for CREATE INDEX. Input and results are quoted. */
export function quoteIndex(table: string, purpose: string): string {
  const { schema, name } = partsOf(table)
  return `${schema}${indexedBy(table, purpose)} ON ${name}`
}

/** The same index name for INDEXED BY. */
export function indexedBy(table: string, purpose: string): string {
  return `${partsOf(table).name.slice(0, -1)}_${purpose}"`
}

function partsOf(table: string): { readonly schema: string; readonly name: string } {
  const [, schema = '', name = ''] = /^("main"\.)?(".*")$/s.exec(table) ?? []
  return { schema, name }
}

/** The current time in whole milliseconds. SQLite has no server: it is the clock of the machine, which all processes on the file share. */
export const now = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER)`
