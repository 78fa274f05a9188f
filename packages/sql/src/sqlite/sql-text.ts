import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { problemOf } from '../records/inbox-key.ts'

/** In bytes. SQLite has no limit; nobody means a longer one. */
const longestName = 255

/** The one place where names get into statements. Every name can be one that is not empty, not too long, without NUL and not SQLite's own. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  if (option === 'schema' && name !== 'main') {
    throw new InvalidOptionError(option, `must be 'main': with WAL, what is written to two files is not committed together.`)
  }
  const problem = /^sqlite_/i.test(name) ? 'begins with sqlite_, which SQLite keeps for itself' : problemOf(name, longestName)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `"${name.replaceAll('"', '""')}"`
}

/** The name of an index on a table, which is beside it, and the table's name where the index says what it is on. Both come quoted and go quoted. */
export function quoteIndex(table: string, purpose: string): string {
  const { schema, name } = partsOf(table)
  return `${schema}${indexedBy(table, purpose)} ON ${name}`
}

/** The same name where a statement says which index it reads. */
export function indexedBy(table: string, purpose: string): string {
  return `${partsOf(table).name.slice(0, -1)}_${purpose}"`
}

function partsOf(table: string): { readonly schema: string; readonly name: string } {
  const [, schema = '', name = ''] = /^("main"\.)?(".*")$/s.exec(table) ?? []
  return { schema, name }
}

/** Now, in whole milliseconds. SQLite has no server: it is the clock of the machine, which all processes on the file share. */
export const now = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER)`
