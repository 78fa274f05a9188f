import {
  beginAttempt,
  type Context,
  type Message,
  type Process,
  probe,
  type Runtime,
  sleep,
  type Timer,
  TransactionScope,
} from '@ackord/core'
import type { Session } from '../contract/driver.ts'
import { QueryTracker } from '../contract/query-tracker.ts'
import { explainMissing } from '../contract/schema-missing.ts'
import { CommitUnknownError, NeedsOwnTransactionError, TransactionAbortedError, TransactionEndedError } from '../errors.ts'
import type { Inbox } from '../inbox/inbox.ts'
import { type InboxKey, textOf } from '../records/inbox-key.ts'
import type { OutboxRow } from '../records/outbox-row.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
import { workInside } from '../transaction/transaction-work.ts'
import type { GroupMember, RunGroup } from './group-gatherer.ts'
import type { GroupSize } from './group-size.ts'

export interface GroupTransactionOptions extends TransactionRules {
  readonly inbox: Inbox
  /** What is inside of the inbox. */
  readonly process: Process
  /** The same message in a transaction of its own. */
  readonly alone: Process
  /** Told whose handler failed. */
  readonly onFailure: (key: InboxKey) => void
  readonly size: GroupSize
  readonly runtime: Runtime
}

/** A member with what it has in the transaction. */
interface Work {
  readonly member: GroupMember
  readonly scope: TransactionScope
  outputs: readonly Message[]
  /** Whether its handler has returned, and nothing stands against a commit. */
  isDone: boolean
}

/** What is known of a group's transaction. */
interface Group {
  readonly works: readonly Work[]
  /** The keys that were recorded, by name. */
  recorded: ReadonlyMap<string, InboxKey>
  /** Rows that wait to be stored. */
  gathered: { readonly work: Work; readonly table: string; readonly rows: readonly OutboxRow[] }[]
  hasEvents: boolean
  /** Set if something else than the middleware has ended the transaction. */
  ended: TransactionEndedError | undefined
}

