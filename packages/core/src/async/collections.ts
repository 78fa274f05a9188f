/** Splits the items into chunks within the limits, in their order, with at least one item each. */
export function* inChunks<T extends { readonly size: number }>(
  items: readonly T[],
  limits: { readonly count: number; readonly size: number },
): Generator<readonly T[]> {
  let chunk: T[] = []
  let size = 0
  for (const item of items) {
    if (chunk.length > 0 && (chunk.length === limits.count || size + item.size > limits.size)) {
      yield chunk
      chunk = []
      size = 0
    }
    chunk.push(item)
    size += item.size
  }
  if (chunk.length > 0) yield chunk
}
