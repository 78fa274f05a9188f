// @ts-check
import { dirname, join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { freePort } from './free-port.mjs'
import { postgres } from './postgres.mjs'
import { queryPostgres } from './postgres-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/**
 * Starts a streaming standby of a server that `startPostgres()` has started. Resolves when it answers queries, which it does read-only until it is promoted.
 *
 * @param {number} primaryPort the port of the primary, or of a proxy in front of it
 * @returns {Promise<import('./server.mjs').Server>} user `postgres` without a password, database `test`
 */
export async function startPostgresStandby(primaryPort) {
  const binary = requireBinary(postgres)
  const port = await freePort()
  const url = `postgres://postgres@127.0.0.1:${port}/test`

  return await startServer({
    name: 'postgres-standby',
    kind: 'postgres',
    account: unprivilegedAccount('postgres'),
    prepare: (directory) => [
      {
        file: join(dirname(binary), 'pg_basebackup'),
        args: [
          ...['-d', `host=127.0.0.1 port=${primaryPort} user=postgres`, '-D', join(directory, 'data')],
          ...['--write-recovery-conf', '--checkpoint=fast', '--wal-method=stream', '--no-sync'],
        ],
      },
    ],
    launch: (directory) => ({
      file: binary,
      // As the primary, which must not have more connections than its standby.
      args: [
        ...['-D', join(directory, 'data'), '-p', String(port), '-h', '127.0.0.1', '-k', '', '-F'],
        ...['-N', '200', '-c', 'dynamic_shared_memory_type=mmap'],
      ],
    }),
    ready: async () => {
      await queryPostgres(url, 'select 1')
      return url
    },
    stopSignal: 'SIGINT',
    discardSignal: 'SIGQUIT',
  })
}
