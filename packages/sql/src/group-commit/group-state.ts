import { type Message, type Runtime, sleep, type Timer } from '@ackord/core'
import type { TransactionScope } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import { type AppendTarget, explainMissing, tableOf } from '../contract/dialect.ts'
import type { Session } from '../contract/driver.ts'
import type { TransactionEndedError } from '../errors.ts'
import type { SqlInbox } from '../inbox/inbox.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import { textOf } from '../records/text-limits.ts'
import type { DatabasePort, GatherRows } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
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
  /** Rows that are not stored yet. Those without `work` belong to a call for several members. */
  gathered: { readonly work: Work | undefined; readonly target: AppendTarget; readonly rows: readonly OutboxRow[] }[]
  hasEvents: boolean
  /** Whether the members are being handled. */
  hasBegun: boolean
  /** The members that are known to be the reason why the transaction must not be committed. */
  culprits: ReadonlySet<Work>
  /** The scope of a call for several members. */
  callScope: TransactionScope | undefined
  /** Set if something other than the middleware has ended the transaction. */
  ended: TransactionEndedError | undefined
}

/** Receives the events of a member, or of a call for several members. */
export function gathererOf(group: Group, work: Work | undefined): GatherRows {
  return (target, rows) => {
    group.hasEvents = true
    group.gathered.push({ work, target, rows })
  }
}

/** Stores rows before the next statement: every statement is queued in this turn. */
export type StoreRows<Handle> = (session: Session<Handle>, gathered: Group['gathered']) => Promise<void> | undefined

export function rowStorer<Handle>(port: DatabasePort<Handle>): StoreRows<Handle> {
  const appenders = new Map<string, ReturnType<typeof port.appender>>()

  function appender(target: AppendTarget): ReturnType<typeof port.appender> {
    const table = tableOf(target)
    let append = appenders.get(table)
    if (append === undefined) {
      append = port.appender(target)
      appenders.set(table, append)
    }
    return append
  }

  return function store(session, gathered) {
    const byTable = new Map<string, { readonly target: AppendTarget; readonly rows: OutboxRow[] }>()
    for (const { target, rows } of gathered) {
      const all = byTable.get(tableOf(target)) ?? { target, rows: [] }
      byTable.set(tableOf(target), all)
      for (const row of rows) all.rows.push(row)
    }
    const storing: Promise<void>[] = []
    for (const [table, { target, rows }] of byTable) {
      const explain = (error: unknown) => explainMissing(port.dialect, error, table)
      for (const statement of appender(target)(rows, session)) {
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

export interface GroupRecoveryOptions extends Pick<TransactionRules, 'settings' | 'logger'> {
  readonly inbox: SqlInbox
  readonly runtime: Runtime
}

type RestoreGroup = (group: Group, culprits: ReadonlySet<Work>, signal: AbortSignal) => Promise<boolean>

/**
 * Repairs the state after a handler committed early: the inbox rows of all members are committed, and the writes of the members handled so far.
 * Removes the inbox rows of the other members and stores the events of the handled ones, before any message is acked. Resolves to `false` if the
 * transaction was rolled back, and nothing was committed.
 */
export function groupRestorer<Handle>(
  { dialect, driver }: DatabasePort<Handle>,
  { inbox, settings, logger, runtime }: GroupRecoveryOptions,
  store: StoreRows<Handle>,
): RestoreGroup {
  async function restore({ recorded, works, gathered }: Group, culprits: ReadonlySet<Work>, signal: AbortSignal): Promise<boolean> {
    const kept = new Set(works.filter((work) => work.isDone || culprits.has(work)).map(({ member }) => member.name))
    return await driver.transaction(
      settings,
      async function restoreInbox(session) {
        const committed = new Map((await dialect.forgetAll(session, inbox.table, sorted(recorded))).map((key) => [textOf(key), key]))
        if (committed.size === 0) return false
        for (const name of committed.keys()) if (!kept.has(name)) committed.delete(name)
        if (committed.size > 0) await dialect.recordAll(session, inbox.table, sorted(committed))
        await store(
          session,
          gathered.filter(({ work }) => work?.isDone === true),
        )
        return true
      },
      signal,
    )
  }

  /**
   * Retries until the outcome is known: until then, a member that is handled again would be mistaken for a duplicate. An abort therefore does not end
   * this immediately: messages that return to the broker need it as well.
   */
  return async function restoreWithRetries(group, culprits, given) {
    using grace = abortedAfterGrace(given, runtime)
    const { signal } = grace
    for (let delay = 100; ; delay = Math.min(delay * 2, 5000)) {
      try {
        return await restore(group, culprits, signal)
      } catch (error) {
        logger.error(
          { err: error, messages: group.works.length },
          'The inbox rows of a group that a handler committed could not be removed yet.',
        )
      }
      await sleep(runtime, delay, { signal })
    }
  }
}

/** Milliseconds after an abort in which the inbox rows of a group may still be removed. */
const graceAfterAbort = 5000

/** A signal that is aborted some time after the given one. */
function abortedAfterGrace(given: AbortSignal, runtime: Runtime): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController()
  let timer: Timer | undefined
  const onAbort = () => {
    timer = runtime.setTimeout(() => controller.abort(given.reason), graceAfterAbort)
  }
  if (given.aborted) onAbort()
  else given.addEventListener('abort', onAbort, { once: true })
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      given.removeEventListener('abort', onAbort)
      timer?.cancel()
    },
  }
}
