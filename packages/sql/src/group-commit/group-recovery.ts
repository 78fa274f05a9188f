import { type Runtime, sleep, type Timer } from '@ackord/core'
import type { SqlInbox } from '../inbox/inbox.ts'
import { textOf } from '../records/inbox-key.ts'
import type { DatabasePort } from '../transaction/open-transaction.ts'
import type { TransactionRules } from '../transaction/run-transaction.ts'
import { type Group, type StoreRows, sorted, type Work } from './group-state.ts'

export interface GroupRecoveryOptions extends Pick<TransactionRules, 'settings' | 'logger'> {
  readonly inbox: SqlInbox
  readonly runtime: Runtime
}

type RestoreGroup = (group: Group, culprit: Work | undefined, signal: AbortSignal) => Promise<boolean>

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
  async function restore({ recorded, works, gathered }: Group, culprit: Work | undefined, signal: AbortSignal): Promise<boolean> {
    const kept = new Set(works.filter((work) => work.isDone || work === culprit).map(({ member }) => member.name))
    return await driver.transaction(
      settings,
      async function restoreInbox(session) {
        const committed = new Map((await dialect.forgetAll(session, inbox.table, sorted(recorded))).map((key) => [textOf(key), key]))
        if (committed.size === 0) return false
        for (const name of committed.keys()) if (!kept.has(name)) committed.delete(name)
        if (committed.size > 0) await dialect.recordAll(session, inbox.table, sorted(committed))
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
   * Retries until the outcome is known: until then, a member that is handled again would be mistaken for a duplicate. An abort therefore does not end
   * this immediately: messages that return to the broker need it as well.
   */
  return async function restoreWithRetries(group, culprit, given) {
    using grace = abortedAfterGrace(given, runtime)
    const { signal } = grace
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
