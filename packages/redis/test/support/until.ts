/** Polls until the condition holds. For effects that the server applies asynchronously. */
export async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + 15_000
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`It did not come to that: ${what}.`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
