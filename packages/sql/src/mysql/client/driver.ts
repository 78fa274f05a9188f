import { InvalidOptionError } from '@ackord/core'
import { acquire, type Driver, workInSession } from '../../contract/driver.ts'
import { splitScript } from '../sql-text.ts'
import { CompoundStatements } from './compound-statements.ts'
import { openSession } from './session.ts'
import { type MysqlConnection, type MysqlPool, type MysqlQueryable, type MysqlWire, sendStatement } from './wire.ts'

export function mysqlDriver(pool: MysqlPool, wire: MysqlWire): Driver<MysqlQueryable> {
  const compounds = new CompoundStatements()
  return {
    pool,
    run: (handle, sql, parameters) => sendStatement(wire, handle, { sql, parameters }),
    // Only the server knows.
    inTransaction: () => undefined,

    async connection(work) {
      const connection = checked(await pool.getConnection(), wire)
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
        await returnToPool(connection, broken)
      }
    },

    async transaction(settings, work, signal) {
      const connection = checked(await acquire(pool.getConnection(), (late) => late.release(), signal), wire)
      const opened = openSession(connection, { wire, settings, compounds })
      connection.on('error', opened.markBroken)
      return await workInSession(opened, work, function end() {
        connection.removeListener('error', opened.markBroken)
        return returnToPool(connection, opened.broken() !== undefined)
      })
    },
  }
}

function checked(connection: MysqlConnection, { name }: MysqlWire): MysqlConnection {
  if (typeof connection?.release !== 'function')
    throw new InvalidOptionError(`${name}(pool)`, 'must be a pool whose methods return promises.')
  return connection
}

/** Returns `undefined` if there is nothing to wait for. */
function returnToPool(connection: MysqlConnection, broken: boolean): Promise<void> | undefined {
  // For a connection that is broken, or that cannot be returned to its pool.
  const drop = () => connection.destroy()
  if (broken) {
    drop()
    return undefined
  }
  try {
    return connection.release()?.catch(drop)
  } catch {
    drop()
    return undefined
  }
}
