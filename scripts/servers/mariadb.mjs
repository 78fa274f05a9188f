// @ts-check
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { findBinary } from './find-binary.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { freePort } from './free-port.mjs'
import { queryMariadb, UnknownLoginError } from './mariadb-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/** @type {import('./kind.mjs').Kind} */
export const mariadb = {
  name: 'mariadb',
  variable: 'MARIADB_URL',
  alias: 'MYSQL_URL',
  defaultPort: 3306,
  defaultUrl: 'mysql://root@127.0.0.1:3306/test',
  debianPackage: 'mariadb-server',
  locate,
  probe,
  start: startMariadb,
}

function locate() {
  const root = foreignRoot('mariadb')
  if (findInstaller() !== undefined) return findBinary('mariadbd', [], root)
  // MySQL initializes the data directory itself. Used only from an unpacked system: `make test` runs on MariaDB.
  return root === '' ? undefined : findBinary('mysqld', [], root)
}

function findInstaller() {
  return findBinary('mariadb-install-db', [], foreignRoot('mariadb'))
}

/** @param {string} url */
async function probe(url) {
  await queryMariadb(url, 'select 1').catch((error) => {
    if (!(error instanceof UnknownLoginError)) throw error
  })
}

/** MariaDB, or MySQL if that is unpacked. @returns {Promise<import('./server.mjs').Server>} user `root` without a password, database `test` */
export async function startMariadb() {
  const binary = requireBinary(mariadb)
  const installer = findInstaller()
  const port = await freePort()
  const base = `mysql://root@127.0.0.1:${port}`
  // Relative to the data directory, because the path of a socket is limited to about a hundred characters.
  const socket = 'mariadb.sock'
  const buffers = ['--innodb-buffer-pool-size=64M', '--innodb-fast-shutdown=1']
  // MySQL syncs often while tables are created; without syncs a killed process still loses nothing.
  const small =
    installer === undefined
      ? [
          ...buffers,
          '--innodb-redo-log-capacity=64M',
          '--innodb-flush-method=nosync',
          '--innodb-doublewrite=OFF',
          '--disable-log-bin',
          '--mysqlx=OFF',
          '--secure-file-priv=NULL',
        ]
      : [...buffers, '--innodb-log-file-size=32M']

  return await startServer({
    name: 'mariadb',
    account: unprivilegedAccount('mysql'),
    prepare: (directory) => [
      {
        file: installer ?? binary,
        args: [
          '--no-defaults',
          `--datadir=${join(directory, 'data')}`,
          ...(installer === undefined
            ? ['--initialize-insecure', `--init-file=${writeAccount(directory)}`]
            : ['--auth-root-authentication-method=normal', '--skip-test-db']),
          '--skip-name-resolve',
          ...small,
        ],
      },
    ],
    launch: (directory) => ({
      file: binary,
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

/**
 * MySQL creates an account for `localhost` only, which does not match 127.0.0.1 without name resolution.
 *
 * @param {string} directory
 */
function writeAccount(directory) {
  const file = join(directory, 'account.sql')
  writeFileSync(file, "CREATE USER 'root'@'127.0.0.1';\nGRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n")
  return file
}
