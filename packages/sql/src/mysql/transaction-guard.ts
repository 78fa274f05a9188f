import type { AckordError } from '@ackord/core'
import { CommitUnknownError, TransactionAbortedError } from '../errors.ts'
import type { GuardOptions, TransactionGuard } from '../orm/callback-driver.ts'
import { endedByStatement, errorNumberOf, mayRollBack } from './errors.ts'
import { explainSetting, isIsolation, keepsTransaction, resetsOf } from './transaction-control.ts'

/** Set at the beginning. It disappears with the transaction, and a new transaction does not have it. */
const first = 'ackord_first'

/** Set and released immediately. Releasing a savepoint also releases later ones, so the first savepoint must stay to the end. */
const question = 'ackord_question'

/**
 * A transaction can end before COMMIT: a deadlock rolls it back, DDL commits it, and later statements are committed one by one. An ORM hides the
 * server's status, but outside of a transaction a savepoint is gone as soon as it is set:
 *
 *     open ─ an error, or a statement that may have ended it ─▶ in doubt ─ queried before the next statement ─▶ open, or unusable
 *     open ─ a statement of the library fails ─▶ unusable ─ rollback to an earlier savepoint ─▶ open
 *     unusable: nothing more is sent, and COMMIT fails
 */
export function transactionGuard({ send, serverError }: GuardOptions): TransactionGuard {
  let doubt: { readonly error?: unknown } | undefined
  let unusable: AckordError | undefined
  let limits: readonly string[] = []

  function markUnusable(): void {
    const error = doubt?.error
    unusable = mayRollBack(error) ? new TransactionAbortedError({ cause: error }) : endedByStatement(error)
  }

  async function resolveDoubt(): Promise<void> {
    // Sent together: a savepoint set between them would be released too.
    const answers = await Promise.allSettled([send(`SAVEPOINT ${question}`), send(`RELEASE SAVEPOINT ${question}`)])
    const failed = answers.find((answer) => answer.status === 'rejected')
    if (failed !== undefined && !isGone(failed.reason)) throw failed.reason
    if (failed !== undefined) markUnusable()
    doubt = undefined
  }

  async function reset(): Promise<void> {
    const resets = resetsOf(limits)
    limits = []
    try {
      for (const sql of resets) await send(sql)
    } catch (error) {
      // The next user of the connection did not ask for these limits, and only the server can take the connection away from an ORM.
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
      if (unusable === undefined && doubt !== undefined) await resolveDoubt()
      if (unusable !== undefined) throw unusable
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

    failTransaction(error) {
      unusable ??= new TransactionAbortedError({ cause: error })
    },

    restore() {
      unusable = undefined
      doubt = undefined
    },

    async finish() {
      if (unusable === undefined) {
        await send(`RELEASE SAVEPOINT ${first}`).catch((error: unknown) => {
          if (!isGone(error)) throw error
          markUnusable()
        })
      }
      if (unusable instanceof TransactionAbortedError) throw unusable
      if (unusable !== undefined) throw new CommitUnknownError(unusable)
      await reset()
    },

    async leave() {
      // The error of the work is more useful.
      await reset().catch(() => {})
    },
  }
}

/** No such savepoint. */
function isGone(error: unknown): boolean {
  return errorNumberOf(error) === 1305
}
