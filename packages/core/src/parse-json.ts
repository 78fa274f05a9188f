/** As `JSON.parse()`, whose error quotes the text: what others sent must not come into a log. */
export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch (error) {
    const [, position] = / at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(error instanceof Error ? error.message : '') ?? []
    throw new SyntaxError(position === undefined ? 'The text is not JSON.' : `The text is not JSON; it goes wrong at position ${position}.`)
  }
}
