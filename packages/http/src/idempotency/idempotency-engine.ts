import { AckordError, type Context, enter, InvalidOptionError, isAckordError, withSignal } from '@ackord/core'
import { linkedController, withTimeLimit } from '@ackord/core/internal'
import type { IdempotencyKey, IdempotencyStore, StoredAnswer } from '@ackord/outbox'
import { answerTooLarge } from './answer-errors.ts'
import { storedHeaders } from './answer-headers.ts'
import { type IdempotencyOptions, type IdempotencySettings, idempotencySettings } from './idempotency-options.ts'
import { bodyTooLarge, keyMalformed, keyMissing, keyReused, requestRunning, requestTakenOver } from './problems.ts'
import { readBounded } from './read-bounded.ts'
import { readKey } from './read-key.ts'
import { requestFingerprint, sha256 } from './request-fingerprint.ts'

/** The parts of a request that the engine reads, the same for all frameworks. */
export interface RequestView {
  readonly method: string
  /** The path with the query, or a whole URL. */
  readonly url: string
  /** The value of a header, whose name is in lower case. */
  header(name: string): string | readonly string[] | null | undefined
  /**
   * The body: bytes, a text, what a parser has made of it, or a stream, which is read up to `maxBodySize`. Called at most once, and not if the option
   * `fingerprint` is set.
   */
  body(): unknown
}

/**
 * Does the work of a request in the transaction and resolves to the answer. The answer has the headers that the work has set, and none that belong to the
 * connection or to the request at hand. The context's signal is aborted when the lease has ended.
 */
export type IdempotentWork<Transaction> = (transaction: Transaction, context: Context) => Promise<StoredAnswer>

/** In UTF-16 code units. Stores accept no longer scope. */
const maxScopeLength = 255

/** Seconds. */
const maxRetryAfter = 5

/**
 * Carries out a request once, however often it is sent with the same key: the work, its events and its answer are committed together, and later requests get the
 * stored answer. It knows no framework: an adapter passes it a view of the request and the work, and sends the answer.
 */
export class IdempotencyEngine<Transaction, Request> {
  readonly #store: IdempotencyStore<Transaction>
  readonly #settings: IdempotencySettings<Request>

  /** `owner` is the function that the options were passed to, for error texts. */
  constructor(store: IdempotencyStore<Transaction>, options: IdempotencyOptions<Request>, owner: string = 'new IdempotencyEngine') {
    this.#store = store
    this.#settings = idempotencySettings(owner, options)
  }

  /** The largest body of an answer, in bytes. */
  get maxAnswerSize(): number {
    return this.#settings.maxAnswerSize
  }

