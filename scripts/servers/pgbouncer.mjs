// @ts-check
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unprivilegedAccount } from './account.mjs'
import { findBinary } from './find-binary.mjs'
import { freePort } from './free-port.mjs'
import { startPostgres } from './postgres.mjs'
import { queryPostgres } from './postgres-protocol.mjs'
import { requireBinary } from './require-binary.mjs'
import { startServer } from './server.mjs'

/** @type {import('./kind.mjs').Kind} */
export const pgbouncer = {
  name: 'pgbouncer',
  variable: 'PGBOUNCER_URL',
  defaultPort: 6432,
  // A running pooler may use another mode, and another server than the tests.
  defaultUrl: undefined,
  debianPackage: 'pgbouncer',
  locate: () => findBinary('pgbouncer'),
  probe,
  start: startPgbouncer,
}

/** @param {string} url */
async function probe(url) {
  await queryPostgres(url, 'select 1')
}

/**
 * A pooler in transaction mode: each transaction may use another connection.
 *
 * @param {{ postgresUrl?: string | undefined, poolSize?: number | undefined }} [options] `postgresUrl`: the server behind it, which must accept
 *   `postgres` without a password. Default: a separate server. `poolSize`: connections to that server. Default: 10.
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startPgbouncer({ postgresUrl, poolSize = 10 } = {}) {
  const binary = requireBinary(pgbouncer)
  const behind = postgresUrl === undefined ? await startPostgres() : undefined
  const target = new URL(postgresUrl ?? behind?.url ?? '')
  const port = await freePort()
  const url = `postgres://postgres@127.0.0.1:${port}${target.pathname}`
  try {
    const server = await startServer({
      name: 'pgbouncer',
      account: unprivilegedAccount('postgres'),
      launch(directory) {
        const file = join(directory, 'pgbouncer.ini')
        writeFileSync(
          file,
          `[databases]
* = host=${target.hostname} port=${target.port || 5432} user=${target.username || 'postgres'}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = ${poolSize}
ignore_startup_parameters = extra_float_digits,options
server_reset_query_always = 0
`,
        )
        return { file: binary, args: [file] }
      },
      ready: async () => {
        await queryPostgres(url, 'select 1')
        return url
      },
      stopSignal: 'SIGINT',
    })
    const stop = async () => {
      await server.stop()
      await behind?.stop()
    }
    return Object.create(server, { stop: { value: stop }, [Symbol.asyncDispose]: { value: stop } })
  } catch (error) {
    await behind?.stop()
    throw error
  }
}
