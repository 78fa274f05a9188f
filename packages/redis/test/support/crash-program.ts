import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'

const programs = {
  'crash-service': new URL('./crash-service.ts', import.meta.url),
  'crash-request': new URL('./crash-request.ts', import.meta.url),
  'rate-process': new URL('./rate-process.ts', import.meta.url),
  'crash-order-process': new URL('./crash-order-process.ts', import.meta.url),
}

/** Bundles a program of this folder into a file that Node can run for the duration of this test file. The file is placed where it can resolve this package's own clients. */
export function crashProgram(program: keyof typeof programs = 'crash-service'): string {
  const file = fileURLToPath(new URL(`../../node_modules/.cache/crash/${program}-${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(fileURLToPath(programs[program]), file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return file
}
