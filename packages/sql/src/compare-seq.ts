/** Compares numbers as text, which may be larger than a JavaScript number can tell apart. */
export function compareSeq(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
