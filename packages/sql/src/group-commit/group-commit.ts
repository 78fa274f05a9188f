import { type Message, type Middleware, middleware, outside, systemRuntime } from '@ackord/core'
import { checkCount, checkNoMore } from '@ackord/core/internal'
import { type Inbox, type InboxOptions, openInbox } from '../inbox/inbox.ts'
import { type OutboxOptions, outboxMiddleware } from '../outbox/outbox-middleware.ts'
import { type InboxKey, textOf } from '../records/inbox-key.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { type TransactionOptions, transactionRules } from '../transaction/run-transaction.ts'
import { GroupGatherer } from './group-gatherer.ts'
import { GroupSize } from './group-size.ts'
import { groupTransaction } from './group-transaction.ts'

export interface GroupCommitOptions {
  /** How many messages share a transaction at most. After a deadlock or a lock time-out there are fewer for a while. Default: 50. */
  readonly size?: number | undefined
  /** How many such transactions may run at once; each takes a connection. Default: 4. */
  readonly groups?: number | undefined
}

export interface GroupCommitParts {
  readonly inbox: InboxOptions
  readonly outbox: OutboxOptions
  readonly transaction?: TransactionOptions | undefined
  readonly groupCommit: GroupCommitOptions
}

/** How many messages that failed in a group are remembered. */
const remembered = 10_000

/**
 * Handles messages that wait at the same time one after another in one transaction: one statement for all of the inbox, the handlers, one
 * statement for all of the outbox, one COMMIT. If anything fails the group is rolled back and each of its messages goes `alone`, so that
 * the outcome is that of one by one; what handlers do outside of the database may be done twice. Messages that were delivered before, or that failed here before,
 * go alone from the start, and for a while all do where groups keep meeting each other's locks (`GroupSize`).
 */
export function groupCommit<Handle>(database: Database<Handle>, alone: Middleware, options: GroupCommitParts): Middleware {
  const { size = 50, groups = 4, ...unknown } = options.groupCommit
  checkNoMore('groupCommit', unknown)
  checkCount('groupCommit.size', size, { min: 2 })
  checkCount('groupCommit.groups', groups)
  const { runtime = systemRuntime } = options.outbox
  const port = portOf(database)
  const inbox = openInbox(port, options.inbox)
  const outbox = outboxMiddleware(database, options.outbox)
  const rules = transactionRules(port, 'transactional()', options.transaction ?? {})

  return middleware({ parts: alone.parts, wantsConcurrency: size * groups }, (next) => {
    const goAlone = alone(next)
    const failed = new Set<string>()

    function onFailure(key: InboxKey): void {
      const [oldest] = failed
      if (failed.size >= remembered && oldest !== undefined) failed.delete(oldest)
      failed.add(textOf(key))
    }

    const adapted = new GroupSize(size, runtime)
    const runTogether = groupTransaction(port, {
      ...rules,
      inbox,
      process: outbox(next),
      alone: goAlone,
      onFailure,
      size: adapted,
      runtime,
    })
    const gatherer = new GroupGatherer({
      size,
      limit: () => adapted.limit,
      groups,
      runtime,
      run: (members) => outside(() => runTogether(members)),
    })

    return function joinGroup(message, context) {
      const key = port.find(context) === undefined ? keyOf(inbox, message) : undefined
      if (key === undefined || (message.deliveryCount ?? 1) > 1) return goAlone(message, context)
      if (adapted.limit === 1 || (failed.size > 0 && failed.has(textOf(key)))) return goAlone(message, context)
      return gatherer.join(message, context, key)
    }
  })
}

/** `undefined` for a message that the inbox refuses: it goes alone, and gets its error there. */
function keyOf(inbox: Inbox, message: Message): InboxKey | undefined {
  try {
    return inbox.keyOf(message)
  } catch {
    return undefined
  }
}
