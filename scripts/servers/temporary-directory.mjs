// @ts-check
import { randomUUID } from 'node:crypto'
import { chownSync, mkdirSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { adoptPath, releasePath } from './orphans.mjs'
import { removePath } from './remove-path.mjs'

/** @type {Set<string>} */
const directories = new Set()

/**
 * @param {string} name
 * @param {import('./account.mjs').Account | undefined} account its owner, if not that of this process
 * @param {string} [root] the unpacked system to create it in. Default: that of the machine.
 */
export function makeTemporaryDirectory(name, account, root = '') {
  const own = account === undefined || isOpen(tmpdir()) ? tmpdir() : '/tmp'
  const parent = root === '' ? own : join(root, 'tmp')
  // Not mkdtemp: the reaper must know the path before the directory exists.
  const directory = join(parent, `ackord-${name}-${randomUUID()}`)
  adoptPath(directory)
  directories.add(directory)
  mkdirSync(directory, { mode: 0o700 })
  if (account !== undefined) chownSync(directory, account.uid, account.gid)
  return directory
}

/** @param {string} directory */
export async function removeTemporaryDirectory(directory) {
  await removePath(directory)
  directories.delete(directory)
  releasePath(directory)
}

export async function removeTemporaryDirectories() {
  await Promise.all([...directories].map(removeTemporaryDirectory))
}

/**
 * Whether another account can access the directory: root's own TMPDIR may be private.
 *
 * @param {string} directory
 * @returns {boolean}
 */
function isOpen(directory) {
  if ((statSync(directory).mode & 0o001) === 0) return false
  return directory === dirname(directory) || isOpen(dirname(directory))
}
