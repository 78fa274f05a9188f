import type { AckordError } from '@ackord/core'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import type { GuardOptions, TransactionGuard } from '../orm/callback-driver.ts'
import { endedByStatement, errorNumberOf, mayRollBack } from './errors.ts'
import { keepsTransaction } from './transaction-control.ts'
import { explainSetting, isIsolation, resetsOf } from './transaction-settings.ts'

/** Set first of all. It is gone with the transaction, and does not come back with another one. */
const first = 'ackord_first'

/** Set and released at once. One that is released takes those with it that came after, so the first one must stay to the end. */
const question = 'ackord_question'

/**
 * A transaction can end before COMMIT: a deadlock rolls it back, DDL commits it, and what comes after is committed statement by statement.
 * An ORM hides the server's own word on it, but outside of a transaction a savepoint is gone as soon as it is set:
 *
 *     open ─ an error, or a statement that may have ended it ─▶ in doubt ─ asked before the next statement ─▶ open, or dead
 *     open ─ a statement of ours fails ─▶ dead ─ a savepoint from before is rolled back to ─▶ open
 *     dead: nothing more is sent, and COMMIT fails
 */
export function transactionGuard({ send, serverError }: GuardOptions): TransactionGuard {
  let doubt: { readonly error?: unknown } | undefined
  let dead: AckordError | undefined
  let limits: readonly string[] = []

  function bury(): void {
    const error = doubt?.error
    dead = mayRollBack(error) ? new TransactionAbortedError({ cause: error }) : endedByStatement(error)
  }

  async function resolveDoubt(): Promise<void> {
    // Together: were another savepoint set between them, it would be released too.
    const answers = await Promise.allSettled([send(`SAVEPOINT ${question}`), send(`RELEASE SAVEPOINT ${question}`)])
    const failed = answers.find((answer) => answer.status === 'rejected')
    if (failed !== undefined && !isGone(failed.reason)) throw failed.reason
    if (failed !== undefined) bury()
    doubt = undefined
  }

  async function reset(): Promise<void> {
    const resets = resetsOf(limits)
    limits = []
    try {
      for (const sql of resets) await send(sql)
    } catch (error) {
      // Whoever has the connection next did not ask for the limits, and only the server can take it out of an ORM's hands.
      await send('KILL CONNECTION_ID()').catch(() => {})
      throw error
    }
  }

  return {
    async begin(settings) {
      await send(`SAVEPOINT ${first}`)
      for (const sql of settings) {
        if (isIsolation(sql)) continue
        await send(sql).catch((error: unknown) => {
          throw explainSetting(error)
        })
        limits = [...limits, sql]
      }
    },

    async run(sql, start, harmless = () => false) {
      if (dead === undefined && doubt !== undefined) await resolveDoubt()
      if (dead !== undefined) throw dead
      let keeps = keepsTransaction(sql)
      try {
        return await start((later) => {
          keeps &&= keepsTransaction(later)
        })
      } catch (error) {
        keeps = true
        if (!harmless(error)) doubt = { error: serverError(error) }
        throw error
      } finally {
        if (!keeps) doubt = {}
      }
    },

    doom(error) {
      dead ??= new TransactionAbortedError({ cause: error })
    },

    restore() {
      dead = undefined
      doubt = undefined
    },

    async finish() {
      if (dead === undefined) {
        await send(`RELEASE SAVEPOINT ${first}`).catch((error: unknown) => {
          if (!isGone(error)) throw error
          bury()
        })
      }
      if (dead instanceof TransactionAbortedError) throw dead
      if (dead !== undefined) throw new CommitUnknownError(dead)
      await reset()
    },

    async leave() {
      // What the work failed with says more.
      await reset().catch(() => {})
    },
  }
}

/** No such savepoint. */
function isGone(error: unknown): boolean {
  return errorNumberOf(error) === 1305
}
