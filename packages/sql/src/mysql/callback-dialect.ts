import { InvalidOptionError } from '@ackord/core'
import type { CallbackDialect } from '../orm/callback-driver.ts'
import { explainSize, sizeOf, toWire } from './client/wire.ts'
import { errorNumberOf, refusedCommit } from './errors.ts'
import { splitScript } from './sql-text.ts'
import { checkAutocommit, refuseControl } from './transaction-control.ts'
import { transactionGuard } from './transaction-guard.ts'
import { isolationOf } from './transaction-settings.ts'

/** For one adapter, with its name. */
export function callbackDialect(adapter: string): CallbackDialect {
  let checked = false
  return {
    refuseControl,
    refusedCommit,
    undoesAlone: true,
    ddlCommits: true,
    isolationOf,
    split: splitScript,
    adapt: (run) =>
      async function runWithBytes(handle, sql, parameters) {
        const values = parameters.map(toWire)
        try {
          return await run(handle, sql, values)
        } catch (error) {
          throw explainPrepared(adapter, explainSize(error, sizeOf(sql, values)))
        }
      },
    guard(options) {
      const guard = transactionGuard(options)
      return {
        ...guard,
        async begin(settings) {
          // Once is enough: all connections of a pool are created alike.
          if (!checked) await checkAutocommit(options.send, adapter)
          checked = true
          await guard.begin(settings)
        },
      }
    },
  }
}

/** MariaDB can prepare a SAVEPOINT, MySQL cannot. Of the supported ORMs only Prisma prepares the library's statements. */
function explainPrepared(adapter: string, error: unknown): unknown {
  // This command is not supported in the prepared statement protocol yet.
  if (errorNumberOf(error) !== 1295) return error
  return new InvalidOptionError(
    adapter,
    'was given a client that prepares every statement, but this server cannot prepare a SAVEPOINT. Create PrismaMariaDb with the option useTextProtocol: true.',
    { cause: error },
  )
}
