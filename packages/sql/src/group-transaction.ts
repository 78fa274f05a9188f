import { beginAttempt, type Context, type Message, type Process, probe, TransactionScope } from '@ackord/core'
import { CommitUnknownError, TransactionAbortedError } from './errors.ts'
import type { GroupMember, RunGroup } from './group-gatherer.ts'
import type { Inbox } from './inbox.ts'
import { type InboxKey, textOf } from './inbox-key.ts'
import type { DatabasePort, OwnTransaction } from './open-transaction.ts'
import type { OutboxRow } from './outbox-row.ts'
import { QueryTracker } from './query-tracker.ts'
import type { TransactionRules } from './run-transaction.ts'
import { explainMissing } from './schema-missing.ts'
import { workInside } from './transaction-work.ts'

export interface GroupTransactionOptions extends TransactionRules {
  readonly inbox: Inbox
  /** What is inside of the inbox. */
  readonly process: Process
  /** The same message in a transaction of its own. */
  readonly alone: Process
  /** Told whose handler failed. */
  readonly onFailure: (key: InboxKey) => void
}

/** A member with what it has in the transaction. */
interface Work {
  readonly member: GroupMember
  readonly scope: TransactionScope
  outputs: readonly Message[]
}

/** Handles messages in one transaction, or each in its own if that one fails. */
export function groupTransaction<Handle>(port: DatabasePort<Handle>, options: GroupTransactionOptions): RunGroup {
  const { inbox, process, alone, onFailure: failed, settings, logger, metrics } = options
  const { dialect, driver, wakeUps } = port
  const appenders = new Map<string, ReturnType<typeof port.appender>>()

  function appender(table: string): ReturnType<typeof port.appender> {
    let append = appenders.get(table)
    if (append === undefined) {
      append = port.appender(table)
      appenders.set(table, append)
    }
    return append
  }

  /** The names of the keys that are new. Sorted, or two groups with the same keys would wait for each other. */
  async function record(session: OwnTransaction<Handle>['session'], works: readonly Work[]): Promise<Set<string>> {
    const keys = new Map(works.map(({ member: { name, key } }) => [name, key]))
    const sorted = [...keys].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, key]) => key)
    try {
      return new Set((await dialect.recordAll(session, inbox.table, sorted)).map(textOf))
    } catch (error) {
      throw explainMissing(dialect, error, inbox.table)
    }
  }

  /** One after the other; rejects where the group must be dissolved. Chained by hand, and not by a loop that awaits: it goes once per message. */
  function handleAll(works: readonly Work[], own: Omit<OwnTransaction<Handle>, 'scope'>, fresh: Set<string>): Promise<void> {
    return new Promise((resolve, reject) => {
      function handle(work: Work, then: () => void): void {
        const { message, context, key, name, timeouts } = work.member
        const tracker = new QueryTracker(context.signal)

        function onFailure(error: unknown): readonly Message[] {
          failed(key)
          reject(error)
          timeouts.suspend()
          return none
        }

        function last(outputs: readonly Message[]): readonly Message[] {
          // An error that a handler swallowed would come to light at COMMIT, when nobody knows whose it was.
          if (tracker.failure !== undefined) throw new TransactionAbortedError({ cause: tracker.failure })
          work.outputs = outputs
          // It waits for the others again.
          timeouts.suspend()
          then()
          return outputs
        }

        // The first of two with one key has it; the second is a duplicate.
        const run = fresh.delete(name) ? (inside: Context) => inbox.handle(process, message, inside, key) : () => inbox.skip(message)
        const attempt = beginAttempt(context)
        const transaction = { ...own, scope: work.scope }
        work.member.runInAsyncScope(() => {
          timeouts.restart()
          void workInside(port, transaction, tracker, { message, run }, attempt, { last, onFailure })
        })
      }

      function handleFrom(index: number): void {
        const work = works[index]
        if (work === undefined) resolve()
        else handle(work, () => handleFrom(index + 1))
      }

      handleFrom(0)
    })
  }

  async function runTogether(works: readonly Work[], signal: AbortSignal): Promise<void> {
    const gathered = new Map<string, OutboxRow[]>()
    await driver.transaction(
      settings,
      async function workOfAll(session) {
        let paused = probe('transaction.begun')
        if (paused !== undefined) await paused
        const fresh = await record(session, works)
        const gather = (table: string, rows: readonly OutboxRow[]) => {
          const all = gathered.get(table) ?? []
          gathered.set(table, all)
          for (const row of rows) all.push(row)
        }
        await handleAll(works, { session, gather, isSavepoint: false, savepoints: { count: 0 } }, fresh)
        for (const [table, rows] of gathered) {
          const explain = (error: unknown) => explainMissing(dialect, error, table)
          for (const statement of appender(table)(rows, session)) await session.changeLater(statement, explain)
        }
        paused = probe('transaction.beforeCommit')
        if (paused !== undefined) await paused
      },
      signal,
    )
    const paused = probe('transaction.afterCommit')
    if (paused !== undefined) await paused
    if (gathered.size > 0) wakeUps.wake()
  }

  async function goAlone({ member }: Pick<Work, 'member'>): Promise<void> {
    const { message, context, timeouts } = member
    try {
      const attempt = beginAttempt(context)
      const handling = member.runInAsyncScope(() => {
        timeouts.restart()
        return alone(message, attempt)
      })
      member.resolve(await handling)
    } catch (error) {
      member.reject(error)
    }
  }

  return async function runGroup(members) {
    const [first] = members
    if (first !== undefined && members.length === 1) {
      await goAlone({ member: first })
      return
    }
    const works = members.map((member): Work => ({ member, scope: new TransactionScope(member.context, { logger }), outputs: none }))
    using nobody = nobodyWaits(members)
    try {
      await runTogether(works, nobody.signal)
    } catch (error) {
      if (error instanceof CommitUnknownError) {
        for (const { member, scope } of works) {
          await scope.end('unknown')
          member.reject(error)
        }
        return
      }
      metrics?.count('ackord.group.dissolved', 1, {})
      logger.debug({ err: error, messages: members.length }, 'A group of messages was rolled back; each goes alone.')
      for (const { scope } of works) await scope.end('rolledBack', { verdicts: 'forget' })
      for (const work of works) await goAlone(work)
      return
    }
    metrics?.observe('ackord.group.size', members.length, {})
    const endings: Promise<void>[] = []
    for (const { member, scope, outputs } of works) {
      const end = () => scope.end('committed')
      const ending = scope.isSilent ? end() : member.runInAsyncScope(end)
      if (ending === undefined) member.resolve(outputs)
      else endings.push(ending.then(() => member.resolve(outputs)))
    }
    await Promise.all(endings)
  }
}

const none: readonly Message[] = []

/** A signal that is aborted when nobody wants the outcome any more. Disposed, it does not listen any longer: others' signals live long. */
function nobodyWaits(members: readonly GroupMember[]): Disposable & { readonly signal: AbortSignal } {
  const signals = new Set(members.map(({ context }) => context.signal))
  const [first] = signals
  // Most messages share that of their router.
  if (first !== undefined && signals.size === 1) return { signal: first, [Symbol.dispose]() {} }
  const controller = new AbortController()
  const onAbort = () => {
    if ([...signals].every(({ aborted }) => aborted)) controller.abort(members[0]?.context.signal.reason)
  }
  for (const signal of signals) signal.addEventListener('abort', onAbort)
  onAbort()
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const signal of signals) signal.removeEventListener('abort', onAbort)
    },
  }
}
