import { AckordError, type Runtime } from '@ackord/core'
import { groupBy } from '@ackord/core/internal'
import type { OnExhausted } from '../options/key-order.ts'
import type { ClaimedRecord } from '../store/outbox-store.ts'
import type { Lease } from './lease-keeper.ts'
import { parked, type Verdict } from './outcomes.ts'

export interface PublishInOrderOptions {
  readonly onExhausted: OnExhausted
  readonly runtime: Runtime
  readonly lease: Lease<ClaimedRecord>
  readonly stopping: AbortSignal
  /** Sends records that may be in flight concurrently. Records that are not among the verdicts have no result. */
  readonly publish: (records: readonly ClaimedRecord[]) => Promise<readonly Verdict[]>
}

/** Milliseconds. */
const maxTurn = 1000

/**
 * Publishes claimed runs wave by wave: the first record of every run together with all records without a key, then the second, and so on. A confirmed
 * record is followed by the next immediately, settled or not: if the settle never happens, both are published again, in their order. Any other result
 * ends the run; the records behind it have no verdict and are released.
 *
 * The batch is settled as a whole, so it must be short: after a second no new wave begins and the rest is released, too. A long run on a slow broker
 * would otherwise delay the other keys, and be duplicated completely if the process dies.
 */
export async function publishInOrder(records: readonly ClaimedRecord[], options: PublishInOrderOptions): Promise<readonly Verdict[]> {
  const { onExhausted, runtime, lease, stopping, publish } = options
  const end = runtime.monotonic() + maxTurn
  const verdicts: Verdict[] = []
  const plain: ClaimedRecord[] = []
  const keyed: ClaimedRecord[] = []
  for (const record of records) {
    if (record.behind !== undefined) verdicts.push(waitsBehind(record, record.behind))
    else if (record.message.attributes.partitionkey !== undefined) keyed.push(record)
    else if (lease.holds(record)) plain.push(record)
  }
  // A lost claim ends its run, here as below.
  let runs = runsOf(keyed).filter(([first]) => lease.holds(first))
  let wave = [...firstOf(runs), ...plain]
  while (wave.length > 0) {
    const published = await publish(wave)
    verdicts.push(...published)
    if (runs.length === 0) break
    const verdictOf = new Map(published.map((verdict) => [verdict.record, verdict]))
    if (onExhausted === 'parkKey') verdicts.push(...runs.flatMap(([first, ...rest]) => parkedBehind(verdictOf.get(first), rest)))
    // A relay that may have lost its partitions sends nothing more: the new owner does.
    if (stopping.aborted || lease.expired || runtime.monotonic() >= end) break
    runs = runs
      .filter(([first]) => verdictOf.get(first)?.outcome.result === 'published')
      .map(([, ...rest]) => rest)
      .filter((rest): rest is ClaimedRun => rest[0] !== undefined && lease.holds(rest[0]))
    wave = firstOf(runs)
  }
  return verdicts
}

function firstOf(runs: readonly ClaimedRun[]): ClaimedRecord[] {
  return runs.map(([first]) => first)
}

function parkedBehind(verdict: Verdict | undefined, behind: readonly ClaimedRecord[]): Verdict[] {
  if (verdict?.outcome.result !== 'parked') return []
  return behind.map((record) => waitsBehind(record, verdict.record.id))
}

function waitsBehind(record: ClaimedRecord, id: string): Verdict {
  const text = `The record was not published: record ${id}, which comes before it in its key, is parked. Re-arm that record and those behind it.`
  const error = new AckordError('ACKORD_PUBLISH_FAILED', text, { retryable: false })
  return { record, outcome: parked(record, error), error, reason: 'behind' }
}

/** Records of one destination and ordering key, in their order. */
export type ClaimedRun = [first: ClaimedRecord, ...rest: ClaimedRecord[]]

/** A record without a key is a run of its own. */
export function runsOf(records: readonly ClaimedRecord[]): ClaimedRun[] {
  return groupBy(records, queueKeyOf).map(([, run]) => run)
}

function queueKeyOf({ destination, message, id }: ClaimedRecord): string {
  const { partitionkey } = message.attributes
  return partitionkey === undefined ? id : `${destination.length} ${destination}${partitionkey}`
}