/** Handles messages in one transaction, or each in its own if that one fails. */
export function groupTransaction<Handle>(port: DatabasePort<Handle>, options: GroupTransactionOptions): RunGroup {
  const { inbox, process, alone, onFailure: failed, size, runtime, settings, logger, metrics } = options
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

  /** The keys that are new, by name. */
  async function record(session: Session<Handle>, works: readonly Work[]): Promise<ReadonlyMap<string, InboxKey>> {
    const keys = new Map(works.map(({ member: { name, key } }) => [name, key]))
    try {
      return new Map((await dialect.recordAll(session, inbox.table, sorted(keys))).map((key) => [textOf(key), key]))
    } catch (error) {
      throw explainMissing(dialect, error, inbox.table)
    }
  }

  /** Stores rows before whatever comes next: every statement is handed over in this turn. */
  function store(session: Session<Handle>, gathered: Group['gathered']): Promise<void> | undefined {
    const byTable = new Map<string, OutboxRow[]>()
    for (const { table, rows } of gathered) {
      const all = byTable.get(table) ?? []
      byTable.set(table, all)
      for (const row of rows) all.push(row)
    }
    const storing: Promise<void>[] = []
    for (const [table, rows] of byTable) {
      const explain = (error: unknown) => explainMissing(dialect, error, table)
      for (const statement of appender(table)(rows, session)) {
        const changing = session.changeLater(statement, explain)
        if (changing !== undefined) storing.push(changing)
      }
    }
    return storing.length === 0 ? undefined : Promise.all(storing).then(() => {})
  }

  /** One after the other; rejects where the group must be dissolved. Chained by hand, and not by a loop that awaits: it goes once per message. */
  function handleAll(group: Group, session: Session<Handle>, flush: () => Promise<void> | undefined): Promise<void> {
    const { works } = group
    const fresh = new Set(group.recorded.keys())
    const savepoints = { count: 0 }

    return new Promise((resolve, reject) => {
      function handle(work: Work, then: () => void): void {
        const { message, context, key, name, timeouts } = work.member
        const tracker = new QueryTracker(context.signal, { beforeSavepoint })

        /** What was gathered is not to be rolled back with the savepoint, and the savepoint is not to be there for the next member. */
        function beforeSavepoint(isSecond: boolean): Promise<unknown> | undefined {
          const storing = flush()
          const marking = isSecond ? undefined : session.changeLater({ sql: `SAVEPOINT ${around}` }, itself)
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
          // It waits for the others again.
          timeouts.suspend()
          then()
          return outputs
        }

        function last(outputs: readonly Message[]): readonly Message[] | Promise<readonly Message[]> {
          // An error that a handler swallowed would come to light at COMMIT, when nobody knows whose it was.
          if (tracker.failure !== undefined) throw new TransactionAbortedError({ cause: tracker.failure })
          // First: on SQLite, to ask whether the transaction has ended takes all savepoints along.
          const releasing = tracker.usesSavepoints ? session.changeLater({ sql: `RELEASE SAVEPOINT ${around}` }, itself) : undefined
          return releasing === undefined ? doneUnlessEnded(outputs) : releasing.then(() => doneUnlessEnded(outputs)).catch(onFailure)
        }

        function doneUnlessEnded(outputs: readonly Message[]): readonly Message[] {
          const ended = session.ended?.()
          if (ended !== undefined) throw ended
          return done(outputs)
        }

        function gather(table: string, rows: readonly OutboxRow[]): void {
          group.hasEvents = true
          group.gathered.push({ work, table, rows })
        }

        // The first of two with one key has it; the second is a duplicate.
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

  /**
   * What a handler committed early is there: the inbox rows of all members, and the writes of those that were handled. Takes the inbox rows of the others back and stores the events of
   * those that were handled, before anything is acked. Resolves to `false` if the transaction was rolled back, and nothing is there.
   */
  async function restore({ recorded, works, gathered }: Group, culprit: Work | undefined, signal: AbortSignal): Promise<boolean> {
    const kept = new Set(works.filter((work) => work.isDone || work === culprit).map(({ member }) => member.name))
    return await driver.transaction(
      settings,
      async function restoreInbox(session) {
        const there = new Map((await dialect.forgetAll(session, inbox.table, sorted(recorded))).map((key) => [textOf(key), key]))
        if (there.size === 0) return false
        for (const name of there.keys()) if (!kept.has(name)) there.delete(name)
        if (there.size > 0) await dialect.recordAll(session, inbox.table, sorted(there))
        await store(
          session,
          gathered.filter(({ work }) => work.isDone),
        )
        return true
      },
      signal,
    )
  }

  /**
   * Tries until it is known: as long as it is not, a member that is handled again would be taken for a duplicate. So an abort does not end it at once: messages that
   * go back to the broker need it as well.
   */
  async function restoreInTheEnd(group: Group, culprit: Work | undefined, given: AbortSignal): Promise<boolean> {
    using patience = abortedLater(given, runtime)
    const { signal } = patience
    for (let delay = 100; ; delay = Math.min(delay * 2, 5000)) {
      try {
        return await restore(group, culprit, signal)
      } catch (error) {
        logger.error(
          { err: error, messages: group.works.length },
          'The inbox rows of a group that a handler committed could not be removed yet.',
        )
      }
      await sleep(runtime, delay, { signal })
    }
  }

  async function recover(group: Group, ended: TransactionEndedError, signal: AbortSignal): Promise<void> {
    const culprit = group.works.find(({ isDone }) => !isDone)
    const fields = { err: ended, messages: group.works.length, type: culprit?.member.message.type, id: culprit?.member.message.id }
    logger.error(fields, 'A handler ended the transaction that its message shared with others.')
    let isCommitted: boolean
    try {
      isCommitted = await restoreInTheEnd(group, culprit, signal)
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
    for (const work of works) await goAlone(work)
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
    const works = members.map(
      (member): Work => ({ member, scope: new TransactionScope(member.context, { logger }), outputs: none, isDone: false }),
    )
    const group: Group = { works, recorded: new Map(), gathered: [], hasEvents: false, ended: undefined }
    using nobody = nobodyWaits(members)
    try {
      await runTogether(group, nobody.signal)
    } catch (error) {
      const ended = group.ended ?? endedBefore(error)
      if (ended !== undefined) {
        await recover(group, ended, nobody.signal)
        return
      }
      if (error instanceof CommitUnknownError) {
        for (const { member, scope } of works) {
          await scope.end('unknown')
          member.reject(error)
        }
        return
      }
      if (isNeedOfOwn(error)) size.dissolve()
      else if (dialect.isConflict(error) || dialect.isLockTimeout?.(error) === true) size.shrink()
      metrics?.count('ackord.group.dissolved', 1, {})
      logger.debug({ err: error, messages: members.length }, 'A group of messages was rolled back; each goes alone.')
      await dissolve(works)
      return
    }
    size.succeeded(members.length)
    metrics?.observe('ackord.group.size', members.length, {})
    await commitAll(works)
  }
}

/** Milliseconds after an abort in which the inbox rows of a group may still be removed. */
const patienceAfterAbort = 5000

/** A signal that is aborted some time after the one given. */
function abortedLater(given: AbortSignal, runtime: Runtime): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController()
  let timer: Timer | undefined
  const onAbort = () => {
    timer = runtime.setTimeout(() => controller.abort(given.reason), patienceAfterAbort)
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

/** Around the savepoints that a member makes by hand, so that they end with it. */
const around = 'ackord_member'

const itself = (error: unknown) => error

const none: readonly Message[] = []

/** Sorted, or two groups with the same keys would wait for each other. */
function sorted(keys: ReadonlyMap<string, InboxKey>): readonly InboxKey[] {
  return [...keys].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, key]) => key)
}

/** Why a transaction was not there any more when it was to be committed, if it was not. */
function endedBefore(error: unknown): TransactionEndedError | undefined {
  const found = error instanceof CommitUnknownError ? error.cause : error
  return found instanceof TransactionEndedError ? found : undefined
}

/** Also where an ORM or a handler has wrapped it. */
function isNeedOfOwn(error: unknown): boolean {
  let current = error
  for (let depth = 0; depth < 10 && current instanceof Error; depth += 1) {
    if (current instanceof NeedsOwnTransactionError) return true
    current = current.cause
  }
  return false
}

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
