import { type Message, type Middleware, middleware, outside, type SharedPorts, systemRuntime } from '@ackord/core'
import { checkCount, rejectUnknownOptions } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import { type InboxOptions, openSqlInbox, type SqlInbox } from '../inbox/inbox.ts'
import { type OutboxOptions, outboxMiddleware } from '../outbox/outbox-middleware.ts'
import { textOf } from '../records/text-limits.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { type TransactionOptions, transactionRules } from '../transaction/run-transaction.ts'
import { GroupGatherer } from './group-gatherer.ts'
import { GroupSize } from './group-size.ts'
import { groupTransaction } from './group-transaction.ts'

export interface GroupCommitOptions {
  /** The maximum number of messages that share a transaction. After a deadlock or a lock timeout groups are smaller for a while. Default: 50. */
  readonly size?: number | undefined
  /** The maximum number of concurrent group transactions; each uses a connection. Default: 4. */
  readonly groups?: number | undefined
}

export interface GroupCommitParts {
  readonly inbox: InboxOptions
  readonly outbox: OutboxOptions
  readonly transaction?: TransactionOptions | undefined
  readonly groupCommit: GroupCommitOptions
}

/** The number of messages remembered because they failed in a group. */
const remembered = 10_000

/**
 * Handles messages that wait at the same time one after another in one transaction: one statement for all inbox rows, the handlers, one statement for
 * all outbox rows, one COMMIT. If anything fails, the group is rolled back and each of its messages is handled `alone`, so that the outcome is the
 * same as without groups; side effects outside of the database may happen twice. Messages that were delivered before, or that failed in a group
 * before, are handled alone from the start, and so are all messages for a while if groups keep conflicting with each other's locks (`GroupSize`).
 */
export function groupCommit<Handle>(database: Database<Handle>, alone: Middleware, options: GroupCommitParts): Middleware {
  const { size = 50, groups = 4, ...unknown } = options.groupCommit
  rejectUnknownOptions('groupCommit', unknown)
  checkCount('groupCommit.size', size, { min: 2 })
  checkCount('groupCommit.groups', groups)
  const { runtime = systemRuntime } = options.outbox
  const port = portOf(database)
  const inbox = openSqlInbox(port, options.inbox)
  const outbox = outboxMiddleware(database, options.outbox)
  const rules = transactionRules(port, 'transactional()', options.transaction ?? {})

  function inheritPorts(ports: SharedPorts): void {
    rules.inheritPorts(ports)
    inbox.inheritPorts(ports)
  }

  return middleware({ parts: alone.parts, wantsConcurrency: size * groups, inheritPorts }, (next) => {
    const handleAlone = alone(next)
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
      alone: handleAlone,
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
      if (key === undefined || (message.deliveryCount ?? 1) > 1) return handleAlone(message, context)
      if (adapted.limit === 1 || (failed.size > 0 && failed.has(textOf(key)))) return handleAlone(message, context)
      return gatherer.join(message, context, key)
    }
  })
}

/** `undefined` for a message that the inbox rejects: it is handled alone, and gets its error there. */
function keyOf(inbox: SqlInbox, message: Message): InboxKey | undefined {
  try {
    return inbox.keyOf(message)
  } catch {
    return undefined
  }
}
