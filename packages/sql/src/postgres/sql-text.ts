import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { problemOf } from '../records/text-limits.ts'

/** In bytes. PostgreSQL truncates longer names without an error, so that two names may become the same. */
const maxNameLength = 63

/** The only function that puts names into statements. Every name is valid that is not empty, not too long and without NUL. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  const problem = problemOf(name, maxNameLength)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `"${name.replaceAll('"', '""')}"`
}

/** A string literal, independent of the server's backslash setting. For validated names; values of messages are parameters. */
export function quoteLiteral(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
}

/**
 * Parameters of a statement of the library with arrays as strings, for clients that would convert them differently. Each has a cast in the statement.
 */
export function withArrayLiterals(parameters: readonly unknown[]): unknown[] {
  return parameters.map((value) => (Array.isArray(value) ? arrayLiteral(value) : value))
}

/** An array in PostgreSQL's text format. Elements are strings, numbers or null. */
export function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map((value) => (value === null ? 'NULL' : `"${String(value).replace(/[\\"]/g, '\\$&')}"`)).join(',')}}`
}

/** An array of numbers, given as strings where they exceed JavaScript's precision. */
export function numberArray(numbers: readonly (number | string)[]): string {
  return `{${numbers.join(',')}}`
}

/** Adds a value to the parameters of a statement and returns its placeholder. */
export type BindParameter = (value: unknown, type: string) => string

export function bindTo(parameters: unknown[]): BindParameter {
  return (value, type) => `$${parameters.push(value)}::${type}`
}

/** An instant in milliseconds since the epoch. Not with `extract()`, which uses decimal arithmetic and takes as long as reading the row. */
export function instant(column: string): string {
  return `date_part('epoch', ${column}) * 1000`
}

/** Milliseconds since an instant. In a subquery, so that the clock is read once for all rows. */
export function ageOf(column: string): string {
  return `date_part('epoch', (SELECT clock_timestamp()) - ${column}) * 1000`
}

/** The body of a function, quoted. Table names are part of it and may contain any text, so the tag is one that does not occur in it. */
export function dollarQuote(body: string): string {
  let tag = '$ackord$'
  for (let count = 1; body.includes(tag); count += 1) tag = `$ackord${count}$`
  return tag + body + tag
}
