import { probe } from '@ackord/core'
import type { NewOutboxRecord } from '@ackord/outbox'
import type { DatabasePort, OpenTransaction } from './database.ts'
import { outboxRowOf } from './outbox-row.ts'
import { explainMissing } from './schema-missing.ts'

/** Inserts all records in the transaction. Relays of this process are woken after its commit, where we know of that. */
export async function appendRecords<Handle>(
  { dialect, wakeUps }: DatabasePort<Handle>,
  transaction: OpenTransaction<Handle>,
  table: string,
  records: readonly NewOutboxRecord[],
): Promise<void> {
  if (records.length === 0) return
  const rows = records.map(outboxRowOf)
  try {
    await dialect.append(transaction.run, table, rows)
  } catch (error) {
    throw explainMissing(dialect, error, table)
  }
  transaction.own?.scope.afterCommit(() => wakeUps.wake())
  const paused = probe('outbox.appended')
  if (paused !== undefined) await paused
}
