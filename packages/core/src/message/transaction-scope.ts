import { AckordError, TransactionRequiredError } from '../errors.ts'
import { announce, channels } from '../ports/channels.ts'
import { guardLogger, type Logger } from '../ports/observability.ts'
import type { AckHold, Acking } from './acking.ts'
import { type Context, type ContextKey, contextKey, enter, messageKey } from './context.ts'
import { ackingOf, type Message } from './message.ts'

export type ScopeOutcome = 'committed' | 'rolledBack' | 'unknown'
export type ScopeCallback = (context: Context) => void | Promise<void>

const none: readonly never[] = []

interface EndOptions {
  readonly verdicts?: 'carryOut' | 'forget' | undefined
}

/** The scope a context belongs to. Only transaction middleware sets it. */
export const transactionScopeKey: ContextKey<TransactionScope> = contextKey('ackord.transactionScope', { callScoped: true })

/**
 * Runs the callback when the transaction of this context is known to have committed, before the ack, without the transaction in its context. Its
 * errors are logged.
 */
export function afterCommit(context: Context, callback: ScopeCallback): void {
  scopeOf(context, 'afterCommit()').afterCommit(callback)
}

/** Runs the callback when the transaction of this context was rolled back. Its errors are logged. */
export function afterRollback(context: Context, callback: ScopeCallback): void {
  scopeOf(context, 'afterRollback()').afterRollback(callback)
}

function scopeOf(context: Context, caller: string): TransactionScope {
  const scope = context.get(transactionScopeKey)
  if (scope === undefined) throw new TransactionRequiredError(caller)
  return scope
}

/**
 * Everything that depends on the outcome of a transaction. Stores create one per transaction, and a nested one per savepoint:
 *
 *     open ─ end('committed')  ─▶ afterCommit callbacks, then the held acks
 *          ─ end('rolledBack') ─▶ afterRollback callbacks; held acks are dropped, held nacks and rejects carried out
 *          ─ end('unknown')    ─▶ no callback; held acks are dropped, held nacks and rejects carried out
 *
 * A nested scope that commits passes everything to its parent; when it is rolled back, what it holds is dropped.
 */
export class TransactionScope {
  readonly #context: Context
  readonly #logger: Logger
  readonly #parent: TransactionScope | undefined
  // Created on demand: one scope is created per message, and most hold that message and nothing else.
  #holds: readonly { readonly acking: Acking; readonly hold: AckHold }[] = none
  #nested: Set<TransactionScope> | undefined
  #afterCommit: ScopeCallback[] | undefined
  #afterRollback: ScopeCallback[] | undefined
  #refusal: { readonly error: unknown } | undefined
  #ended = false

  /** `context` is the one outside of the transaction; callbacks run in it. */
  constructor(context: Context, options: { readonly logger: Logger; readonly parent?: TransactionScope | undefined }) {
    this.#context = context
    this.#logger = guardLogger(options.logger)
    this.#parent = options.parent
  }

