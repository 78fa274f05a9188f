import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../../../scripts/bundle.mjs'

/** Bundles the service into a file that Node can run. The file is deleted after the tests of the calling file. */
export function crashService(): string {
  const program = fileURLToPath(new URL('./crash-service.ts', import.meta.url))
  const file = fileURLToPath(new URL(`../../../../../.cache/crash/sqlite-${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(program, file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
