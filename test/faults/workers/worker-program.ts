import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../scripts/bundle.mjs'

/** Bundles the worker into a file that Node can run for the duration of this test file. The file is placed where it can resolve this package's own clients. */
export function workerProgram(program: URL): string {
  const name = basename(program.pathname, '.ts')
  const file = fileURLToPath(new URL(`../../node_modules/.cache/faults/${name}-${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(program), file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
