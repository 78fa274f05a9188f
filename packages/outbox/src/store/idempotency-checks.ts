import { AckordError, InvalidOptionError } from '@ackord/core'
import { checkDuration, checkName } from '@ackord/core/internal'
import type { IdempotencyClaimOptions, IdempotencyKey, StoredAnswer } from './idempotency-store.ts'

/** In UTF-16 code units, each of which has at most three bytes in UTF-8: both parts fit into an index entry of every database. */
const maxKeyLength = 255

/** For stores: throws if a part of the key cannot be stored unchanged. Returns the key. */
export function checkIdempotencyKey(key: IdempotencyKey): IdempotencyKey {
  checkPart('scope', key.scope)
  checkPart('key', key.key)
  return key
}

/** For stores: throws if the options of a claim are invalid. Returns them. */
export function checkClaimOptions(options: IdempotencyClaimOptions): IdempotencyClaimOptions {
  checkPart('fingerprint', options.fingerprint)
  checkDuration('lease', options.lease, { min: 1 })
  return options
}

/** For stores: throws unless the work has returned an answer that can be stored. Returns it. */
export function checkStoredAnswer(answer: StoredAnswer): StoredAnswer {
  const { status, headers, body } = answer ?? {}
  if (!Number.isInteger(status) || status < 100 || status > 999) {
    throw invalidAnswer(`Its status must be a whole number from 100 to 999; it is ${String(status)}.`)
  }
  if (!Array.isArray(headers) || !headers.every(isHeader)) throw invalidAnswer('Its headers must be pairs of strings.')
  if (!(body instanceof Uint8Array)) throw invalidAnswer('Its body must be a Uint8Array.')
  return answer
}

/** For stores: the error of a write whose claim is not held under its token. */
export function claimLost({ key }: IdempotencyKey, options: { readonly cause?: unknown } = {}): AckordError {
  return new AckordError(
    'ACKORD_CLAIM_LOST',
    `The request with the idempotency key ${JSON.stringify(key)} no longer has its claim: another request took over when the lease had ended, or the claim was given back or used. Everything was rolled back.`,
    options,
  )
}

/** `store` names the store whose `write()` was called. */
export function writeInsideTransaction(store: string): AckordError {
  return new AckordError(
    'ACKORD_MIDDLEWARE_ORDER',
    `write() of ${store} was called inside of a transaction: its answer would be sent before that one commits. Call it outside.`,
  )
}

function checkPart(option: string, value: string): void {
  checkName(option, value)
  if (value.includes('\0')) throw new InvalidOptionError(option, 'must not contain a NUL character.')
  if (value.length <= maxKeyLength) return
  throw new InvalidOptionError(option, `must have at most ${maxKeyLength} characters; it has ${value.length}.`)
}

function isHeader(header: unknown): boolean {
  return Array.isArray(header) && header.length === 2 && header.every((part) => typeof part === 'string')
}

function invalidAnswer(reason: string): AckordError {
  return new AckordError('ACKORD_INVALID_OUTPUT', `The answer to a request cannot be stored. ${reason}`, { retryable: false })
}
