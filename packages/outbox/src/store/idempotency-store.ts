import type { Context } from '@ackord/core'

/**
 * The client's name for its request. Two requests with the same key in the same scope are the same request. Both are compared byte by byte, and have at
 * most 255 characters.
 */
export interface IdempotencyKey {
  /** Separates the keys of different callers and routes: no caller gets the answer to the request of another one. */
  readonly scope: string
  /** Chosen by the client, such as the value of its `Idempotency-Key` header. */
  readonly key: string
}

/** The answer to a request, as it is sent again. */
export interface StoredAnswer {
  readonly status: number
  /** Names in lower case. A name may occur several times. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

export interface IdempotencyClaimOptions {
  /**
   * Identifies what the request asks for, such as a hash of its body, in at most 255 characters. The same key with another fingerprint is a mistake of
   * the client.
   */
  readonly fingerprint: string
  /** Milliseconds after which another request may take over the claim, because the process that has it must have died. */
  readonly lease: number
}

/**
 * - `claimed`: the caller does the work of the request, under this token.
 * - `running`: another request with the key has the claim. `remaining`: the milliseconds until it can be taken over, at least 1.
 * - `answered`: the work was done, and this was the answer.
 * - `mismatch`: the key was used for a request with another fingerprint, which is running (even if its lease has ended) or answered.
 */
export type IdempotencyClaim =
  | { readonly state: 'claimed'; readonly token: string }
  | { readonly state: 'running'; readonly remaining: number }
  | { readonly state: 'answered'; readonly answer: StoredAnswer }
  | { readonly state: 'mismatch' }

export interface IdempotentWriteOptions {
  /** For how many milliseconds the answer is remembered, from the commit on. */
  readonly retention: number
  /** Default: the ambient context, or an empty one. */
  readonly context?: Context | undefined
}

/**
 * Remembers the answers to requests, so that a request that is sent twice is carried out once. All times are the store's.
 *
 *     absent ─ claim() ─▶ running ─ write() ─▶ answered ─ retention ends ─▶ absent
 *        ▲                 │   ▲
 *        └── release() ────┘   └─ claim(), when the lease has ended: a new token
 *
 * Ownership is decided by the token alone: the end of a lease permits a takeover, and by itself takes nothing away from the process that has the claim.
 */
export interface IdempotencyStore<Transaction> {
  /**
   * Claims the key, or says why it cannot be claimed. Atomic, and committed when it resolves. Never waits for the request that has the claim. An entry
   * whose retention has ended does not exist, even if it has not been deleted yet.
   */
  claim(key: IdempotencyKey, options: IdempotencyClaimOptions): Promise<IdempotencyClaim>
  /**
   * Does the work in a transaction and stores its answer in the same transaction: both are committed, or neither is. Rejects if the work rejects, or if
   * the claim is no longer held under this token (`ACKORD_CLAIM_LOST`); everything is then rolled back, and the claim stays as it is. The work is done at
   * most once per call.
   */
  write(
    key: IdempotencyKey,
    token: string,
    work: (transaction: Transaction, context: Context) => Promise<StoredAnswer>,
    options: IdempotentWriteOptions,
  ): Promise<StoredAnswer>
  /**
   * Gives the claim back, so that the next request with the key does not wait for the end of the lease. Has no effect if it is not held under this token,
   * or if the answer is stored: after a commit whose outcome is unknown it is safe.
   */
  release(key: IdempotencyKey, token: string): Promise<void>
}
