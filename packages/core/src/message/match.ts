import { describeValue, InvalidOptionError } from '../errors.ts'
import { checkFunction, checkName } from '../options.ts'
import type { Attributes, AttributeValue } from './attributes.ts'

/** Decides by a message's attributes alone: its data may not have been read yet. */
export type Matcher = (attributes: Attributes) => boolean

/**
 * Matchers. Patterns are those of SQL's LIKE: `%` matches any sequence of characters, `_` one character, a backslash escapes the next character. Of
 * several patterns one must match. A missing attribute counts as the empty string.
 */
export const match: {
  /** All of them match; also true for an empty list. */
  all(...matchers: readonly Matcher[]): Matcher
  /** One of them matches; false for an empty list. */
  any(...matchers: readonly Matcher[]): Matcher
  not(matcher: Matcher): Matcher
  types(...patterns: readonly string[]): Matcher
  sources(...patterns: readonly string[]): Matcher
  subject(...patterns: readonly string[]): Matcher
  /** Any other attribute, by its CloudEvents string form. Without patterns: whether it is present, even if empty. */
  extension(name: string, ...patterns: readonly string[]): Matcher
  /** Whether the whole value matches the pattern. */
  like(pattern: string, value: string): boolean
} = {
  all(...matchers) {
    checkMatchers('match.all()', matchers)
    return (attributes) => matchers.every((matcher) => matcher(attributes))
  },
  any(...matchers) {
    checkMatchers('match.any()', matchers)
    return (attributes) => matchers.some((matcher) => matcher(attributes))
  },
  not(matcher) {
    checkMatchers('match.not()', [matcher])
    return (attributes) => !matcher(attributes)
  },
  types: (...patterns) => attributeLike('match.types()', 'type', patterns),
  sources: (...patterns) => attributeLike('match.sources()', 'source', patterns),
  subject: (...patterns) => attributeLike('match.subject()', 'subject', patterns),
  extension(name, ...patterns) {
    checkName('The name given to match.extension()', name)
    if (patterns.length > 0) return attributeLike('match.extension()', name, patterns)
    return (attributes) => own(attributes, name) !== undefined
  },
  like: (pattern, value) => matchesPattern(tokensOf('match.like()', pattern), value),
}

function attributeLike(caller: string, name: string, patterns: readonly string[]): Matcher {
  const compiled = patterns.map((pattern) => tokensOf(caller, pattern))
  return function matchAttribute(attributes) {
    const value = textOf(own(attributes, name))
    return compiled.some((tokens) => matchesPattern(tokens, value))
  }
}

/** Names come from users: `constructor` must not find an inherited property. */
function own(attributes: Attributes, name: string): AttributeValue | undefined {
  return Object.hasOwn(attributes, name) ? attributes[name] : undefined
}

/** The CloudEvents string form of a value. */
function textOf(value: AttributeValue | undefined): string {
  if (typeof value === 'string') return value
  if (value === undefined) return ''
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? '' : value.toISOString()
  return String(value)
}

// A compiled pattern: code points, and these two for the wildcards.
const anyRun = -1
const anyOne = -2

function tokensOf(caller: string, pattern: string): readonly number[] {
  if (typeof pattern !== 'string') {
    throw new InvalidOptionError(`A pattern given to ${caller}`, `must be a string; it is ${describeValue(pattern)}.`)
  }
  const tokens: number[] = []
  let escaped = false
  for (const character of pattern) {
    if (!escaped && character === '\\') {
      escaped = true
      continue
    }
    if (!escaped && character === '%') tokens.push(anyRun)
    else if (!escaped && character === '_') tokens.push(anyOne)
    else tokens.push(character.codePointAt(0) as number) // a character of a string is never empty
    escaped = false
  }
  if (escaped) {
    throw new InvalidOptionError(`The pattern '${pattern}' given to ${caller}`, 'ends with a backslash that escapes nothing. Write two.')
  }
  return tokens
}

/**
 * Only the last `%` is ever extended: the match of an earlier one stays valid, so no combination is tried twice and `%a%a%a…` costs no more than
 * pattern times value. A regular expression would take exponential time.
 */
function matchesPattern(tokens: readonly number[], value: string): boolean {
  let token = 0
  let position = 0
  let afterRun = -1
  let runEnd = 0
  while (position < value.length) {
    const code = codeAt(value, position)
    const expected = tokens[token]
    if (expected === anyRun) {
      token += 1
      afterRun = token
      runEnd = position
    } else if (expected === anyOne || expected === code) {
      token += 1
      position += widthOf(code)
    } else if (afterRun === -1) {
      return false
    } else {
      runEnd += widthOf(codeAt(value, runEnd))
      token = afterRun
      position = runEnd
    }
  }
  while (tokens[token] === anyRun) token += 1
  return token === tokens.length
}

/** Only called with positions inside of the text. */
function codeAt(value: string, position: number): number {
  return value.codePointAt(position) as number
}

function widthOf(code: number): number {
  return code > 0xffff ? 2 : 1
}

function checkMatchers(caller: string, matchers: readonly Matcher[]): void {
  for (const matcher of matchers) checkFunction(`A matcher given to ${caller}`, matcher)
}
