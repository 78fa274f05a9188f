// @ts-check
import { dirname, join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { findBinary, versionedDirectories } from './find-binary.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { freePort } from './free-port.mjs'
import { withLimitedDirectory } from './limited-directory.mjs'
import { queryPostgres } from './postgres-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/** @type {import('./kind.mjs').Kind} */
export const postgres = {
  name: 'postgres',
  variable: 'POSTGRES_URL',
  defaultPort: 5432,
  defaultUrl: 'postgres://postgres@127.0.0.1:5432/test',
  debianPackage: 'postgresql',
  locate,
  probe,
  start: startPostgres,
}

function locate() {
  const root = foreignRoot('postgres')
  return findBinary('postgres', versionedDirectories('/usr/lib/postgresql', 'bin', root), root)
}

/** @param {string} url */
async function probe(url) {
  await queryPostgres(url, 'select 1')
}

/**
 * @param {{ limited?: string | undefined }} [options] `limited`: the size of a small file system, `4m`, mounted as `limited` beside the data. Default: none.
 * @returns {Promise<import('./server.mjs').Server>} user `postgres` without a password, database `test`
 */
export async function startPostgres({ limited } = {}) {
  const binary = requireBinary(postgres)
  const port = await freePort()
  // Shared memory as files in the data directory, so that a SIGKILL leaves nothing behind elsewhere.
  const settings = ['-N', '200', '-c', 'dynamic_shared_memory_type=mmap']
  const base = `postgres://postgres@127.0.0.1:${port}`

  const account = unprivilegedAccount('postgres')

  return await startServer({
    name: 'postgres',
    account,
    prepare: (directory) => [
      {
        file: join(dirname(binary), 'initdb'),
        args: ['-D', join(directory, 'data'), '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
      },
    ],
    launch: (directory) => {
      // Without fsync the server loses data if the machine fails, which these tests do not cover; a killed process loses
      // nothing, because its writes are already in the kernel.
      const args = ['-D', join(directory, 'data'), '-p', String(port), '-h', '127.0.0.1', '-k', '', '-F', ...settings]
      return withLimitedDirectory({ file: binary, args }, directory, limited, account)
    },
    ready: async () => {
      await queryPostgres(`${base}/postgres`, 'select 1')
      return `${base}/test`
    },
    finish: async () => {
      await queryPostgres(`${base}/postgres`, 'create database test')
    },
    stopSignal: 'SIGINT',
    // Not SIGKILL: its backends would outlive it for a moment.
    discardSignal: 'SIGQUIT',
    // After a SIGKILL the backends need a moment to notice that their postmaster has ended.
    passing: /pre-existing shared memory block|lock file "postmaster.pid" already exists/,
  })
}
