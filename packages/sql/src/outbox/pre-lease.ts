import type { Runtime } from '@ackord/core'
import { startStopwatch } from '@ackord/core/internal'
import type { ClaimedRecord, RecordTaker } from '@ackord/outbox'
import type { Statement } from '../contract/driver.ts'
import { toToken } from '../records/claim-token.ts'
import { type OutboxRow, readMessage } from '../records/outbox-row.ts'
import type { DatabasePort, OpenTransaction } from '../transaction/open-transaction.ts'

/** Rows that are stored already leased to a relay of this process. */
export interface PreLease {
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
export function preLeaser<Handle>(
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
    return [{ id: found.seq, token: toToken(token, 'ready', destination), destination, message, attempts: 1, createdAt: found.createdAt }]
  })
  taker.take(records, age())
}
