import type { Runtime } from '@ackord/core'
import { probe } from '@ackord/core/internal'
import type { NewOutboxRecord } from '@ackord/outbox'
import type { Statement } from '../contract/driver.ts'
import { explainMissing } from '../contract/schema-missing.ts'
import { type OutboxRow, outboxRowOf } from '../records/outbox-row.ts'
import type { Order } from '../records/row.ts'
import type { DatabasePort, OpenTransaction } from '../transaction/open-transaction.ts'
import { preLeaser } from './pre-lease.ts'

/** Inserts all records in the transaction, at the latest at its end. Relays of this process are woken after the commit, where the commit is known. */
export type AppendRecords<Handle> = (transaction: OpenTransaction<Handle>, records: readonly NewOutboxRecord[]) => Promise<void> | undefined

export interface AppenderOptions {
  readonly table: string
  readonly order: Order
  /** Bytes. */
  readonly maxSize: number
  readonly runtime: Runtime
}

export function recordAppender<Handle>(port: DatabasePort<Handle>, options: AppenderOptions): AppendRecords<Handle> {
  const { table, order, maxSize, runtime } = options
  const { dialect, wakeUps } = port
  const statementsOf = port.appender(table)
  const preLease = preLeaser(port, table, runtime)
  const explain = (error: unknown) => explainMissing(dialect, error, table)
  const wake = () => wakeUps.wake()

  /** Returns `undefined` if all statements are done or deferred. */
  function send(transaction: OpenTransaction<Handle>, statements: readonly Statement[], from = 0): Promise<void> | undefined {
    for (const [index, statement] of statements.slice(from).entries()) {
      const sending = transaction.deferStatement(statement, explain)
      if (sending === undefined) continue
      const next = from + index + 1
      return next === statements.length ? sending : sending.then(() => send(transaction, statements, next))
    }
    return undefined
  }

  function appendNow(transaction: OpenTransaction<Handle>, rows: readonly OutboxRow[]): Promise<void> | undefined {
    const leased = order === 'none' ? preLease(transaction, rows) : undefined
    const finish = () => {
      transaction.own?.scope.afterCommit(leased?.handOver ?? wake)
      return probe('outbox.appended')
    }
    const sending = send(transaction, leased?.statements ?? statementsOf(rows, transaction))
    return sending === undefined ? finish() : sending.then(finish)
  }

  return function append(transaction, records) {
    if (records.length === 0) return undefined
    const rows = records.map((record) => outboxRowOf(record, order, maxSize))
    if (!transaction.gathers) return appendNow(transaction, rows)
    // The group stores the gathered rows and wakes the relays once for all.
    transaction.gather(table, rows)
    return probe('outbox.appended') ?? undefined
  }
}
