import type { Logger, Runtime } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import type { ClaimStatements } from '../contract/store-dialect.ts'
import { bytesOf, withContents } from '../records/claim-bytes.ts'
import { type ClaimedPlace, compareSeq, toPlaces, toToken } from '../records/claim-token.ts'
import { readClaimed, settleOutcomes } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'

export interface OutboxClaimsOptions {
  readonly runtime: Runtime
  readonly logger: Logger
}

/** The relay's side of the store. */
export function outboxClaims(
  statements: ClaimStatements,
  { runtime, logger }: OutboxClaimsOptions,
): Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  async function claim(asked: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { limit, maxBytes, lease, destinations } = asked
    checkCount('limit', limit)
    if (maxBytes !== undefined) checkCount('maxBytes', maxBytes)
    checkDuration('lease', lease, { min: 1 })
    if (destinations?.length === 0) return []
    const token = runtime.uuid()
    let rows = await statements.claim({ ...asked, token, quota: undefined, spent: 0 })
    // Shares keep one destination from taking all; what the others leave over is for whoever has more.
    const spent = maxBytes === undefined ? 0 : bytesOf(rows)
    if (rows.length < limit && spent < (maxBytes ?? Infinity) && mayHaveMore(rows, limit)) {
      rows = [...rows, ...(await statements.claim({ ...asked, limit: limit - rows.length, token, quota: limit, spent }))]
    }

    const records: ClaimedRecord[] = []
    const unreadable: Outcome[] = []
    const { maxAttempts = Infinity } = asked
    const isExhausted = (row: Row) => Number(row['attempts']) > maxAttempts
    for (const row of await withContents(rows, (large) => statements.contents(large), isExhausted)) {
      const held = { id: String(row['seq']), token: toToken(token, String(row['state']), String(row['destination'])) }
      const claimed = readClaimed(row, held, Number(row['attempts']), logger)
      if ('record' in claimed) records.push(claimed.record)
      else unreadable.push(claimed.unreadable)
    }
    if (unreadable.length > 0) await settle(unreadable)
    return records.sort(bySeq)
  }

  async function renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const places = placesOf(claims)
    if (places.length === 0) return claims.map(() => false)
    const held = await statements.renew(places, lease)
    return toPlaces(claims).map((place) => place !== undefined && held.has(place.seq))
  }

  async function release(claims: readonly Claim[]): Promise<void> {
    const places = placesOf(claims)
    if (places.length > 0) await statements.release(places)
  }

  async function settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return await settleOutcomes(outcomes, {
      place: (some) => toPlaces(some).map((place, index) => place && { ...place, outcome: some[index] as Outcome }),
      apply: (placed) => statements.settle(placed),
    })
  }

  return { claim, renew, release, settle }
}

/** Whether some destination, or the retries as a whole, got all they were allowed. */
function mayHaveMore(rows: readonly Row[], limit: number): boolean {
  const counts = new Map<string, number>()
  for (const { state, destination } of rows) {
    for (const group of [`${state}`, `${state}/${destination}`]) counts.set(group, (counts.get(group) ?? 0) + 1)
  }
  const quota = Number(rows[0]?.['quota'] ?? Infinity)
  if ((counts.get('waiting') ?? 0) >= Math.ceil(limit / 2)) return true
  counts.delete('waiting')
  counts.delete('ready')
  return [...counts.values()].some((count) => count >= quota)
}

function placesOf(claims: readonly Claim[]): readonly ClaimedPlace[] {
  const places = toPlaces(claims).filter((place) => place !== undefined)
  return places.sort((one, other) => compareSeq(one.seq, other.seq))
}

function bySeq(one: Claim, other: Claim): number {
  return compareSeq(one.id, other.id)
}
