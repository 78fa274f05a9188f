import { rmSync } from 'node:fs'
import { afterAll } from 'vitest'

const paths = new Set<string>()

/** Removes a file or directory after the last test of the current file. */
export function removeAfterFile(path: string): void {
  paths.add(path)
}

/**
 * For vitest's `setupFiles`, which run for every test file. A module that tests import cannot call `afterAll` itself: a worker loads it once, for the
 * first file that needs it. The exit of the process is too late: vitest ends its workers with a signal.
 */
export function removeAfterEachFile(): void {
  afterAll(() => {
    for (const path of paths) rmSync(path, { recursive: true, force: true })
    paths.clear()
  })
}
