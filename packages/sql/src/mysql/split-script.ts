/** The statements of a script of ours: clients send one at a time unless they are told otherwise. Quotes and names may hold semicolons. */
export function splitScript(sql: string): readonly string[] {
  const parts = sql.match(/(?:`(?:[^`]|``)*`|'(?:[^']|'')*'|[^;`'])+/g) ?? []
  return parts.map((part) => part.trim()).filter((part) => part !== '')
}
