import { type Context, currentContext, enter, type Runtime, rootContext, silentLogger, systemRuntime } from '@ackord/core'
import { checkDuration, rejectUnknownOptions, TransactionScope, transactionScopeKey } from '@ackord/core/internal'
import { checkClaimOptions, checkIdempotencyKey, checkStoredAnswer, claimLost } from '../store/idempotency-checks.ts'
import type {
  IdempotencyClaim,
  IdempotencyClaimOptions,
  IdempotencyKey,
  IdempotencyStore,
  IdempotentWriteOptions,
  StoredAnswer,
} from '../store/idempotency-store.ts'
import type { MemoryOutboxStore } from './memory-outbox-store.ts'
import type { MemoryTransaction } from './memory-transaction.ts'

export interface MemoryIdempotencyStoreOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

interface Entry {
  readonly fingerprint: string
  readonly token: string
  readonly leasedUntil: number
  readonly answered?: { readonly answer: StoredAnswer; readonly expiresAt: number } | undefined
}

/** Remembers answers in memory, for tests and demos. Events that the work appends to the outbox are committed with the answer. */
export class MemoryIdempotencyStore implements IdempotencyStore<MemoryTransaction> {
  readonly #outbox: MemoryOutboxStore
  readonly #runtime: Runtime
  readonly #entries = new Map<string, Entry>()

  constructor(outbox: MemoryOutboxStore, options: MemoryIdempotencyStoreOptions = {}) {
    const { runtime = systemRuntime, ...unknown } = options
    rejectUnknownOptions('new MemoryIdempotencyStore', unknown)
    this.#outbox = outbox
    this.#runtime = runtime
  }

  async claim(key: IdempotencyKey, options: IdempotencyClaimOptions): Promise<IdempotencyClaim> {
    const name = nameOf(key)
    const { fingerprint, lease } = checkClaimOptions(options)
    const entry = this.#find(name)
    const now = this.#runtime.now()
    if (entry !== undefined && entry.fingerprint !== fingerprint) return { state: 'mismatch' }
    if (entry?.answered !== undefined) return { state: 'answered', answer: copyOf(entry.answered.answer) }
    if (entry !== undefined && entry.leasedUntil > now) return { state: 'running', remaining: Math.max(1, entry.leasedUntil - now) }
    const token = this.#runtime.uuid()
    this.#entries.set(name, { fingerprint, token, leasedUntil: now + lease })
    return { state: 'claimed', token }
  }

  async write(
    key: IdempotencyKey,
    token: string,
    work: (transaction: MemoryTransaction, context: Context) => Promise<StoredAnswer>,
    options: IdempotentWriteOptions,
  ): Promise<StoredAnswer> {
    const name = nameOf(key)
    const { retention, context = currentContext() ?? rootContext() } = options
    checkDuration('retention', retention, { min: 1 })
    context.signal.throwIfAborted()
    const transaction = this.#outbox.begin()
    const scope = new TransactionScope(context, { logger: silentLogger })
    let answer: StoredAnswer
    try {
      const inside = context.with(transactionScopeKey, scope)
      answer = checkStoredAnswer(await enter(inside, () => work(transaction, inside)))
      context.signal.throwIfAborted()
      if (scope.rollbackOnly !== undefined) throw scope.rollbackOnly.error
      const entry = this.#held(name, token)
      if (entry === undefined) throw claimLost(key)
      transaction.commit()
      this.#entries.set(name, { ...entry, answered: { answer: copyOf(answer), expiresAt: this.#runtime.now() + retention } })
    } catch (error) {
      transaction.rollback()
      await scope.end('rolledBack')
      throw error
    }
    await scope.end('committed')
    return answer
  }

  async release(key: IdempotencyKey, token: string): Promise<void> {
    const name = nameOf(key)
    if (this.#held(name, token) !== undefined) this.#entries.delete(name)
  }

  /** The entry, if its retention has not ended. */
  #find(name: string): Entry | undefined {
    const entry = this.#entries.get(name)
    if (entry?.answered === undefined || entry.answered.expiresAt > this.#runtime.now()) return entry
    this.#entries.delete(name)
    return undefined
  }

  #held(name: string, token: string): Entry | undefined {
    const entry = this.#find(name)
    return entry?.token === token && entry.answered === undefined ? entry : undefined
  }
}

function nameOf(key: IdempotencyKey): string {
  const { scope, key: own } = checkIdempotencyKey(key)
  return JSON.stringify([scope, own])
}

/** A copy: callers cannot change the stored answer. */
function copyOf({ status, headers, body }: StoredAnswer): StoredAnswer {
  return { status, headers: headers.map(([name, value]) => [name, value] as const), body: body.slice() }
}
