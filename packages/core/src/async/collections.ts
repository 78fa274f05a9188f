/** Splits the items into chunks within the limits, in their order, with at least one item each. */
export function* inChunks<T>(
  items: readonly T[],
  limits: { readonly count: number; readonly size: number },
  sizeOf: (item: T) => number,
): Generator<readonly T[]> {
  let chunk: T[] = []
  let size = 0
  for (const item of items) {
    const added = sizeOf(item)
    if (chunk.length > 0 && (chunk.length === limits.count || size + added > limits.size)) {
      yield chunk
      chunk = []
      size = 0
    }
    chunk.push(item)
    size += added
  }
  if (chunk.length > 0) yield chunk
}

/** Groups the items by key. Groups are in the order of their first items, items in their own order. */
export function groupBy<T, K>(items: Iterable<T>, keyOf: (item: T) => K): [K, [T, ...T[]]][] {
  const groups = new Map<K, [T, ...T[]]>()
  let last: K | undefined
  let group: [T, ...T[]] | undefined
  for (const item of items) {
    const key = keyOf(item)
    // Most items have the key of the previous one: saves a lookup.
    if (group === undefined || key !== last) group = groups.get(key)
    if (group === undefined) {
      group = [item]
      groups.set(key, group)
    } else {
      group.push(item)
    }
    last = key
  }
  return [...groups]
}
