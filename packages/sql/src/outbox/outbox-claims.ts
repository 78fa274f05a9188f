import type { Logger, Runtime } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import type { ClaimStatements } from '../contract/store-dialect.ts'
import { bytesOf, withContents } from '../records/claim-bytes.ts'
import { byClaimId, type ClaimedRowKey, compareSeq, readClaimed, settleOutcomes, toRowKeys, toToken } from '../records/claimed-record.ts'
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
    // Fair shares prevent one destination from taking all; unused shares go to destinations with more records.
    const spent = maxBytes === undefined ? 0 : bytesOf(rows)
    if (rows.length < limit && spent < (maxBytes ?? Infinity) && mayHaveMore(rows, limit)) {
      const more = { ...asked, limit: limit - rows.length, token, quota: limit, spent }
      // The rows that are leased already are worth more than a full batch: if the claim failed, each of them would lose an attempt.
      rows = [...rows, ...(await statements.claim(more).catch(() => []))]
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
    return records.sort(byClaimId)
  }

  async function renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const rows = rowKeysOf(claims)
    if (rows.length === 0) return claims.map(() => false)
    const held = await statements.renew(rows, lease)
    return toRowKeys(claims).map((row) => row !== undefined && held.has(row.seq))
  }

  async function release(claims: readonly Claim[]): Promise<void> {
    const rows = rowKeysOf(claims)
    if (rows.length > 0) await statements.release(rows)
  }

  async function settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return await settleOutcomes(outcomes, {
      locate: (some) => toRowKeys(some).map((row, index) => row && { ...row, outcome: some[index] as Outcome }),
      apply: (found) => statements.settle(found),
    })
  }

  return { claim, renew, release, settle }
}

/** Whether a destination, or the retries as a whole, reached its share. */
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

function rowKeysOf(claims: readonly Claim[]): readonly ClaimedRowKey[] {
  const rows = toRowKeys(claims).filter((row) => row !== undefined)
  return rows.sort((one, other) => compareSeq(one.seq, other.seq))
}
