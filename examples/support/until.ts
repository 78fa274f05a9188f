/** Repeats a check until it is true. Needs no pause, because each check is a round trip. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(30_000)
  while (!(await isSo())) limit.throwIfAborted()
}
