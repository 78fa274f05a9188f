/** Follows which statement is prepared under which name, so that it is recognised when only its name is sent. */
export class PostgresStatements {
  readonly #byName = new Map<string, string>()

  /** Reads a piece; whether it has one of these statements, by its text or by its name. */
  has(bytes: Buffer, wanted: RegExp): boolean {
    const text = bytes.toString('latin1')
    // A Parse message has the name and then the text, each with a zero behind it; a Bind message has a zero where the text would be.
    for (const [, name = '', sql = ''] of text.matchAll(/(ackord_[0-9a-f]{32}(?:_pg)?)\0([^\0]+)\0/g)) this.#byName.set(name, sql)
    if (wanted.test(text)) return true
    const names = text.match(/ackord_[0-9a-f]{32}(?:_pg)?/g) ?? []
    return names.some((name) => wanted.test(this.#byName.get(name) ?? ''))
  }
}
