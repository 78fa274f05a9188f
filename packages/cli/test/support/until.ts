/** Repeats the query until it returns true. Each query is a round trip. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(30_000)
  while (!(await isSo())) limit.throwIfAborted()
}
