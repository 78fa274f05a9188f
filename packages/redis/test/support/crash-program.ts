import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'

/** Bundles the service into a file that Node can run for the duration of this test file. The file is placed where it can resolve this package's own clients. */
export function crashProgram(): string {
  const file = fileURLToPath(new URL(`../../node_modules/.cache/crash/${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(new URL('./crash-service.ts', import.meta.url)), file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
