// @ts-check
// The names of what a test creates on servers that other runs may be using as well: they have the run in them, so that what it leaves behind is known.
import { randomBytes } from 'node:crypto'

/** Of this run, in all its processes: six hexadecimal digits. `scripts/test-leftovers.mjs` sets it where vitest runs. */
export const runId = process.env['ACKORD_TEST_RUN'] ?? randomBytes(3).toString('hex')

/** Twelve hexadecimal digits that no other test has. They begin with those of the run. */
export function ownName() {
  return `${runId}${randomBytes(3).toString('hex')}`
}
