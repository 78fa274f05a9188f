import { setTimeout as pause } from 'node:timers/promises'

/** Polls until the condition holds, and fails after two minutes. */
export async function until(isSo: () => Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 120_000
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`condition not met within two minutes: ${what}`)
    await pause(50)
  }
}
