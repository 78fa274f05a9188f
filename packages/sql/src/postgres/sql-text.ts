import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { problemOf } from '../records/inbox-key.ts'

/** In bytes. PostgreSQL cuts longer names off without an error, so that two of them may become one. */
const longestName = 63

/** The one place where names get into statements. Every name can be one that is not empty, not too long and without NUL. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  const problem = problemOf(name, longestName)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `"${name.replaceAll('"', '""')}"`
}

/** A text in a statement, whatever the server's setting for backslashes. For names that were checked; values of messages are parameters. */
export function quoteLiteral(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
}

/** Parameters of a statement of ours with arrays as texts, for clients that would make something else of them. Each has a cast beside it. */
export function withArrayLiterals(parameters: readonly unknown[]): unknown[] {
  return parameters.map((value) => (Array.isArray(value) ? arrayLiteral(value) : value))
}

/** An array as PostgreSQL writes it. Elements are texts, numbers or null. */
export function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map((value) => (value === null ? 'NULL' : `"${String(value).replace(/[\\"]/g, '\\$&')}"`)).join(',')}}`
}

/** An array of numbers, which may be larger than JavaScript's and so be texts. */
export function numberArray(numbers: readonly (number | string)[]): string {
  return `{${numbers.join(',')}}`
}

/** Adds a value to the parameters of a statement, and gives what stands for it. */
export type Give = (value: unknown, type: string) => string

export function giveTo(parameters: unknown[]): Give {
  return (value, type) => `$${parameters.push(value)}::${type}`
}

/** An instant in milliseconds since the epoch. Not by `extract()`, which calculates with decimal numbers and takes as long as reading the row. */
export function instant(column: string): string {
  return `date_part('epoch', ${column}) * 1000`
}

/** The body of a function, quoted. Names of tables are part of it and may hold any text, so the tag is one that does not occur in it. */
export function dollarQuote(body: string): string {
  let tag = '$ackord$'
  for (let count = 1; body.includes(tag); count += 1) tag = `$ackord${count}$`
  return tag + body + tag
}
