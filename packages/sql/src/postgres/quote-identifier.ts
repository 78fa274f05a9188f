import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { problemOf } from '../inbox-key.ts'

/** In bytes. PostgreSQL cuts longer names off without an error, so that two of them may become one. */
const longestName = 63

/** The one place where names get into statements. Every name can be one that is not empty, not too long and without NUL. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  const problem = problemOf(name, longestName)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `"${name.replaceAll('"', '""')}"`
}
