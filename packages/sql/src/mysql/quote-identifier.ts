import { InvalidOptionError } from '@ackord/core'
import { checkName } from '@ackord/core/internal'
import { problemOf } from '../inbox-key.ts'

/** In characters. */
const longestName = 64

/** The one place where names get into statements. Every name can be one that is not too long, ends in no blank and stays in the basic plane. */
export function quoteIdentifier(option: string, name: string): string {
  checkName(option, name)
  const problem = problemOf(name) ?? problemOfName(name)
  if (problem !== undefined) throw new InvalidOptionError(option, `${problem}.`)
  return `\`${name.replaceAll('`', '``')}\``
}

function problemOfName(name: string): string | undefined {
  if (name.length > longestName) return `is longer than ${longestName} characters`
  if (/[ \t\n\v\f\r]$/.test(name)) return 'ends in a blank'
  return /[\u{10000}-\u{10FFFF}]/u.test(name) ? 'holds a character that MySQL takes in no name' : undefined
}
