import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../scripts/bundle.mjs'

/** The program of a worker as a file that Node can run, while the tests of this file last. It is where it finds this package's own clients. */
export function workerProgram(program: URL): string {
  const name = basename(program.pathname, '.ts')
  const file = fileURLToPath(new URL(`../../node_modules/.cache/faults/${name}-${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(program), file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
