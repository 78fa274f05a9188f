/**
 * The source text of a top-level member of the JSON; of several with one name the last, as in JSON.parse. The JSON must be known to parse, and to an
 * object.
 */
export function memberText(json: string, name: string): string | undefined {
  let found: string | undefined
  let keyStart = json.indexOf('"')
  while (keyStart !== -1) {
    const keyEnd = endOfText(json, keyStart)
    const valueStart = json.indexOf(':', keyEnd) + 1
    const valueEnd = endOfValue(json, valueStart)
    if (JSON.parse(json.slice(keyStart, keyEnd)) === name) found = json.slice(valueStart, valueEnd).trim()
    keyStart = json.indexOf('"', valueEnd)
  }
  return found
}

/** The position of the comma, brace or bracket that ends the value. */
export function endOfValue(json: string, start: number): number {
  let depth = 0
  let position = start
  for (;;) {
    switch (json[position]) {
      case '"':
        position = endOfText(json, position)
        continue
      case '{':
      case '[':
        depth += 1
        break
      case ',':
        if (depth === 0) return position
        break
      case '}':
      case ']':
        if (depth === 0) return position
        depth -= 1
        break
      case undefined:
        return position
    }
    position += 1
  }
}

/** The position after the closing quote of the string that begins at `start`. */
export function endOfText(json: string, start: number): number {
  let quote = start
  for (;;) {
    quote = json.indexOf('"', quote + 1)
    let backslashes = 0
    while (json[quote - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
  }
}

/** Like `JSON.parse()`, whose error quotes the text: external data must not get into a log. */
export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch (error) {
    const [, position] = / at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(error instanceof Error ? error.message : '') ?? []
    throw new SyntaxError(
      position === undefined ? 'The text is not valid JSON.' : `The text is not valid JSON: syntax error at position ${position}.`,
    )
  }
}
