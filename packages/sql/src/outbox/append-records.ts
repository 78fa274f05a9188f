import type { Runtime } from '@ackord/core'
import { probe, startStopwatch } from '@ackord/core/internal'
import type { ClaimedRecord, NewOutboxRecord, RecordTaker } from '@ackord/outbox'
import { type AppendTarget, explainMissing, tableOf } from '../contract/dialect.ts'
import type { Statement } from '../contract/driver.ts'
import { toToken } from '../records/claimed-record.ts'
import { type OutboxRow, outboxRowOf, readMessage } from '../records/outbox-row.ts'
import type { Order } from '../records/row.ts'
import type { DatabasePort, OpenTransaction } from '../transaction/open-transaction.ts'

/** Inserts all records in the transaction, at the latest at its end. Relays of this process are woken after the commit, where the commit is known. */
export type AppendRecords<Handle> = (transaction: OpenTransaction<Handle>, records: readonly NewOutboxRecord[]) => Promise<void> | undefined

export interface AppenderOptions {
  readonly target: AppendTarget
  readonly order: Order
  /** Bytes. */
  readonly maxSize: number
  readonly runtime: Runtime
}

export function recordAppender<Handle>(port: DatabasePort<Handle>, options: AppenderOptions): AppendRecords<Handle> {
  const { target, order, maxSize, runtime } = options
  const { dialect, wakeUps } = port
  const statementsOf = port.appender(target)
  const preLease = preLeaser(port, target.outbox, runtime)
  const explain = (error: unknown) => explainMissing(dialect, error, tableOf(target))
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
    transaction.gather(target, rows)
    return probe('outbox.appended') ?? undefined
  }
}

/** Rows that are stored already leased to a relay of this process. */
interface PreLease {
  readonly statements: readonly Statement[]
  /** Called after the commit. */
  handOver(): void
}

/** More rows than this do not come from a single message, and a claim is just as good. */
const maxRows = 16

/**
 * Stores rows leased to the relay that receives them after the commit, so that no claim can take them meanwhile. `undefined` where that is
 * impossible: in a transaction or savepoint whose end is not known here, for delayed rows, or without such a relay.
 */
function preLeaser<Handle>(
  { dialect, takers }: DatabasePort<Handle>,
  table: string,
  runtime: Runtime,
): (transaction: OpenTransaction<Handle>, rows: readonly OutboxRow[]) => PreLease | undefined {
  const statementsOf = dialect.leasedAppender?.(table)

  return function preLease({ own, reportsRows }, rows) {
    const taker = takers.of(table)
    if (statementsOf === undefined || taker === undefined || !reportsRows || own === undefined || own.isSavepoint) return undefined
    if (rows.length > maxRows || rows.some(({ delay }) => delay > 0)) return undefined
    const age = startStopwatch(runtime)
    const duration = taker.lease([...new Set(rows.map(({ destination }) => destination))])
    if (duration === undefined) return undefined
    const token = runtime.uuid()
    const stored: Stored[] = []
    const onStored = (seq: string, createdAt: number) => void stored.push({ seq, createdAt })
    const statements = statementsOf(rows, { token, duration, onStored })
    return { statements, handOver: () => handOver(taker, rows, stored, { token, age }) }
  }
}

interface Stored {
  readonly seq: string
  readonly createdAt: number
}

function handOver(
  taker: RecordTaker,
  rows: readonly OutboxRow[],
  stored: readonly Stored[],
  { token, age }: { readonly token: string; readonly age: () => number },
): void {
  const records = rows.flatMap((row, index): ClaimedRecord[] => {
    const found = stored[index]
    if (found === undefined) return []
    const { destination, id, type, data, attributes } = row
    // Read as a claim would, so that publishers see the same either way.
    const { message } = readMessage({ id, type, data, attributes })
    const { seq, createdAt } = found
    // The age when the lease began; `take()` gets the time since then.
    return [{ id: seq, token: toToken(token, 'ready', destination), destination, message, attempts: 1, createdAt, age: 0 }]
  })
  taker.take(records, age())
}
