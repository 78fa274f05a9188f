import { beginAttempt, type Message, type Process, type Runtime, type ScopeOutcome } from '@ackord/core'
import { probe, TransactionScope } from '@ackord/core/internal'
import { explainMissing } from '../contract/dialect.ts'
import type { Session } from '../contract/driver.ts'
import { CommitUnknownError, TransactionEndedError } from '../errors.ts'
import type { SqlInbox } from '../inbox/inbox.ts'
import { textOf } from '../records/text-limits.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
import { abortedByAll } from './aborted-by-all.ts'
import type { GroupMember } from './group-gatherer.ts'
import { type Group, groupRestorer, rowStorer, sorted, type Work } from './group-state.ts'
import type { SharedTransaction } from './shared-part.ts'

export interface SharedTransactionOptions<Handle> extends TransactionRules {
  readonly inbox: SqlInbox
  /** Handles a message in a transaction of its own. */
  readonly alone: Process
  /** Handles the members inside of the transaction. Rejects if it must be rolled back; then none of them may still be running. */
  readonly handleAll: (group: Group, shared: SharedTransaction<Handle>, fresh: Set<string>) => Promise<void>
  /** Called when the transaction has committed, before its members are settled. */
  readonly onCommitted: (count: number) => void
  readonly runtime: Runtime
}

/** Why members were rolled back. Nothing of them is stored, their scopes have ended, and none of them is settled. */
export interface RolledBack {
  /** Those that were rolled back: without members that a handler has committed early. */
  readonly members: readonly GroupMember[]
  readonly error: unknown
  /** Whether members were being handled: otherwise none of them can be the reason. */
  readonly hasBegun: boolean
  /** Those that are known to be the reason. */
  readonly culprits: ReadonlySet<GroupMember>
}

export interface SharedTransactions {
  /** Commits the members in one transaction and settles them. Resolves to the reason if that was rolled back. Never rejects. */
  handleTogether(members: readonly GroupMember[]): Promise<RolledBack | undefined>
  /** Handles and settles a member in a transaction of its own. Resolves to whether it was handled. Never rejects. */
  handleAlone(member: GroupMember): Promise<boolean>
}

/** Handles several messages in one transaction, or one of them in its own. */
export function sharedTransactions<Handle>(port: DatabasePort<Handle>, options: SharedTransactionOptions<Handle>): SharedTransactions {
  const { inbox, alone, handleAll, onCommitted, settings, logger } = options
  const { dialect, driver, wakeUps } = port
  const store = rowStorer(port)
  const restore = groupRestorer(port, options, store)

  /** The new keys, by name. */
  async function record(session: Session<Handle>, works: readonly Work[]): Promise<ReadonlyMap<string, Work['member']['key']>> {
    const keys = new Map(works.map(({ member: { name, key } }) => [name, key]))
    try {
      return new Map((await dialect.recordAll(session, inbox.table, sorted(keys))).map((key) => [textOf(key), key]))
    } catch (error) {
      throw explainMissing(dialect, error, inbox.table)
    }
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
        group.hasBegun = true
        try {
          await handleAll(group, { port, session, flush, savepoints: { count: 0 } }, new Set(group.recorded.keys()))
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

  /** Resolves to the members that are neither committed nor settled. */
  async function recover(group: Group, ended: TransactionEndedError, signal: AbortSignal): Promise<readonly Work[]> {
    const { works } = group
    const culprits = new Set(group.culprits.size > 0 ? group.culprits : works.filter(({ isDone }) => !isDone).slice(0, 1))
    const [culprit] = culprits
    const fields = { err: ended, messages: works.length, type: culprit?.member.message.type, id: culprit?.member.message.id }
    logger.error(fields, 'A handler ended the transaction that its message shared with others.')
    let isCommitted: boolean
    try {
      isCommitted = await restore(group, culprits, signal)
    } catch (error) {
      await rejectAll(group, works, error)
      return []
    }
    if (!isCommitted) return works
    await endCall(group, 'unknown')
    if (group.hasEvents) wakeUps.wake()
    await commitAll(
      group,
      works.filter(({ isDone }) => isDone),
    )
    await rejectAll(group, [...culprits], ended)
    return works.filter((work) => !work.isDone && !culprits.has(work))
  }

  /** The outcome is not known. */
  async function rejectAll(group: Group, works: readonly Work[], error: unknown): Promise<void> {
    await endCall(group, 'unknown')
    for (const { member, scope } of works) {
      await scope.end('unknown')
      member.reject(error)
    }
  }

  async function commitAll(group: Group, works: readonly Work[]): Promise<void> {
    await endCall(group, 'committed')
    const endings: Promise<void>[] = []
    for (const { member, scope, outputs } of works) {
      const end = () => scope.end('committed')
      const ending = scope.isSilent ? end() : member.runInAsyncScope(end)
      if (ending === undefined) member.resolve(outputs)
      else endings.push(ending.then(() => member.resolve(outputs)))
    }
    await Promise.all(endings)
  }

  async function rollBackAll(group: Group, works: readonly Work[]): Promise<void> {
    await endCall(group, 'rolledBack')
    for (const { scope } of works) await scope.end('rolledBack', { verdicts: 'forget' })
  }

  async function handleTogether(members: readonly GroupMember[]): Promise<RolledBack | undefined> {
    const works = members.map(
      (member): Work => ({ member, scope: new TransactionScope(member.context, { logger }), outputs: none, isDone: false }),
    )
    const group: Group = {
      works,
      recorded: new Map(),
      gathered: [],
      hasEvents: false,
      hasBegun: false,
      ended: undefined,
      callScope: undefined,
      culprits: new Set(),
    }
    using abandoned = abortedByAll(members.map(({ context }) => context.signal))
    try {
      await runTogether(group, abandoned.signal)
    } catch (error) {
      const ended = group.ended ?? endedBefore(error)
      if (ended === undefined && error instanceof CommitUnknownError) {
        await rejectAll(group, works, error)
        return undefined
      }
      const left = ended === undefined ? works : await recover(group, ended, abandoned.signal)
      await rollBackAll(group, left)
      const culprits = new Set([...group.culprits].map(({ member }) => member))
      return { members: left.map(({ member }) => member), error: ended ?? error, hasBegun: group.hasBegun, culprits }
    }
    onCommitted(members.length)
    await commitAll(group, works)
    return undefined
  }

  async function handleAlone(member: GroupMember): Promise<boolean> {
    const { message, context, timeouts } = member
    try {
      const attempt = beginAttempt(context)
      const handling = member.runInAsyncScope(() => {
        timeouts.restart()
        return alone(message, attempt)
      })
      member.resolve(await handling)
      return true
    } catch (error) {
      member.reject(error)
      return false
    }
  }

  return { handleTogether, handleAlone }
}

const none: readonly Message[] = []

/** Ends the scope of the call for several members, if there was one. */
async function endCall(group: Group, outcome: ScopeOutcome): Promise<void> {
  const scope = group.callScope
  group.callScope = undefined
  await scope?.end(outcome)
}

/** The reason why the transaction no longer existed at COMMIT; `undefined` if it did. */
function endedBefore(error: unknown): TransactionEndedError | undefined {
  const found = error instanceof CommitUnknownError ? error.cause : error
  return found instanceof TransactionEndedError ? found : undefined
}
