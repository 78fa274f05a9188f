import { type BatchSettings, type Message, type Middleware, middleware, outside, type SharedPorts, systemRuntime } from '@ackord/core'
import { checkCount, type RouterBatches, rejectUnknownOptions, routerBatchesKey } from '@ackord/core/internal'
import type { InboxKey } from '@ackord/outbox'
import { type InboxOptions, openSqlInbox, type SqlInbox } from '../inbox/inbox.ts'
import { type OutboxOptions, outboxMiddleware } from '../outbox/outbox-middleware.ts'
import { textOf } from '../records/text-limits.ts'
import { type Database, portOf } from '../transaction/database.ts'
import { type TransactionOptions, transactionRules } from '../transaction/run-transaction.ts'
import { batchTransaction } from './batch-transaction.ts'
import { GroupGatherer, type RunGroup } from './group-gatherer.ts'
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
  readonly groupCommit?: GroupCommitOptions | undefined
}

interface Limits {
  readonly size: number
  readonly groups: number
}

/** The number of messages remembered because they failed in a group. */
const remembered = 10_000

/** Messages of one kind that share transactions. */
interface Gathering {
  readonly gatherer: GroupGatherer
  readonly size: GroupSize
}

/**
 * Lets messages share transactions: those of batch handlers, and with `groupCommit` all others too.
 *
 * `groupCommit` handles messages that wait at the same time one after another in one transaction: one statement for all inbox rows, the handlers, one
 * statement for all outbox rows, one COMMIT. If anything fails, the group is rolled back and each of its messages is handled `alone`, so that the outcome
 * is the same as without groups; side effects outside of the database may happen twice. A batch handler is called once for its messages instead
 * (`batchTransaction`). Messages that were delivered before, or that failed in a group before, are handled alone from the start, and so are all messages
 * for a while if groups keep conflicting with each other's locks (`GroupSize`).
 */
export function groupCommit<Handle>(database: Database<Handle>, alone: Middleware, options: GroupCommitParts): Middleware {
  const limits = options.groupCommit === undefined ? undefined : checkGroupCommit(options.groupCommit)
  const { runtime = systemRuntime } = options.outbox
  const port = portOf(database)
  const inbox = openSqlInbox(port, options.inbox)
  const outbox = outboxMiddleware(database, options.outbox)
  const rules = transactionRules(port, 'transactional()', options.transaction ?? {})

  function inheritPorts(ports: SharedPorts): void {
    rules.inheritPorts(ports)
    inbox.inheritPorts(ports)
  }

  const wantsConcurrency = limits === undefined ? undefined : limits.size * limits.groups
  return middleware({ parts: alone.parts, wantsConcurrency, gathersBatches: true, inheritPorts }, (next) => {
    const handleAlone = alone(next)
    const failed = new Set<string>()

    function onFailure(key: InboxKey): void {
      const [oldest] = failed
      if (failed.size >= remembered && oldest !== undefined) failed.delete(oldest)
      failed.add(textOf(key))
    }

    const parts = { ...rules, inbox, process: outbox(next), alone: handleAlone, onFailure, runtime }

    function groupsOf(limits: Limits): Gathering {
      const size = new GroupSize(limits.size, runtime)
      const runTogether = groupTransaction(port, { ...parts, size })
      const run: RunGroup = (members) => outside(() => runTogether(members))
      return { size, gatherer: new GroupGatherer({ ...limits, limit: () => size.limit, runtime, run }) }
    }

    function batchesOf(type: string, { size: max, wait, batches }: BatchSettings, { stopping, root }: RouterBatches): Gathering {
      const size = new GroupSize(max, runtime)
      const runBatch = batchTransaction(port, { ...parts, type, size, root })
      const run: RunGroup = (members) => outside(() => runBatch(members))
      return { size, gatherer: new GroupGatherer({ size: max, limit: () => size.limit, groups: batches, wait, stopping, runtime, run }) }
    }

    const grouped = limits === undefined ? undefined : groupsOf(limits)
    const batched = new Map<string, Gathering>()

    function gatheringOf({ type }: Message, batches: RouterBatches | undefined): Gathering | undefined {
      const settings = batches === undefined || type === undefined ? undefined : batches.handlers.get(type)
      if (settings === undefined || batches === undefined || type === undefined) return grouped
      let gathering = batched.get(type)
      if (gathering === undefined) {
        gathering = batchesOf(type, settings, batches)
        batched.set(type, gathering)
      }
      return gathering
    }

    return function joinGroup(message, context) {
      const gathering = gatheringOf(message, context.get(routerBatchesKey))
      if (gathering === undefined) return handleAlone(message, context)
      const { gatherer, size } = gathering
      const key = port.find(context) === undefined ? keyOf(inbox, message) : undefined
      if (key === undefined || (message.deliveryCount ?? 1) > 1) return handleAlone(message, context)
      if (size.limit === 1 || (failed.size > 0 && failed.has(textOf(key)))) return handleAlone(message, context)
      return gatherer.join(message, context, key)
    }
  })
}

/** The options with their defaults. */
export function checkGroupCommit(options: GroupCommitOptions): Limits {
  const { size = 50, groups = 4, ...unknown } = options
  rejectUnknownOptions('groupCommit', unknown)
  return { size: checkCount('groupCommit.size', size, { min: 2 }), groups: checkCount('groupCommit.groups', groups) }
}

/** `undefined` for a message that the inbox rejects: it is handled alone, and gets its error there. */
function keyOf(inbox: SqlInbox, message: Message): InboxKey | undefined {
  try {
    return inbox.keyOf(message)
  } catch {
    return undefined
  }
}
