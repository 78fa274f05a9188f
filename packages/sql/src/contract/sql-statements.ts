/** The lexical rules of a database, as far as they decide where a statement begins. */
export interface SqlSyntax {
  /** Whether block comments nest. */
  readonly nestedComments?: boolean | undefined
  /** Whether `--` only begins a comment if whitespace follows. */
  readonly dashNeedsBlank?: boolean | undefined
  /** Whether `#` begins a comment. */
  readonly hashComments?: boolean | undefined
  /** The end of a line comment. */
  readonly lineEnds: RegExp
  /** Whether the server executes the text of a comment that begins with `/*!`. */
  readonly executableComments?: boolean | undefined
  /** The strings in which a backslash escapes a quote: all of them, or only `E'…'`. Default: none. */
  readonly backslash?: 'all' | 'E' | undefined
  /** Whether `$tag$ … $tag$` is a string. */
  readonly dollarQuotes?: boolean | undefined
  /** Whether `[…]` is a quoted name. */
  readonly brackets?: boolean | undefined
  /**
   * The statements, by their first words, that contain statements ending with `;`: a trigger up to a statement END, or a function from BEGIN ATOMIC
   * up to its END. Default: none.
   */
  readonly body?: { readonly of: (words: readonly string[]) => boolean; readonly until: 'END statement' | 'matching END' } | undefined
}

/** The number of words returned per statement: enough to tell what it is. */
const maxWords = 5

const blank = /\s/
const wordStart = /[A-Za-z_\u0080-\uffff]/
const word = /[\w$\u0080-\uffff]*/y
const dollarTag = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y
const executable = /\/\*M?!\d*/y
const variable = /@+[\w$.]*/y
const atomic = /\s+ATOMIC\b/iy
/** The text that joins two parts of one string: whitespace with a line end in it. */
const continuation = /[ \t\f\v]*[\n\r]\s*'/y

/**
 * The first words of every statement of a text, in upper case. Comments, strings and quoted names are skipped, and so are parentheses before the
 * first word. Quoted names are returned as the word `"`, variables as `@name`, everything else unchanged. A single pass without backtracking, because
 * texts may contain megabytes of data.
 */
export function statementsOf(sql: string, syntax: SqlSyntax): readonly (readonly string[])[] {
  const statements: (readonly string[])[] = []
  let words: string[] = []
  let isInBody = false
  let depth = 0
  let openComments = 0
  let at = 0

  function add(text: string): void {
    if (words.length === 0 && text === '(') return
    if (words.length < maxWords) words.push(text)
  }

  function endStatement(): void {
    if (isInBody) {
      if (syntax.body?.until === 'matching END' || words[0] === 'END') isInBody = false
    } else if (words.length > 0) {
      statements.push(words)
      isInBody = syntax.body?.until === 'END statement' && syntax.body.of(words)
    }
    words = []
  }

  /** In a body that extends up to its END, semicolons separate nothing. */
  function countBlocks(text: string, end: number): void {
    if (syntax.body?.until !== 'matching END') return
    if (depth === 0) {
      if (text === 'BEGIN' && syntax.body.of(words) && endOf(atomic, sql, end) !== undefined) depth = 1
    } else if (text === 'CASE') depth += 1
    else if (text === 'END') depth -= 1
  }

  while (at < sql.length) {
    const character = sql[at] as string
    const next = sql[at + 1]
    if (blank.test(character)) {
      at += 1
    } else if (character === '-' && next === '-' && (syntax.dashNeedsBlank !== true || isBlankOrEnd(sql[at + 2]))) {
      at = lineEnd(sql, at + 2, syntax.lineEnds)
    } else if (character === '#' && syntax.hashComments === true) {
      at = lineEnd(sql, at + 1, syntax.lineEnds)
    } else if (character === '/' && next === '*') {
      const end = syntax.executableComments === true ? endOf(executable, sql, at) : undefined
      if (end !== undefined) openComments += 1
      at = end ?? commentEnd(sql, at + 2, syntax.nestedComments === true)
    } else if (character === '*' && next === '/' && openComments > 0) {
      openComments -= 1
      at += 2
    } else if (character === "'") {
      at = stringEnd(sql, at, syntax.backslash === 'all')
      add("'")
    } else if (character === '"' || character === '`') {
      at = stringEnd(sql, at, character === '"' && syntax.backslash === 'all')
      add('"')
    } else if (character === '[' && syntax.brackets === true) {
      at = positionAfter(sql, ']', at + 1)
      add('"')
    } else if (character === '$' && syntax.dollarQuotes === true) {
      const bodyStart = endOf(dollarTag, sql, at)
      at = bodyStart === undefined ? at + 1 : positionAfter(sql, sql.slice(at, bodyStart), bodyStart)
      add("'")
    } else if (character === ';') {
      at += 1
      if (depth === 0) endStatement()
    } else if (character === '@') {
      const end = endOf(variable, sql, at) ?? at + 1
      add(sql.slice(at, end).toUpperCase())
      at = end
    } else if (wordStart.test(character)) {
      const end = endOf(word, sql, at) ?? at + 1
      const isEscape = syntax.backslash === 'E' && end === at + 1 && (character === 'e' || character === 'E') && sql[end] === "'"
      if (isEscape) {
        at = escapeStringEnd(sql, end)
        add("'")
        continue
      }
      // Only a possible keyword is needed as text.
      const text = words.length < maxWords || (end - at <= 5 && syntax.body !== undefined) ? sql.slice(at, end).toUpperCase() : ''
      countBlocks(text, end)
      add(text)
      at = end
    } else {
      add(character)
      at += 1
    }
  }
  endStatement()
  return statements
}

