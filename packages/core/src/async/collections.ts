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

/** The items by key, in their order; keys are in the order of their first item. */
export function groupBy<T, K>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}
