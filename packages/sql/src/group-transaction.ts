import { beginAttempt, type Message, type Process, probe, TransactionScope } from '@ackord/core'
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
  readonly key: InboxKey
  /** The key as one text. */
  readonly name: string
  readonly scope: TransactionScope
  outputs: readonly Message[]
}

/** Handles messages in one transaction, or each in its own if that one fails. */
export function groupTransaction<Handle>(port: DatabasePort<Handle>, options: GroupTransactionOptions): RunGroup {
  const { inbox, process, alone, onFailure, settings, logger, metrics } = options
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

  /** The keys that are new. Sorted, or two groups with the same keys would wait for each other. */
  async function record(session: OwnTransaction<Handle>['session'], works: readonly Work[]): Promise<Set<string>> {
    const keys = new Map(works.map(({ name, key }) => [name, key]))
    const sorted = [...keys].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, key]) => key)
    try {
      return new Set((await dialect.recordAll(session.run, inbox.table, sorted)).map(textOf))
    } catch (error) {
      throw explainMissing(dialect, error, inbox.table)
    }
  }

  /** Chained by hand: it runs once per message. */
  function handle(work: Work, own: OwnTransaction<Handle>, isNew: boolean): Promise<void> {
    const { member, key } = work
    const { message } = member
    const tracker = new QueryTracker(member.context.signal)
    const run = isNew ? (inside: GroupMember['context']) => inbox.handle(process, message, inside, key) : () => inbox.skip(message)
    const context = beginAttempt(member.context)

    function fail(error: unknown): never {
      member.timeouts.suspend()
      onFailure(key)
      throw error
    }

    function finish(outputs: readonly Message[]): void {
      // An error that a handler swallowed would come to light at COMMIT, when nobody knows whose it was.
      if (tracker.failure !== undefined) fail(new TransactionAbortedError({ cause: tracker.failure }))
      // It waits for the others again.
      member.timeouts.suspend()
      work.outputs = outputs
    }

    member.timeouts.restart()
    return member.runInAsyncScope(() => workInside(port, own, tracker, { message, run }, context)).then(finish, fail)
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
        const savepoints = { count: 0 }
        for (const work of works) {
          // The first of two with one key has it; the second is a duplicate.
          const isNew = fresh.delete(work.name)
          await handle(work, { session, gather, scope: work.scope, isSavepoint: false, savepoints }, isNew)
        }
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
    const { message, context } = member
    member.timeouts.restart()
    try {
      const attempt = beginAttempt(context)
      member.resolve(await member.runInAsyncScope(() => alone(message, attempt)))
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
    const works = members.map((member): Work => {
      const key = inbox.keyOf(member.message)
      return { member, key, name: textOf(key), scope: new TransactionScope(member.context, { logger }), outputs: [] }
    })
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
    const endings = works.map(({ member, scope, outputs }) => {
      const ending = member.runInAsyncScope(() => scope.end('committed'))
      if (ending !== undefined) return ending.then(() => member.resolve(outputs))
      member.resolve(outputs)
      return undefined
    })
    await Promise.all(endings.filter((ending) => ending !== undefined))
  }
}

/** A signal that is aborted when nobody wants the outcome any more. Disposed, it does not listen any longer: others' signals live long. */
function nobodyWaits(members: readonly GroupMember[]): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController()
  // Most messages share that of their router.
  const signals = new Set(members.map(({ context }) => context.signal))
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
