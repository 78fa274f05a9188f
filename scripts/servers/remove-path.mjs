// @ts-check
import { rm } from 'node:fs/promises'
import { waitUntil } from './wait-until.mjs'

/**
 * More than once if need be: a process that has just been told to end may still put a file there.
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
