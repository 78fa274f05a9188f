import type { Logger, Runtime } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import { StatementQueue } from '../contract/statement-queue.ts'
import type { OwnedClaimOptions, OwnershipStatements } from '../contract/store-dialect.ts'
import { bytesOf, withContents } from '../records/claim-bytes.ts'
import { compareSeq, readClaimed, settleOutcomes } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { type InFlightRecord, InFlightRecords } from './in-flight-records.ts'
import { PartitionMember } from './partition-membership.ts'
import { Discovery, lagSeqs, ReadPositions } from './read-positions.ts'

export interface OrderedClaimsOptions {
  readonly runtime: Runtime
  readonly logger: Logger
}

export interface OrderedClaims extends Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  leave(): Promise<void>
  ownedPartitions(): number
}

/** The maximum number of keys of a destination per statement, and of statements per claim. */
const maxJumps = 2000
const maxRounds = 6

/** The maximum number of members for which a statement reads past the rows of other members to find enough of its own. */
const maxOthers = 16

type ClaimJournalEntry = OwnedClaimOptions['entry']

interface ClaimContext {
  readonly token: string
  readonly until: number
  /** The epochs of the partitions when the statement was sent. */
  readonly epochs: ReadonlyMap<number, string>
  readonly entry: ClaimJournalEntry
}

interface TakenRow {
  readonly row: Row
  readonly held: InFlightRecord
}

interface ReadResult {
  readonly records: readonly ClaimedRecord[]
  /** Whether the claim has reached its byte limit. */
  readonly cut: boolean
  /** The bytes of these records. */
  readonly bytes: number
  /** Whether another statement may find more. */
  readonly more: boolean
}

/**
 * The relay's side of a store with order per key. Records in flight and read positions are kept in memory: a claim changes no row of the outbox.
 * Claims of one store object run one after the other, because each must know the results of the others.
 */
