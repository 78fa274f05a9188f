// @ts-check
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PrivateApt } from './private-apt.mjs'

const directory = fileURLToPath(new URL('../../../.cache/foreign/', import.meta.url))

/** Packages that the start scripts of the servers require. */
const basics = ['base-files', 'dash', 'coreutils', 'sed', 'grep', 'findutils', 'mawk']

/** Character devices with their numbers. Without them Erlang spins and OpenSSL has no entropy. */
const devices = { null: [1, 3], zero: [1, 5], random: [1, 8], urandom: [1, 9] }

/** @type {Map<string, PrivateApt>} */
const suites = new Map()

/**
 * Downloads a server and unpacks it into a directory that `chroot` can use. Nothing is installed: no script of a package
 * runs, and the machine's own packages stay as they are.
 *
 * @param {import('./catalogue.mjs').ForeignServer} server
 * @returns {Promise<string>} the directory
 */
export async function unpackForeign({ id, suite, packages }) {
  if (process.getuid?.() !== 0) throw new Error('only root may use chroot and make device files')
  const apt = suites.get(suite) ?? new PrivateApt(join(directory, suite), suite)
  suites.set(suite, apt)
  const archives = await apt.download([...basics, ...packages])
  const contents = archives.map((path) => basename(path)).join('\n')
  const root = join(directory, id)
  const stamp = join(root, 'packages')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === contents) return root

  const fresh = `${root}.new`
  for (const path of [root, fresh]) rmSync(path, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true, mode: 0o755 })
  // This package contains the links /bin, /lib and so on, which other packages expect.
  const first = archives.findIndex((path) => basename(path).startsWith('base-files_'))
  for (const path of [...archives.splice(first, 1), ...archives]) execFileSync('dpkg', ['-x', path, fresh])
  makeUsable(fresh)
  writeFileSync(join(fresh, 'packages'), contents)
  renameSync(fresh, root)
  return root
}

/** @param {string} root */
function makeUsable(root) {
  mkdirSync(join(root, 'dev'), { recursive: true })
  for (const [name, [major, minor]] of Object.entries(devices)) {
    execFileSync('mknod', ['--mode=666', join(root, 'dev', name), 'c', String(major), String(minor)])
  }
  mkdirSync(join(root, 'tmp'), { recursive: true })
  execFileSync('chmod', ['1777', join(root, 'tmp')])
  // Servers look up the name of the account under which they run.
  for (const name of ['passwd', 'group', 'hosts']) copyFileSync(join('/etc', name), join(root, 'etc', name))
  if (!existsSync(join(root, 'usr/bin/awk'))) symlinkSync('mawk', join(root, 'usr/bin/awk'))
}
