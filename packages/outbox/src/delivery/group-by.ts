/** The items by their keys, both in the order in which they came. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): [string, T[]][] {
  const groups = new Map<string, T[]>()
  let last: string | undefined
  let group: T[] | undefined
  for (const item of items) {
    const key = keyOf(item)
    // Most follow one of their own kind.
    if (key !== last) group = groups.get(key)
    if (group === undefined) {
      group = []
      groups.set(key, group)
    }
    group.push(item)
    last = key
  }
  return [...groups]
}
