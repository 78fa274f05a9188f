// @ts-check
// The packages as npm would publish them.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @typedef {{ name: string, tarball: string }} PackedPackage */

/**
 * Packs all packages that are published, with the page of the dashboard. They must be compiled.
 *
 * @param {string} folder where the tarballs go
 * @returns {PackedPackage[]}
 */
export function packPackages(folder) {
  const page = spawnSync(process.execPath, [join(root, 'scripts/dashboard-page.mjs')], { cwd: root, encoding: 'utf8' })
  if (page.status !== 0) throw new Error(`The page of the dashboard could not be built:\n${page.stdout}${page.stderr}`)
  const folders = readdirSync(join(root, 'packages'))
    .map((name) => join(root, 'packages', name))
    .filter((path) => readFileSync(join(path, 'package.json'), 'utf8').includes('"publishConfig"'))
  const args = ['pack', '--json', '--loglevel=error', '--pack-destination', folder, ...folders]
  const { stdout, status, stderr } = spawnSync('npm', args, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (status !== 0) throw new Error(`npm pack failed:\n${stderr}`)
  return JSON.parse(stdout).map((/** @type {{ name: string, filename: string }} */ { name, filename }) => ({
    name,
    tarball: join(folder, filename),
  }))
}
