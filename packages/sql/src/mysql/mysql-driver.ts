import { InvalidOptionError } from '@ackord/core'
import type { Driver } from '../driver.ts'
import { lend, workInSession } from '../open-session.ts'
import { openSession } from './mysql-session.ts'
import type { MysqlConnection, MysqlPool, MysqlQueryable, MysqlWire } from './mysql-wire.ts'
import { sendStatement } from './send-statement.ts'
import { splitScript } from './split-script.ts'

export function mysqlDriver(pool: MysqlPool, wire: MysqlWire): Driver<MysqlQueryable> {
  return {
    pool,
    run: (handle, sql, parameters) => sendStatement(wire, handle, { sql, parameters }),
    // Only the server knows.
    inTransaction: () => undefined,

    async connection(work) {
      const connection = await connect(pool, wire, new AbortController().signal)
      let broken = true
      try {
        const run = (sql: string, parameters: readonly unknown[] = []) => sendStatement(wire, connection, { sql, parameters })
        const result = await work({
          run,
          async script(sql) {
            for (const statement of splitScript(sql)) await run(statement)
          },
        })
        broken = false
        return result
      } finally {
        await giveBack(connection, broken)
      }
    },

    async transaction(settings, work, signal) {
      const connection = await connect(pool, wire, signal)
      const opened = openSession(connection, wire, settings)
      connection.on('error', opened.breakOff)
      try {
        return await workInSession(opened, work)
      } finally {
        connection.removeListener('error', opened.breakOff)
        await giveBack(connection, opened.broken() !== undefined)
      }
    },
  }
}

async function connect(pool: MysqlPool, { name }: MysqlWire, signal: AbortSignal): Promise<MysqlConnection> {
  const connection = await lend(pool.getConnection(), (late) => late.release(), signal)
  if (typeof connection?.release !== 'function') throw new InvalidOptionError(`${name}(pool)`, 'must be a pool whose calls give promises.')
  return connection
}

async function giveBack(connection: MysqlConnection, broken: boolean): Promise<void> {
  if (!broken) {
    try {
      await connection.release()
      return
    } catch {
      // It is lost then.
    }
  }
  connection.destroy()
}
