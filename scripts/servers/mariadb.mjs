// @ts-check
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { findBinary } from './find-binary.mjs'
import { freePort } from './free-port.mjs'
import { queryMariadb, UnknownLoginError } from './mariadb-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/** @type {import('./kind.mjs').Kind} */
export const mariadb = {
  name: 'mariadb',
  variable: 'MARIADB_URL',
  defaultPort: 3306,
  defaultUrl: 'mysql://root@127.0.0.1:3306/test',
  debianPackage: 'mariadb-server',
  locate: () => (findBinary('mariadb-install-db') === undefined ? undefined : findBinary('mariadbd')),
  probe,
  start: startMariadb,
}

/** @param {string} url */
async function probe(url) {
  await queryMariadb(url, 'select 1').catch((error) => {
    if (!(error instanceof UnknownLoginError)) throw error
  })
}

/** @returns {Promise<import('./server.mjs').Server>} user `root` without a password, database `test` */
export async function startMariadb() {
  const mariadbd = requireBinary(mariadb)
  const port = await freePort()
  const base = `mysql://root@127.0.0.1:${port}`
  // Relative to the data directory, because a socket's path must not be longer than about a hundred characters.
  const socket = 'mariadb.sock'
  const small = ['--innodb-buffer-pool-size=64M', '--innodb-log-file-size=32M', '--innodb-fast-shutdown=1']

  return await startServer({
    name: 'mariadb',
    account: unprivilegedAccount('mysql'),
    prepare: (directory) => [
      {
        file: findBinary('mariadb-install-db') ?? 'mariadb-install-db',
        args: [
          '--no-defaults',
          `--datadir=${join(directory, 'data')}`,
          '--auth-root-authentication-method=normal',
          '--skip-test-db',
          '--skip-name-resolve',
          ...small,
        ],
      },
    ],
    launch: (directory) => ({
      file: mariadbd,
      args: [
        '--no-defaults',
        `--datadir=${join(directory, 'data')}`,
        `--port=${port}`,
        '--bind-address=127.0.0.1',
        `--socket=${socket}`,
        `--pid-file=${join(directory, 'pid')}`,
        '--skip-name-resolve',
        '--max-connections=200',
        // Each commit reaches the kernel, so a killed process loses nothing; it is not synced to the disk.
        '--innodb-flush-log-at-trx-commit=2',
        ...small,
      ],
    }),
    ready: async () => {
      await queryMariadb(base, 'select 1')
      return `${base}/test`
    },
    finish: async () => {
      await queryMariadb(base, 'create database test')
    },
  })
}
