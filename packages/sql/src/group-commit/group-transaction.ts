import { beginAttempt, type Context, type Message, type Process, type Runtime } from '@ackord/core'
import { causesOf, probe, TransactionScope } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import { type AppendTarget, explainMissing } from '../contract/dialect.ts'
import type { Session } from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { CommitUnknownError, NeedsOwnTransactionError, TransactionAbortedError, TransactionEndedError } from '../errors.ts'
import type { SqlInbox } from '../inbox/inbox.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import { textOf } from '../records/text-limits.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
import { workInside } from '../transaction/transaction-work.ts'
import type { GroupMember, RunGroup } from './group-gatherer.ts'
import type { GroupSize } from './group-size.ts'
import { type Group, groupRestorer, rowStorer, sorted, type Work } from './group-state.ts'

export interface GroupTransactionOptions extends TransactionRules {
  readonly inbox: SqlInbox
  /** The middleware inside of the inbox. */
  readonly process: Process
  /** Handles the same message in a transaction of its own. */
  readonly alone: Process
  /** Called with the key of a message whose handler failed. */
  readonly onFailure: (key: InboxKey) => void
  readonly size: GroupSize
  readonly runtime: Runtime
}

/** Handles messages in one transaction, or each in its own if that one fails. */
export function groupTransaction<Handle>(port: DatabasePort<Handle>, options: GroupTransactionOptions): RunGroup {
  const { inbox, process, alone, onFailure: failed, size, settings, logger, metrics } = options
  const { dialect, driver, wakeUps } = port
  const store = rowStorer(port)
  const restore = groupRestorer(port, options, store)

  /** The new keys, by name. */
  async function record(session: Session<Handle>, works: readonly Work[]): Promise<ReadonlyMap<string, InboxKey>> {
    const keys = new Map(works.map(({ member: { name, key } }) => [name, key]))
    try {
      return new Map((await dialect.recordAll(session, inbox.table, sorted(keys))).map((key) => [textOf(key), key]))
    } catch (error) {
      throw explainMissing(dialect, error, inbox.table)
    }
  }

  /** Handles the members one after the other; rejects if the group must be dissolved. No async/await on the hot path: saves promises per message. */
  function handleAll(group: Group, session: Session<Handle>, flush: () => Promise<void> | undefined): Promise<void> {
    const { works } = group
    const fresh = new Set(group.recorded.keys())
    const savepoints = { count: 0 }

    return new Promise((resolve, reject) => {
      function handle(work: Work, then: () => void): void {
        const { message, context, key, name, timeouts } = work.member
        const tracker = new QueryTracker(context.signal, { beforeSavepoint })

        /** Gathered rows must not be rolled back with the savepoint, and the savepoint must not exist for the next member. */
        function beforeSavepoint(isSecond: boolean): Promise<unknown> | undefined {
          const storing = flush()
          const marking = isSecond ? undefined : session.deferStatement({ sql: `SAVEPOINT ${memberSavepoint}` }, unchanged)
          return storing === undefined ? marking : Promise.all([storing, marking])
        }

        function onFailure(error: unknown): readonly Message[] {
          failed(key)
          reject(error)
          timeouts.suspend()
          return none
        }

        function done(outputs: readonly Message[]): readonly Message[] {
          work.outputs = outputs
          work.isDone = true
          // The message waits for the others again.
          timeouts.suspend()
          then()
          return outputs
        }

        function last(outputs: readonly Message[]): readonly Message[] | Promise<readonly Message[]> {
          // An error that a handler swallowed would surface at COMMIT, when it is no longer known which handler it was.
          if (tracker.failure !== undefined) throw new TransactionAbortedError({ cause: tracker.failure })
          // Comes first: on SQLite, checking whether the transaction has ended releases all savepoints.
          const releasing = tracker.usesSavepoints
            ? session.deferStatement({ sql: `RELEASE SAVEPOINT ${memberSavepoint}` }, unchanged)
            : undefined
          return releasing === undefined ? doneUnlessEnded(outputs) : releasing.then(() => doneUnlessEnded(outputs)).catch(onFailure)
        }

        function doneUnlessEnded(outputs: readonly Message[]): readonly Message[] {
          const ended = session.ended?.()
          if (ended !== undefined) throw ended
          return done(outputs)
        }

        function gather(target: AppendTarget, rows: readonly OutboxRow[]): void {
          group.hasEvents = true
          group.gathered.push({ work, target, rows })
        }

        // The first of two messages with the same key is handled; the second is a duplicate.
        const run = fresh.delete(name) ? (inside: Context) => inbox.handle(process, message, inside, key) : () => inbox.skip(message)
        const attempt = beginAttempt(context)
        const transaction = { session, gather, flush, isSavepoint: false, savepoints, scope: work.scope }
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

  async function runTogether(group: Group, signal: AbortSignal): Promise<void> {
    await driver.transaction(
      settings,
      async function workOfAll(session) {
        let paused = probe('transaction.begun')
        if (paused !== undefined) await paused
        group.recorded = await record(session, group.works)
        const flush = () => {
          const { gathered } = group
          group.gathered = []
          return store(session, gathered)
        }
        try {
          await handleAll(group, session, flush)
          await flush()
        } catch (error) {
          group.ended = session.ended?.()
          throw error
        }
        paused = probe('transaction.beforeCommit')
        if (paused !== undefined) await paused
      },
      signal,
    )
    const paused = probe('transaction.afterCommit')
    if (paused !== undefined) await paused
    if (group.hasEvents) wakeUps.wake()
  }

  async function recover(group: Group, ended: TransactionEndedError, signal: AbortSignal): Promise<void> {
    const culprit = group.works.find(({ isDone }) => !isDone)
    const fields = { err: ended, messages: group.works.length, type: culprit?.member.message.type, id: culprit?.member.message.id }
    logger.error(fields, 'A handler ended the transaction that its message shared with others.')
    let isCommitted: boolean
    try {
      isCommitted = await restore(group, culprit, signal)
    } catch (error) {
      for (const { member, scope } of group.works) {
        await scope.end('unknown')
        member.reject(error)
      }
      return
    }
    if (!isCommitted) {
      await dissolve(group.works)
      return
    }
    if (group.hasEvents) wakeUps.wake()
    await commitAll(group.works.filter(({ isDone }) => isDone))
    if (culprit !== undefined) {
      await culprit.scope.end('unknown')
      culprit.member.reject(ended)
    }
    await dissolve(group.works.filter((work) => !work.isDone && work !== culprit))
  }

  async function dissolve(works: readonly Work[]): Promise<void> {
    for (const { scope } of works) await scope.end('rolledBack', { verdicts: 'forget' })
    for (const work of works) await handleAlone(work)
  }

  async function commitAll(works: readonly Work[]): Promise<void> {
    const endings: Promise<void>[] = []
    for (const { member, scope, outputs } of works) {
      const end = () => scope.end('committed')
      const ending = scope.isSilent ? end() : member.runInAsyncScope(end)
      if (ending === undefined) member.resolve(outputs)
      else endings.push(ending.then(() => member.resolve(outputs)))
    }
    await Promise.all(endings)
  }

  async function handleAlone({ member }: Pick<Work, 'member'>): Promise<void> {
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
      await handleAlone({ member: first })
      return
    }
    const works = members.map(
      (member): Work => ({ member, scope: new TransactionScope(member.context, { logger }), outputs: none, isDone: false }),
    )
    const group: Group = { works, recorded: new Map(), gathered: [], hasEvents: false, ended: undefined }
    using abandoned = abortedByAll(members)
    try {
      await runTogether(group, abandoned.signal)
    } catch (error) {
      const ended = group.ended ?? endedBefore(error)
      if (ended !== undefined) {
        await recover(group, ended, abandoned.signal)
        return
      }
      if (error instanceof CommitUnknownError) {
        for (const { member, scope } of works) {
          await scope.end('unknown')
          member.reject(error)
        }
        return
      }
      if (needsOwnTransaction(error)) size.dissolve()
      else if (dialect.isConflict(error) || dialect.isLockTimeout?.(error) === true) size.shrink()
      metrics?.count('ackord.group.dissolved', 1, {})
      logger.debug({ err: error, messages: members.length }, 'A group of messages was rolled back; each is handled alone.')
      await dissolve(works)
      return
    }
    size.succeeded(members.length)
    metrics?.observe('ackord.group.size', members.length, {})
    await commitAll(works)
  }
}

/** Encloses the savepoints that a member creates itself, so that they end with the member. */
const memberSavepoint = 'ackord_member'

const unchanged = (error: unknown) => error

const none: readonly Message[] = []

/** The reason why the transaction no longer existed at COMMIT; `undefined` if it did. */
function endedBefore(error: unknown): TransactionEndedError | undefined {
  const found = error instanceof CommitUnknownError ? error.cause : error
  return found instanceof TransactionEndedError ? found : undefined
}

/** Also finds the error where an ORM or a handler has wrapped it. */
function needsOwnTransaction(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    if (cause instanceof NeedsOwnTransactionError) return true
  }
  return false
}

/** A signal that is aborted when the signals of all members are. Disposing it removes its listeners: the signals of members live long. */
function abortedByAll(members: readonly GroupMember[]): Disposable & { readonly signal: AbortSignal } {
  const signals = new Set(members.map(({ context }) => context.signal))
  const [first] = signals
  // Most messages share the signal of their router.
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
