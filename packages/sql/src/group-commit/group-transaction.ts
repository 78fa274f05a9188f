import { beginAttempt, type Context, type Message, type Process, type Runtime } from '@ackord/core'
import type { InboxKey } from '@ackord/outbox'
import type { SqlInbox } from '../inbox/inbox.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
import type { RunGroup } from './group-gatherer.ts'
import { type GroupSize, shrinkAfter } from './group-size.ts'
import { type Group, gathererOf, type Work } from './group-state.ts'
import { runPart, type SharedTransaction } from './shared-part.ts'
import { sharedTransactions } from './shared-transaction.ts'

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

/** Handles messages one after the other in one transaction, or each in its own if that one fails. */
export function groupTransaction<Handle>(port: DatabasePort<Handle>, options: GroupTransactionOptions): RunGroup {
  const { inbox, process, onFailure: failed, size, logger } = options

  /** No async/await on the hot path: saves promises per message. */
  function handleAll(group: Group, shared: SharedTransaction<Handle>, fresh: Set<string>): Promise<void> {
    return new Promise((resolve, reject) => {
      function handle(work: Work, then: () => void): void {
        const { message, context, key, name, timeouts } = work.member
        // The first of two messages with the same key is handled; the second is a duplicate.
        const run = fresh.delete(name) ? (inside: Context) => inbox.handle(process, message, inside, key) : () => inbox.skip(message)
        const part = {
          message,
          context: beginAttempt(context),
          scope: work.scope,
          run,
          gather: gathererOf(group, work),
          done(outputs: readonly Message[]) {
            work.outputs = outputs
            work.isDone = true
            // The message waits for the others again.
            timeouts.suspend()
            then()
            return outputs
          },
          failed(error: unknown) {
            failed(key)
            reject(error)
            timeouts.suspend()
            return none
          },
        }
        work.member.runInAsyncScope(() => {
          timeouts.restart()
          runPart(shared, part)
        })
      }

      function handleFrom(index: number): void {
        const work = group.works[index]
        if (work === undefined) resolve()
        else handle(work, () => handleFrom(index + 1))
      }

      handleFrom(0)
    })
  }

  function onCommitted(count: number): void {
    size.succeeded(count)
    options.metrics?.observe('ackord.group.size', count, {})
  }

  const { handleTogether, handleAlone } = sharedTransactions(port, { ...options, handleAll, onCommitted })

  return async function runGroup(members) {
    const [first] = members
    if (first !== undefined && members.length === 1) {
      await handleAlone(first)
      return
    }
    const rolledBack = await handleTogether(members)
    if (rolledBack === undefined) return
    const { error } = rolledBack
    shrinkAfter(error, port.dialect, size)
    options.metrics?.count('ackord.group.dissolved', 1, {})
    logger.debug({ err: error, messages: members.length }, 'A group of messages was rolled back; each is handled alone.')
    for (const member of rolledBack.members) await handleAlone(member)
  }
}

const none: readonly Message[] = []
