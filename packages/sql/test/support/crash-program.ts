import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'

/** Bundles the program of a service into a file that Node can run. The file is deleted after the tests of the calling file. */
export function crashProgram(program: URL): string {
  const file = fileURLToPath(new URL(`../../../../.cache/crash/${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(program), file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