  /** A scope for a savepoint inside of this one. */
  nested(context: Context): TransactionScope {
    this.#checkOpen('nested()')
    const nested = new TransactionScope(context, { logger: this.#logger, parent: this })
    this.#nested ??= new Set()
    this.#nested.add(nested)
    for (const { acking } of this.#holds) nested.#hold(acking)
    return nested
  }

  /** From now on this message's verdicts wait for the end of the scope. Has no effect on a message without acking. */
  hold(message: Message): void {
    this.#checkOpen('hold()')
    const acking = ackingOf(message)
    if (acking !== undefined) this.#hold(acking)
  }

  afterCommit(callback: ScopeCallback): void {
    this.#checkOpen('afterCommit()')
    this.#afterCommit ??= []
    this.#afterCommit.push(callback)
  }

  afterRollback(callback: ScopeCallback): void {
    this.#checkOpen('afterRollback()')
    this.#afterRollback ??= []
    this.#afterRollback.push(callback)
  }

  /** Why the transaction must not commit, if it must not: a message was nacked or rejected in it. Checked before COMMIT. */
  get rollbackOnly(): { readonly error: unknown } | undefined {
    return this.#refusal
  }

  setRollbackOnly(error: unknown): void {
    this.#refusal ??= { error }
  }

  /** Whether nothing depends on its end: no callback, no waiting verdict. */
  get isSilent(): boolean {
    if (this.#afterCommit !== undefined || this.#afterRollback !== undefined || this.#nested !== undefined) return false
    return this.#holds.every(({ hold }) => hold.intent === undefined)
  }

  /**
   * Called once, by the owner of the transaction, when its outcome is known, or known to be unknowable. Rejects only when it is called again; returns
   * `undefined` where there is nothing to wait for. `verdicts: 'forget'` also drops held nacks and rejects, for messages that are handled again
   * immediately.
   */
  end(outcome: ScopeOutcome, options: EndOptions = {}): Promise<void> | undefined {
    try {
      this.#checkOpen('end()')
    } catch (error) {
      return Promise.reject(error)
    }
    this.#ended = true
    if (this.#parent !== undefined) this.#parent.#nested?.delete(this)
    else announce(channels.transaction, () => ({ message: this.#context.get(messageKey), context: this.#context, outcome }))
    // Most have at most one synchronous callback, and hold a message whose handler gave no verdict: the router gives it afterwards.
    const before = this.#nested === undefined || this.#nested.size === 0 ? this.#runCallbacks(outcome) : this.#endNested(outcome, options)
    if (before !== undefined) return before.finally(() => this.#release(outcome, options))
    return this.#release(outcome, options)
  }

  /** A savepoint that was left open is treated like a failed one: nothing of it was released. */
  async #endNested(outcome: ScopeOutcome, options: EndOptions): Promise<void> {
    for (const nested of this.#nested ?? []) await nested.end(outcome === 'committed' ? 'rolledBack' : outcome, options)
    await this.#runCallbacks(outcome)
  }

  #runCallbacks(outcome: ScopeOutcome): Promise<void> | undefined {
    if (outcome === 'committed' && this.#parent !== undefined) {
      this.#passToParent(this.#parent)
      return undefined
    }
    if (outcome === 'committed' && this.#afterCommit !== undefined) return this.#run(this.#afterCommit, 'afterCommit')
    if (outcome === 'rolledBack' && this.#afterRollback !== undefined) return this.#run(this.#afterRollback, 'afterRollback')
    return undefined
  }

  #release(outcome: ScopeOutcome, { verdicts }: EndOptions): Promise<void> | undefined {
    const kept = outcome === 'committed' ? 'all' : verdicts === 'forget' ? 'none' : 'refusals'
    let answers: Promise<void>[] | undefined
    for (const { hold } of this.#holds) {
      const verdict = hold.release(kept)
      if (verdict === undefined) continue
      answers ??= []
      answers.push(this.#answered(verdict))
    }
    return answers === undefined ? undefined : Promise.all(answers).then(() => {})
  }

  #hold(acking: Acking): void {
    if (this.#holds.some((held) => held.acking === acking)) return
    const held = { acking, hold: acking.hold((error) => this.setRollbackOnly(error)) }
    this.#holds = this.#holds === none ? [held] : [...this.#holds, held]
  }

  #passToParent(parent: TransactionScope): void {
    if (this.#afterCommit !== undefined) parent.#afterCommit = [...(parent.#afterCommit ?? []), ...this.#afterCommit]
    if (this.#afterRollback !== undefined) parent.#afterRollback = [...(parent.#afterRollback ?? []), ...this.#afterRollback]
  }

  /** One after the other; `undefined` if none of them is asynchronous. */
  #run(callbacks: readonly ScopeCallback[], kind: string, from = 0): Promise<void> | undefined {
    for (let index = from; index < callbacks.length; index += 1) {
      const callback = callbacks[index] as ScopeCallback
      try {
        const running = enter(this.#context, () => callback(this.#context))
        if (running !== undefined) {
          const goOn = () => this.#run(callbacks, kind, index + 1)
          return Promise.resolve(running)
            .catch((error: unknown) => this.#complain(error, kind))
            .then(goOn)
        }
      } catch (error) {
        this.#complain(error, kind)
      }
    }
    return undefined
  }

  #complain(error: unknown, kind: string): void {
    this.#logger.error({ err: error }, `An ${kind} callback failed; the outcome of the transaction is not affected.`)
  }

  async #answered(verdict: Promise<boolean>): Promise<void> {
    try {
      await verdict
    } catch (error) {
      this.#logger.error(
        { err: error },
        'The broker did not accept a verdict that waited for a transaction; it will redeliver the message.',
      )
    }
  }

  #checkOpen(call: string): void {
    if (!this.#ended) return
    throw new AckordError(
      'ACKORD_SCOPE_ENDED',
      `${call} was called after the transaction had ended. Await all work before the handler returns.`,
    )
  }
}