export function orderedClaims(statements: OwnershipStatements, { runtime, logger }: OrderedClaimsOptions): OrderedClaims {
  const member = new PartitionMember(statements, runtime)
  const inFlightRecords = new InFlightRecords()
  const positions = new ReadPositions()
  const claiming = new StatementQueue()
  let seenGeneration = 0
  const discovery = new Discovery()
  /** Records that could not be settled: if the member leaves before a takeover, they count as in flight. */
  let unsettled: readonly InFlightRecord[] = []
  /** Whether the last claim reached its limit, or found nothing. */
  let busy = false
  let idle = false

  async function claim(asked: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    checkCount('limit', asked.limit)
    if (asked.maxBytes !== undefined) checkCount('maxBytes', asked.maxBytes)
    checkDuration('lease', asked.lease, { min: 1 })
    if (asked.destinations?.length === 0) return []
    return await claiming.run(() => claimNow(asked))
  }

  async function claimNow(asked: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { limit, lease } = asked
    unsettled = []
    returnUnsettled(inFlightRecords.all.filter(({ until }) => until <= runtime.monotonic()))
    if (member.isDue(lease, inFlightRecords.partitions)) await keepOrJoin(lease)
    const records: ClaimedRecord[] = []
    const finished = new Set<string>()
    let spent = 0
    let full = false
    try {
      for (let round = 0; round < maxRounds && records.length < limit; round += 1) {
        const before = member.generation
        const result = await readOnce({ ...asked, limit: limit - records.length }, finished, { busy: busy && round === 0, spent })
        records.push(...result.records)
        spent += result.bytes
        full = result.cut
        // The lease must be renewed, or partitions can be acquired or handed over.
        if (member.isDue(lease, inFlightRecords.partitions)) await keepOrJoin(lease)
        if (full) break
        if (member.generation > before) finished.clear()
        else if (!result.more) break
      }
    } catch (error) {
      release(records)
      throw error
    }
    busy = full || records.length === limit
    idle = records.length === 0
    return records.filter((record) => inFlightRecords.find(record) !== undefined).sort(bySeq)
  }

  /** Runs one statement. `finished` are the destinations that have no more records. */
  async function readOnce(
    asked: ClaimOptions,
    finished: Set<string>,
    load: { readonly busy: boolean; readonly spent: number },
  ): Promise<ReadResult> {
    const { limit, maxBytes, maxAttempts = Infinity, lease, destinations, except = [], behindParked = 'given' } = asked
    if (member.generation !== seenGeneration) positions.restart()
    seenGeneration = member.generation
    const startedAt = runtime.monotonic()
    const from = positions.now(startedAt, { idle })
    const discover = discovery.isDue(startedAt, load)
    const { anyKeys } = discovery
    const { name, epochs } = member
    const entry = inFlightRecords.nextEntry()
    const answer = await statements
      .claim({
        member: name,
        partitions: member.partitions,
        limit,
        maxBytes,
        spent: load.spent,
        destinations,
        except: [...except, ...finished],
        behindParked,
        discover,
        positions: from,
        window: lagSeqs + limit * Math.min(member.live + 1, maxOthers),
        jumps: anyKeys ? maxJumps : 0,
        inFlight: inFlightRecords.all,
        entry,
      })
      .catch((error: unknown) => {
        inFlightRecords.unknown(entry)
        throw error
      })
    const { status, rows, cut, progress } = answer
    // A concurrent renewal may have found the same.
    if (status === undefined || name !== member.name) {
      if (name === member.name) forfeit()
      return { records: [], cut: false, bytes: 0, more: false }
    }
    const isExhausted = (row: Row) => Number(row['attempts']) >= maxAttempts
    const whole = await withContents(rows, (large) => statements.contents(large), isExhausted).catch((error: unknown) => {
      inFlightRecords.unknown(entry)
      throw error
    })
    inFlightRecords.written(entry)
    member.observe(status, lease, inFlightRecords.partitions)
    const now = runtime.monotonic()
    const took = now - startedAt
    if (answer.anyKeys !== undefined) discovery.done(answer.anyKeys, now)
    for (const one of progress) {
      const { destination } = one
      const began = from.find((position) => position.destination === destination)
      const given = progress.length === 1 ? rows : rows.filter((row) => row['destination'] === destination)
      positions.advance(one, began, given, { now, took, cut })
      // Without keys, the statement did not look for any.
      if (!cut && one.allKeys && !one.more && discovery.anyKeys === anyKeys) finished.add(destination)
    }
    const records = await read(take(whole, { token: `${name}/${entry.number}`, until: startedAt + lease, epochs, entry }))
    // New destinations are discovered by the next claim, if this one found records.
    const undiscovered = !discover && records.length === 0
    const bytes = maxBytes === undefined ? 0 : bytesOf(whole)
    return { records, cut, bytes, more: undiscovered || progress.some(({ destination }) => !finished.has(destination)) }
  }

  /** Registers the rows as in flight, by seq, except for partitions that were handed over meanwhile or are draining. */
  function take(rows: readonly Row[], options: ClaimContext): readonly TakenRow[] {
    const taken: TakenRow[] = []
    for (const row of rows) {
      const held = inFlightRecordOf(row, options)
      inFlightRecords.add(held, options.entry)
      if (member.mayClaimFrom(held.partition, held.epoch)) taken.push({ row, held })
      else returnUnsettled([held])
    }
    return taken.sort((one, other) => compareSeq(one.held.seq, other.held.seq))
  }

  /** Parks unreadable records. Later records of the same key are released: the next claim decides whether they may be claimed. */
  async function read(taken: readonly TakenRow[]): Promise<readonly ClaimedRecord[]> {
    const records: ClaimedRecord[] = []
    const unreadable: Outcome[] = []
    const ended = new Set<string>()
    for (const { row, held } of taken) {
      if (ended.size > 0 && ended.has(keyNameOf(held))) {
        returnUnsettled([held])
        continue
      }
      const claimed = readClaimed(row, { id: held.seq, token: held.token }, held.attempts + 1, logger)
      if ('unreadable' in claimed) {
        unreadable.push(claimed.unreadable)
        ended.add(keyNameOf(held))
      } else {
        const behind = row['behind']
        records.push(behind === null || behind === undefined ? claimed.record : { ...claimed.record, behind: String(behind) })
      }
    }
    if (unreadable.length > 0) {
      try {
        await settle(unreadable)
      } catch (error) {
        returnUnsettled(taken.map(({ held }) => held))
        throw error
      }
    }
    return records
  }

  async function keepOrJoin(lease: number): Promise<void> {
    if (!(await keep(lease))) await keep(lease)
  }

  async function keep(lease: number): Promise<boolean> {
    const kept = await member.keep(lease, () => inFlightRecords.partitions)
    if (!kept) inFlightRecords.clear()
    return kept
  }

  function forfeit(): void {
    member.forfeit()
    inFlightRecords.clear()
  }

  function returnUnsettled(all: readonly InFlightRecord[]): void {
    for (const held of all) {
      inFlightRecords.release(held)
      if (held.key === undefined && held.state === 'ready') positions.goBack(held.destination, held.seq)
    }
  }

  async function renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const until = runtime.monotonic() + lease
    // A member whose lease has expired has nothing to renew. It joins again with its next claim.
    if (!member.joined || !(await keep(lease))) return claims.map(() => false)
    return claims.map((one) => {
      const held = inFlightRecords.find(one)
      if (held !== undefined) held.until = until
      return held !== undefined
    })
  }

  function release(claims: readonly Claim[]): void {
    returnUnsettled(claims.flatMap((one) => inFlightRecords.find(one) ?? []))
  }

  async function settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return await settleOutcomes(outcomes, {
      locate: (some) =>
        some.map((outcome) => {
          const held = inFlightRecords.find(outcome)
          return held && { row: held, outcome }
        }),
      async apply(found) {
        const applied = await statements.settle(member.name, found)
        for (const { row } of found) inFlightRecords.drop(row)
        if (applied.size < found.length) unsettled = [...unsettled, ...found.map(({ row }) => row).filter(({ seq }) => !applied.has(seq))]
        return applied
      },
    })
  }

  return {
    claim,
    renew,
    release: async (claims) => release(claims),
    settle,
    ownedPartitions: () => member.epochs.size,
    // Records that are still in flight are counted as if their relay had died: they may have been published.
    async leave() {
      const inFlight = [...inFlightRecords.all, ...unsettled]
      inFlightRecords.clear()
      unsettled = []
      await member.leave(inFlight)
    },
  }
}

function bySeq(one: Claim, other: Claim): number {
  return compareSeq(one.id, other.id)
}

function keyNameOf({ seq, destination, key }: InFlightRecord): string {
  return key === undefined ? seq : JSON.stringify([destination, key])
}

function inFlightRecordOf(row: Row, { token, until, epochs }: ClaimContext): InFlightRecord {
  const key = row['ordering_key']
  const partition = Number(row['partition'])
  const location = row['location']
  return {
    seq: String(row['seq']),
    state: String(row['state']),
    destination: String(row['destination']),
    partition,
    epoch: epochs.get(partition) ?? '',
    key: key === null || key === undefined ? undefined : String(key),
    attempts: Number(row['attempts']),
    location: typeof location === 'string' ? location : undefined,
    token,
    until,
  }
}
