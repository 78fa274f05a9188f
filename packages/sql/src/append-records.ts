import { probe } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import type { DatabasePort, OpenTransaction } from './open-transaction.ts'
import { type OutboxRow, outboxRowOf } from './outbox-row.ts'
import { explainMissing } from './schema-missing.ts'

/** Inserts all records in the transaction, by its end at the latest. Relays of this process are woken after its commit, where we know of that. */
export type AppendRecords<Handle> = (transaction: OpenTransaction<Handle>, records: readonly NewOutboxRecord[]) => Promise<void> | undefined

export function recordAppender<Handle>({ dialect, wakeUps }: DatabasePort<Handle>, table: string): AppendRecords<Handle> {
  const statementsOf = dialect.appender(table)
  const explain = (error: unknown) => explainMissing(dialect, error, table)
  const wake = () => wakeUps.wake()

  async function appendNow(transaction: OpenTransaction<Handle>, rows: readonly OutboxRow[]): Promise<void> {
    for (const statement of statementsOf(rows, transaction)) await transaction.changeLater(statement, explain)
    transaction.own?.scope.afterCommit(wake)
    const paused = probe('outbox.appended')
    if (paused !== undefined) await paused
  }

  return function append(transaction, records) {
    if (records.length === 0) return undefined
    const rows = records.map(outboxRowOf)
    if (transaction.gather === undefined) return appendNow(transaction, rows)
    // Whoever gathers stores them, and wakes once for all.
    transaction.gather(table, rows)
    return probe('outbox.appended') ?? undefined
  }
}
