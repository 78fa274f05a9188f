import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'

/** The program of a service as a file that Node can run, while the tests of this file last. */
export function crashProgram(program: URL): string {
  const file = fileURLToPath(new URL(`../../../../.cache/crash/${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(program), file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
