import type { Logger } from '@ackord/core'
import { checkDuration } from '@ackord/core/internal'
import { type Claim, type ClaimedRecord, historyLine, type Outcome } from '@ackord/outbox'
import { readMessage } from './outbox-row.ts'
import type { Row } from './row.ts'

/** A claimed row as the relay sees it; `unreadable`: it must be parked. */
export type Claimed = { readonly record: ClaimedRecord } | { readonly unreadable: Outcome }

/** `attempts` includes this one. */
export function readClaimed(row: Row, claim: Claim, attempts: number, logger: Logger): Claimed {
  const { id, token } = claim
  const { message, problem } = readMessage(row)
  if (problem === undefined) {
    const [createdAt, age] = [Number(row['created_at']), Number(row['age'])]
    // Negative if the database's clock was set back since the record was stored.
    return { record: { id, token, destination: String(row['destination']), message, attempts, createdAt, age: Math.max(0, age) } }
  }
  logger.error({ id: row['id'], seq: id }, `An outbox record is parked, because it cannot be read: ${problem}`)
  return { unreadable: { id, token, result: 'parked', error: problem, cause: problem } }
}

export interface Settling<Found> {
  /** Outcomes, each with its row; `undefined` for a token that is not from this store, or no longer valid. */
  readonly locate: (outcomes: readonly Outcome[]) => readonly (Found | undefined)[]
  /** Resolves to the ids whose claim was valid. */
  readonly apply: (found: readonly Found[]) => Promise<ReadonlySet<string>>
}

/** Settles claims, sorted by seq, so that no two callers deadlock. Returns a result for each outcome, in order. */
export async function settleOutcomes<Found>(
  outcomes: readonly Outcome[],
  { locate, apply }: Settling<Found>,
): Promise<readonly ('applied' | 'lost')[]> {
  const deciding = isAscending(outcomes) ? outcomes : firstOfEach(outcomes)
  const found = locate(deciding.map(checked)).filter((one) => one !== undefined)
  if (found.length === 0) return outcomes.map(() => 'lost')
  const applied = await apply(found)
  const counted = deciding === outcomes ? undefined : new Set(deciding)
  return outcomes.map((outcome) => (applied.has(outcome.id) && counted?.has(outcome) !== false ? 'applied' : 'lost'))
}

function isAscending(outcomes: readonly Outcome[]): boolean {
  for (let index = 1; index < outcomes.length; index += 1) {
    if (compareSeq((outcomes[index - 1] as Outcome).id, (outcomes[index] as Outcome).id) >= 0) return false
  }
  return true
}

/** The first outcome of a claim wins; a second one is too late. */
function firstOfEach(outcomes: readonly Outcome[]): readonly Outcome[] {
  const first = new Map<string, Outcome>()
  for (const outcome of outcomes) if (!first.has(outcome.id)) first.set(outcome.id, outcome)
  return [...first.values()].sort((one, other) => compareSeq(one.id, other.id))
}

function checked(outcome: Outcome): Outcome {
  if (outcome.result === 'published') return outcome
  if (outcome.result === 'failed') checkDuration('retryAfter', outcome.retryAfter)
  const { cause } = outcome
  return { ...outcome, error: storable(outcome.error), cause: cause === undefined ? undefined : storableCause(cause) }
}

/** Longer errors are of no use. A text column cannot contain NUL, and databases refuse half of a surrogate pair, or replace it differently. */
export function storable(text: string, maxLength: number = maxErrorLength): string {
  return text.slice(0, maxLength).replaceAll('\0', '\uFFFD').toWellFormed()
}

const maxErrorLength = 10_000

export function storableCause(cause: string): string {
  return storable(cause, maxCauseLength)
}

const maxCauseLength = 200

/** The line of the history for an error, without the time, which the database adds. Well-formed again: it may be cut inside of a surrogate pair. */
export function lineOf(error: string): string {
  return historyLine(error).toWellFormed()
}

/** The outcome of a record that was not published. */
export type FailedOutcome = Exclude<Outcome, { readonly result: 'published' }>

/** Whether these outcomes are settled with cause and history. Not asked for published records. */
export async function settlesFailures(
  outcomes: readonly { readonly outcome: Outcome }[],
  keepsFailures: () => Promise<boolean>,
): Promise<boolean> {
  if (outcomes.every(({ outcome }) => outcome.result === 'published')) return false
  // Settling a record is worth more than the history of its failures.
  return await keepsFailures().catch(() => false)
}

/** The key of a claimed row, and the token that fences it. The key is encoded in the token, because a row cannot be found by seq alone. */
export interface ClaimedRowKey {
  readonly state: string
  readonly destination: string
  readonly seq: string
  readonly token: string
}

export function toToken(lease: string, state: string, destination: string): string {
  return `${lease}/${state}/${destination}`
}

type Lease = Omit<ClaimedRowKey, 'seq'>

/** The row keys of claims, in order; `undefined` for tokens that are not from this store. */
export function toRowKeys(claims: readonly Claim[]): (ClaimedRowKey | undefined)[] {
  // Records that were claimed together have few tokens.
  const leases = new Map<string, Lease | undefined>()
  let last: string | undefined
  let lease: Lease | undefined
  return claims.map(({ id, token }) => {
    if (token !== last) {
      if (!leases.has(token)) leases.set(token, leaseOf(token))
      lease = leases.get(token)
      last = token
    }
    if (lease === undefined || !isSeq(id)) return undefined
    return { state: lease.state, destination: lease.destination, seq: id, token: lease.token }
  })
}

function leaseOf(token: string): Lease | undefined {
  const parts = /^([0-9a-f-]{36})\/(ready|waiting)\/(.+)$/s.exec(token)
  if (parts === null) return undefined
  const [, lease = '', state = '', destination = ''] = parts
  return { state, destination, token: lease }
}

/** Whether an id is valid for this store: a positive number that fits into 63 bits. */
export function isSeq(id: string): boolean {
  return /^[1-9]\d{0,18}$/.test(id) && (id.length < 19 || BigInt(id) < 2n ** 63n)
}

/** The order of rows by their numbers. */
export function bySeq(one: { readonly seq: string }, other: { readonly seq: string }): number {
  return compareSeq(one.seq, other.seq)
}

/** The order of claimed records, whose ids are the numbers of their rows. */
export function byClaimId(one: Claim, other: Claim): number {
  return compareSeq(one.id, other.id)
}

/** Compares numbers as strings, because they may exceed the precision of a JavaScript number. */
export function compareSeq(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
