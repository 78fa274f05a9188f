/** A piece of a statement, with the values for its question marks. */
export interface SqlPart {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

export function joinParts(parts: readonly SqlPart[], separator: string): SqlPart {
  return { sql: parts.map(({ sql }) => sql).join(separator), parameters: parts.flatMap(({ parameters }) => parameters) }
}

/** Groups by a text, in the order of first appearance. */
export function groupBy<T>(values: readonly T[], keyOf: (value: T) => string): readonly (readonly [T, ...T[]])[] {
  const groups = new Map<string, [T, ...T[]]>()
  for (const value of values) {
    const key = keyOf(value)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [value])
    else group.push(value)
  }
  return [...groups.values()]
}