function endOf(pattern: RegExp, sql: string, at: number): number | undefined {
  pattern.lastIndex = at
  return pattern.test(sql) ? pattern.lastIndex : undefined
}

function isBlankOrEnd(character: string | undefined): boolean {
  return character === undefined || blank.test(character) || character < ' '
}

function lineEnd(sql: string, from: number, ends: RegExp): number {
  ends.lastIndex = from
  return ends.test(sql) ? ends.lastIndex : sql.length
}

/** An unterminated comment extends to the end of the text. */
function commentEnd(sql: string, from: number, nested: boolean): number {
  if (!nested) return positionAfter(sql, '*/', from)
  let at = from
  for (let depth = 1; depth > 0; ) {
    const end = sql.indexOf('*/', at)
    if (end === -1) return sql.length
    const inner = sql.indexOf('/*', at)
    const opens = inner !== -1 && inner < end
    depth += opens ? 1 : -1
    at = (opens ? inner : end) + 2
  }
  return at
}

function positionAfter(sql: string, text: string, from: number): number {
  const found = sql.indexOf(text, from)
  return found === -1 ? sql.length : found + text.length
}

/** `start` is that of the quote. A doubled quote ends one string and begins another, which comes to the same. */
function stringEnd(sql: string, start: number, escapes: boolean): number {
  const quote = sql[start] as string
  let at = start + 1
  while (at < sql.length) {
    const end = sql.indexOf(quote, at)
    if (end === -1) return sql.length
    if (!escapes || !isEscaped(sql, end, start)) return end + 1
    at = end + 1
  }
  return sql.length
}

/** Whether an odd number of backslashes precedes a position. */
function isEscaped(sql: string, at: number, start: number): boolean {
  let count = 0
  while (at - 1 - count > start && sql[at - 1 - count] === '\\') count += 1
  return count % 2 === 1
}

/** The end of `E'…'`, which may continue on the next line and after a doubled quote, where a backslash still escapes. */
function escapeStringEnd(sql: string, start: number): number {
  let at = stringEnd(sql, start, true)
  for (;;) {
    if (sql[at] === "'") {
      at = stringEnd(sql, at, true)
      continue
    }
    const next = endOf(continuation, sql, at)
    if (next === undefined) return at
    at = stringEnd(sql, next - 1, true)
  }
}
