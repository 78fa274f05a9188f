import type { Message } from '@ackord/core'
import type { TransactionScope } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import type { Session } from '../contract/driver.ts'
import { explainMissing } from '../contract/schema-missing.ts'
import type { TransactionEndedError } from '../errors.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { GroupMember } from './group-gatherer.ts'

/** A member with its state in the transaction. */
export interface Work {
  readonly member: GroupMember
  readonly scope: TransactionScope
  outputs: readonly Message[]
  /** Whether its handler has returned, and nothing prevents a commit. */
  isDone: boolean
}

/** The state of a group's transaction. */
export interface Group {
  readonly works: readonly Work[]
  /** The keys that were recorded, by name. */
  recorded: ReadonlyMap<string, InboxKey>
  /** Rows that are not stored yet. */
  gathered: { readonly work: Work; readonly table: string; readonly rows: readonly OutboxRow[] }[]
  hasEvents: boolean
  /** Set if something other than the middleware has ended the transaction. */
  ended: TransactionEndedError | undefined
}

/** Stores rows before the next statement: every statement is queued in this turn. */
export type StoreRows<Handle> = (session: Session<Handle>, gathered: Group['gathered']) => Promise<void> | undefined

export function rowStorer<Handle>(port: DatabasePort<Handle>): StoreRows<Handle> {
  const appenders = new Map<string, ReturnType<typeof port.appender>>()

  function appender(table: string): ReturnType<typeof port.appender> {
    let append = appenders.get(table)
    if (append === undefined) {
      append = port.appender(table)
      appenders.set(table, append)
    }
    return append
  }

  return function store(session, gathered) {
    const byTable = new Map<string, OutboxRow[]>()
    for (const { table, rows } of gathered) {
      const all = byTable.get(table) ?? []
      byTable.set(table, all)
      for (const row of rows) all.push(row)
    }
    const storing: Promise<void>[] = []
    for (const [table, rows] of byTable) {
      const explain = (error: unknown) => explainMissing(port.dialect, error, table)
      for (const statement of appender(table)(rows, session)) {
        const changing = session.deferStatement(statement, explain)
        if (changing !== undefined) storing.push(changing)
      }
    }
    return storing.length === 0 ? undefined : Promise.all(storing).then(() => {})
  }
}

/** Sorted, because two groups with the same keys would deadlock otherwise. */
export function sorted(keys: ReadonlyMap<string, InboxKey>): readonly InboxKey[] {
  return [...keys].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, key]) => key)
}
