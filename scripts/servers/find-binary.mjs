// @ts-check
import { accessSync, constants, readdirSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Where packages put servers, and an ordinary user's PATH often does not look. */
const systemDirectories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/**
 * @param {string} name
 * @param {string[]} [first] directories to look in before PATH
 * @param {string} [root] the unpacked system to look in, without PATH. Default: this one.
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
 * @param {string} [root] the unpacked system to look in. Default: this one.
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
