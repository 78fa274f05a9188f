import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'

const program = fileURLToPath(new URL('./support/survivors-program.ts', import.meta.url))
const file = fileURLToPath(new URL(`../../../../.cache/survivors/${process.pid}.mjs`, import.meta.url))

beforeAll(() => bundle(program, file))
afterAll(() => {
  for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
})

it('retains next to nothing of a message until a full garbage collection: later ones are not linked to it', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [file])
  const bytesPerMessage = Number(stdout)
  expect(bytesPerMessage).toBeGreaterThan(0)
  // With a Set or a listener per message, the result was about 2,000 bytes.
  expect(bytesPerMessage).toBeLessThan(700)
})
