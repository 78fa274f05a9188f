/** Tracks the names of prepared statements, to recognise a statement when only its name is sent. */
export class PostgresStatements {
  readonly #byName = new Map<string, string>()

  /** Reads a chunk; returns whether it contains one of these statements, by text or by name. */
  has(bytes: Buffer, wanted: RegExp): boolean {
    const text = bytes.toString('latin1')
    // A Parse message has the name and then the text, each terminated by a zero; a Bind message has a zero in place of the text.
    for (const [, name = '', sql = ''] of text.matchAll(/(ackord_[0-9a-f]{32}(?:_pg)?)\0([^\0]+)\0/g)) this.#byName.set(name, sql)
    if (wanted.test(text)) return true
    const names = text.match(/ackord_[0-9a-f]{32}(?:_pg)?/g) ?? []
    return names.some((name) => wanted.test(this.#byName.get(name) ?? ''))
  }
}
