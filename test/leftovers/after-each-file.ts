import { afterAll } from 'vitest'

const cleanUps: (() => unknown)[] = []

/**
 * Calls the function after the last test of every file that this worker runs from now on. For modules that several test files import: their own
 * `afterAll` would apply to the first of these files only, because a worker loads a module once. The exit of the process is too late: vitest ends its
 * workers with a signal.
 */
export function afterEachFile(cleanUp: () => unknown): void {
  cleanUps.push(cleanUp)
}

/** For vitest's `setupFiles`, which run for every test file. */
export function cleanUpAfterThisFile(): void {
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp()
  })
}
