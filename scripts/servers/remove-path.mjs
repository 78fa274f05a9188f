// @ts-check
import { rm } from 'node:fs/promises'
import { waitUntil } from './wait-until.mjs'

/**
 * Retries if necessary: a process that was just asked to end may still create a file there.
 *
 * @param {string} path
 */
export async function removePath(path) {
  const remove = async () => {
    await rm(path, { recursive: true, force: true })
    return true
  }
  await waitUntil(`the removal of ${path}`, remove)
}
