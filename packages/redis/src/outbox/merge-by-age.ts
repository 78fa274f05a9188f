/** Merges sequences that are each sorted by millisecond. Items of the same millisecond are gathered and sorted. */
export async function* mergeByAge<T>(
  sources: readonly AsyncGenerator<T, void, void>[],
  millisecondOf: (item: T) => number,
  compare: (one: T, other: T) => number,
): AsyncGenerator<T, void, void> {
  const heads = new Map<AsyncGenerator<T, void, void>, T>()
  const advance = async (source: AsyncGenerator<T, void, void>) => {
    const next = await source.next()
    if (next.done === true) heads.delete(source)
    else heads.set(source, next.value)
  }
  await Promise.all(sources.map(advance))
  while (heads.size > 0) {
    const oldest = Math.min(...Array.from(heads.values(), millisecondOf))
    const together: T[] = []
    for (const source of [...heads.keys()]) {
      for (let head = heads.get(source); head !== undefined && millisecondOf(head) === oldest; head = heads.get(source)) {
        together.push(head)
        await advance(source)
      }
    }
    yield* together.sort(compare)
  }
}
