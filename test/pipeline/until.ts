import { setTimeout as pause } from 'node:timers/promises'

/** Asks until it is so, and fails after two minutes. */
export async function until(isSo: () => Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 120_000
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`in two minutes it did not come to this: ${what}`)
    await pause(50)
  }
}
