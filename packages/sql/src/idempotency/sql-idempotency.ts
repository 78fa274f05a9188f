import { currentContext, type Runtime, rootContext, systemRuntime } from '@ackord/core'
import { checkDuration, probe, rejectUnknownOptions } from '@ackord/core/internal'
import {
  checkClaimOptions,
  checkIdempotencyKey,
  checkStoredAnswer,
  claimLost,
  type IdempotencyClaim,
  type IdempotencyKey,
  type IdempotencyStore,
  type StoredAnswer,
  writeInsideTransaction,
} from '@ackord/outbox'
import { explaining, explainMissing, type TransactionSettings } from '../contract/dialect.ts'
import type { Driver, Session, Statement } from '../contract/driver.ts'
import type { NewIdempotencyAnswer } from '../contract/store-dialect.ts'
import type { TableOptions } from '../contract/tables.ts'
import type { Row } from '../records/row.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { transactionRules, transactionRunner } from '../transaction/run-transaction.ts'

/** The settings are those of the transactions of `write()`. */
export interface SqlIdempotencyOptions extends TableOptions, TransactionSettings {
  /** Creates the tokens of claims. Leases and retentions use the database's own clock. Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * Remembers the answers to requests in a table of the database. Does no I/O until it is used; `createSchema()` creates the table, and the cleanup deletes old answers.
 *
 * A claim is one read, and one statement more if there is something to claim; on MySQL, taking over is a transaction of two. On SQLite only the read does not wait
 * for the writer of the file; within a process that needs a `reader`.
 */
export function sqlIdempotency<Handle>(database: Database<Handle>, options: SqlIdempotencyOptions = {}): IdempotencyStore<Handle> {
  const { runtime = systemRuntime, schema, names, isolation, statementTimeout, lockTimeout, idleTimeout, ...unknown } = options
  rejectUnknownOptions('sqlIdempotency()', unknown)
  const port = portOf(database)
  const { dialect, driver, find } = port
  const table = port.tables({ schema, names }).idempotency
  const explain = (error: unknown) => explainMissing(dialect, error, table)
  // The statements use the handle of the driver, whatever its type.
  const statements = explaining(dialect.store.idempotency(driver as Driver<unknown>, table), explain)
  const answerOf = dialect.store.answer(table)
  const settings = { isolation, statementTimeout, lockTimeout, idleTimeout }
  const runTransaction = transactionRunner(port, transactionRules(port, 'sqlIdempotency()', { ...settings, retries: 0 }))

  /** Whether the change was made. A conflict means that another claim made one. */
  async function isMade(change: Promise<boolean>): Promise<boolean> {
    try {
      return await change
    } catch (error) {
      if (dialect.isConflict(error)) return false
      throw error
    }
  }

  async function isHeld(key: IdempotencyKey, token: string): Promise<boolean> {
    const row = await statements.read(key)
    return row?.['token'] === token && row['status'] === null
  }

  async function run(session: Pick<Session<unknown>, 'change'>, statement: Statement): Promise<number> {
    try {
      return await session.change(statement)
    } catch (error) {
      throw explain(error)
    }
  }

  return {
    async claim(key, claiming) {
      checkIdempotencyKey(key)
      const { fingerprint, lease } = checkClaimOptions(claiming)
      const row = await statements.read(key)
      const found = row === undefined ? undefined : claimOf(row, fingerprint)
      if (found !== undefined) return found
      const token = runtime.uuid()
      const claim = { fingerprint, token, lease }
      if (row === undefined) {
        // Another request has just claimed the key, probably for as long.
        if (!(await isMade(statements.insert(key, claim)))) return running(lease)
      } else if (!(await isMade(statements.replace(key, claim, String(row['token']))))) {
        // Another request has taken over, or the first one is about to commit.
        return running(1)
      }
      await probe('idempotency.claimed')
      return { state: 'claimed', token }
    },

    async write(key, token, work, { retention, context = currentContext() ?? rootContext() }) {
      checkIdempotencyKey(key)
      checkDuration('retention', retention, { min: 1 })
      if (find(context) !== undefined) throw writeInsideTransaction('sqlIdempotency()')

      try {
        return await runTransaction(
          {
            message: undefined,
            async run(inside) {
              // Present: the runner put it there.
              const answer = checkStoredAnswer(await work(database.transaction(inside) as Handle, inside))
              await probe('idempotency.worked')
              return answer
            },
            // Last, so that the row is locked only for the commit.
            async last(answer, session) {
              const changed = await run(session, answerOf(key, token, rowOf(answer, retention)))
              if (changed !== 1) throw claimLost(key)
            },
          },
          context,
        )
      } catch (error) {
        // At a strict isolation level, the database reports a changed row as a conflict.
        const isLost = dialect.isConflict(error) && !(await isHeld(key, token).catch(() => true))
        throw isLost ? claimLost(key, { cause: error }) : error
      }
    },

    async release(key, token) {
      await statements.release(checkIdempotencyKey(key), token)
      await probe('idempotency.released')
    },
  }
}

/** The meaning of a row for a request with this fingerprint; `undefined`: the request can have the key. */
function claimOf(row: Row, fingerprint: string): IdempotencyClaim | undefined {
  if (Number(row['expired']) === 1) return undefined
  if (row['fingerprint'] !== fingerprint) return { state: 'mismatch' }
  if (row['status'] !== null) return { state: 'answered', answer: answerOfRow(row) }
  const remaining = Number(row['remaining'])
  return remaining > 0 ? running(remaining) : undefined
}

function running(remaining: number): IdempotencyClaim {
  return { state: 'running', remaining: Math.max(1, Math.ceil(remaining)) }
}

/** With a copy of the body, because the caller may reuse its buffer before the client of the database has sent it. */
function rowOf({ status, headers, body }: StoredAnswer, retention: number): NewIdempotencyAnswer {
  return { status, headers: JSON.stringify(headers), body: Buffer.from(body), retention }
}

function answerOfRow(row: Row): StoredAnswer {
  return {
    status: Number(row['status']),
    // As rowOf() wrote it.
    headers: JSON.parse(String(row['headers'])) as StoredAnswer['headers'],
    body: row['data'] as Uint8Array,
  }
}
