// @ts-check
// The names of resources that a test creates on servers that other runs may share: they contain the id of the run, so that leftovers can be attributed to it.
import { randomBytes } from 'node:crypto'

/** The id of this run, in all its processes: six hexadecimal digits. `test/leftovers/leftovers.ts` sets it under vitest. */
export const runId = process.env['ACKORD_TEST_RUN'] ?? randomBytes(3).toString('hex')

/** Twelve hexadecimal digits that no other test uses. They begin with those of the run. */
export function ownName() {
  return `${runId}${randomBytes(3).toString('hex')}`
}
