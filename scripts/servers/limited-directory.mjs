// @ts-check
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** The name of the directory, beside the data of the server. */
const limitedDirectory = 'limited'

/**
 * Gives a server a directory with its own file system, so that a test can fill it without filling the machine's. It is mounted in
 * a separate mount namespace: that needs no root where users may create namespaces, and the mount ends with the server.
 *
 * @param {import('./server.mjs').Launch} launch
 * @param {string} directory of the server
 * @param {string | undefined} size as in `mount`: `4m`. Default: no such directory.
 * @param {import('./account.mjs').Account | undefined} account
 * @returns {import('./server.mjs').Launch}
 */
export function withLimitedDirectory(launch, directory, size, account) {
  if (size === undefined) return launch
  const path = join(directory, limitedDirectory)
  mkdirSync(path, { recursive: true })
  const owner = account === undefined ? '' : `,uid=${account.uid},gid=${account.gid}`
  const script = 'mount -t tmpfs -o "$0" tmpfs "$1" && shift && exec "$@"'
  const namespace = ['--user', '--map-current-user', '--keep-caps', '--mount']
  return {
    ...launch,
    file: 'unshare',
    args: [...namespace, '/bin/sh', '-c', script, `size=${size},mode=700${owner}`, path, launch.file, ...launch.args],
  }
}
