/** A part of a JSON text. `name` is the key of a member. */
export interface JsonToken {
  readonly kind: 'name' | 'string' | 'literal' | 'mark'
  readonly text: string
}

const tokens = /\s*(?:("(?:[^"\\]|\\.)*"?)(\s*:)?|([{}[\],:])|([^\s{}[\],:"]+))/gsu

/**
 * Indents a JSON text by its tokens, without parsing it: numbers keep all of their digits, members their order and duplicates, and a text that was cut off is indented as
 * well.
 */
export function indentJson(json: string): readonly JsonToken[] {
  const result: JsonToken[] = []
  let depth = 0
  let previous = ''
  const mark = (text: string) => result.push({ kind: 'mark', text })
  const newLine = () => mark(`\n${'  '.repeat(depth)}`)
  for (const [, string, colon, bracket, literal] of json.matchAll(tokens)) {
    const closes = bracket === '}' || bracket === ']'
    if (closes) depth = Math.max(0, depth - 1)
    const isEmpty = closes && (previous === '{' || previous === '[')
    if (!isEmpty && (closes || previous === '{' || previous === '[' || previous === ',')) newLine()
    if (string !== undefined) {
      result.push({ kind: colon === undefined ? 'string' : 'name', text: string })
      if (colon !== undefined) mark(': ')
    } else if (literal !== undefined) {
      result.push({ kind: 'literal', text: literal })
    } else if (bracket !== undefined) {
      mark(bracket === ':' ? ': ' : bracket)
      if (bracket === '{' || bracket === '[') depth += 1
    }
    previous = bracket ?? 'value'
  }
  return result
}

export function indentedJson(json: string): string {
  return indentJson(json)
    .map(({ text }) => text)
    .join('')
}

/** The same JSON without spaces and line breaks between its tokens. */
export function compactJson(json: string): string {
  return [...json.matchAll(tokens)]
    .map(([, string = '', colon, bracket = '', literal = '']) => string + (colon === undefined ? '' : ':') + bracket + literal)
    .join('')
}

/** Why a text is not JSON; `undefined` if it is. */
export function jsonProblem(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