  /**
   * The answer to send: that of the work, a stored one, or a refusal. `undefined` if the request needs no key, by its method or because it has none and none is
   * required: the work was not done then, and the caller handles the request as if there were no engine. Rejects if the work rejects; everything is rolled back then.
   */
  async handle(request: Request, view: RequestView, work: IdempotentWork<Transaction>): Promise<StoredAnswer | undefined> {
    const { methods, header, required, lease, maxBodySize } = this.#settings
    if (!methods.has(view.method.toUpperCase())) return undefined
    const value = view.header(header)
    if (value === undefined || value === null) return required ? keyMissing(header) : undefined
    const key = readKey(typeof value === 'string' ? value : value.join(', '))
    if (key === undefined) return keyMalformed(header)
    const id = { scope: await this.#scopeOf(request), key }
    const fingerprint = await this.#fingerprintOf(request, view)
    if (fingerprint === undefined) return bodyTooLarge(maxBodySize)

    const claim = await this.#store.claim(id, { fingerprint, lease })
    if (claim.state === 'running') return requestRunning(secondsToWait(lease, claim.remaining))
    if (claim.state === 'mismatch') return keyReused()
    if (claim.state === 'answered') return { ...claim.answer, headers: [...claim.answer.headers, ['idempotency-replayed', 'true']] }
    return await this.#carryOut(id, claim.token, work)
  }

  async #carryOut(id: IdempotencyKey, token: string, work: IdempotentWork<Transaction>): Promise<StoredAnswer> {
    const { retention, isStored, logger, maxAnswerSize } = this.#settings
    let answer: StoredAnswer | undefined
    let isDropped = false
    try {
      await this.#store.write(
        id,
        token,
        async (transaction, context) => {
          answer = await this.#withinLease(context, (inside) => work(transaction, inside))
          if (answer.body.byteLength > maxAnswerSize) throw answerTooLarge(maxAnswerSize)
          isDropped = !isStored(answer)
          // Rolls the transaction back.
          if (isDropped) throw new AnswerNotStored()
          return { ...answer, headers: storedHeaders(answer.headers) }
        },
        { retention },
      )
    } catch (error) {
      if (isAckordError(error, 'ACKORD_CLAIM_LOST')) {
        logger.warn({ err: error }, 'A request lost its idempotency key to another one and was rolled back. Is `lease` too short?')
        return requestTakenOver()
      }
      await this.#release(id, token)
      if (!isDropped) throw error
    }
    // Present: the work has resolved.
    return answer as StoredAnswer
  }

  /** A request that takes longer has lost its key, or may lose it at any time. An answer that never ends would keep the transaction open. */
  async #withinLease(context: Context, work: (context: Context) => Promise<StoredAnswer>): Promise<StoredAnswer> {
    const { runtime, lease } = this.#settings
    using controller = linkedController(context.signal)
    const inside = withSignal(context, controller.signal)
    const late = () => {
      const text = `The request and its answer took longer than ${lease} ms, the option \`lease\`. Everything was rolled back.`
      const error = new AckordError('ACKORD_PROCESS_TIMEOUT', text)
      controller.abort(error)
      return error
    }
    return await withTimeLimit(runtime, lease, late, () => enter(inside, () => work(inside)))
  }

  /** If it fails, the next request with the key waits for the end of the lease. */
  async #release(id: IdempotencyKey, token: string): Promise<void> {
    try {
      await this.#store.release(id, token)
    } catch (error) {
      this.#settings.logger.warn(
        { err: error },
        'The idempotency key of a failed request could not be released. It is free when its lease has ended.',
      )
    }
  }

  async #scopeOf(request: Request): Promise<string> {
    const scope: unknown = await this.#settings.scope(request)
    const parts: readonly unknown[] = Array.isArray(scope) ? scope : [scope]
    if (parts.length === 0 || !parts.every((part) => typeof part === 'string' && part !== '')) {
      const text =
        'must return one or more non-empty strings, which identify the caller and the route. For a request it did not, and the request is not carried out.'
      throw new InvalidOptionError('scope', text)
    }
    // As JSON, so that ['a', 'b:c'] and ['a:b', 'c'] are two scopes.
    const text = typeof scope === 'string' ? scope : JSON.stringify(scope)
    return text.length > maxScopeLength ? sha256(text) : text
  }

  /** `undefined`: the body is too large. */
  async #fingerprintOf(request: Request, view: RequestView): Promise<string | undefined> {
    const { fingerprint, maxBodySize } = this.#settings
    if (fingerprint !== undefined) return sha256(await fingerprint(request))
    const body = await view.body()
    const content = body instanceof ReadableStream ? await readBounded(body, maxBodySize) : (body ?? '')
    if (content === undefined) return undefined
    return requestFingerprint({ method: view.method, url: view.url, body: content })
  }
}

/** Reports no failure: it is thrown through the store, so that the transaction rolls back. */
class AnswerNotStored extends Error {
  static {
    this.prototype.name = 'AnswerNotStored'
  }
}

/**
 * As many seconds as the running request has taken so far: most are ready soon, and a slow one is not asked for all the time. At least 1, at most 5, and not
 * longer than its lease.
 */
function secondsToWait(lease: number, remaining: number): number {
  const age = Math.ceil((lease - remaining) / 1000)
  return Math.max(1, Math.min(age, maxRetryAfter, Math.ceil(remaining / 1000)))
}
