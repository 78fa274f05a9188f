// @ts-check
import { accessSync, constants, readdirSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Directories where packages install servers, and which are often missing in the PATH of ordinary users. */
const systemDirectories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/**
 * @param {string} name
 * @param {string[]} [first] directories to search before PATH
 * @param {string} [root] the unpacked system to search, without PATH. Default: that of the machine.
 * @returns {string | undefined} its path
 */
export function findBinary(name, first = [], root = '') {
  const { PATH = '' } = process.env
  const path = root === '' ? PATH.split(delimiter).filter((directory) => directory !== '') : []
  return [...first, ...path, ...systemDirectories].map((directory) => join(root, directory, name)).find(isExecutable)
}

/**
 * @param {string} parent
 * @param {string} below
 * @param {string} [root] the unpacked system to search. Default: that of the machine.
 * @returns {string[]} `parent/<version>/below`, the highest version first
 */
export function versionedDirectories(parent, below, root = '') {
  try {
    return readdirSync(join(root, parent))
      .sort((a, b) => Number.parseFloat(b) - Number.parseFloat(a))
      .map((version) => join(parent, version, below))
  } catch {
    return []
  }
}

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
