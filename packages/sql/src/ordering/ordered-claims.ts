import type { Logger, Runtime } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import type { LogStatements } from '../contract/log-statements.ts'
import type { InFlightRow, KeyStatements, OwnedClaimOptions, OwnedOutcome, OwnershipStatements } from '../contract/ownership-statements.ts'
import { StatementQueue } from '../contract/statement-queue.ts'
import { LogReader, logState } from '../log/log-reader.ts'
import { LogRotation } from '../log/log-rotation.ts'
import { bytesOf, withContents } from '../records/claim-bytes.ts'
import { byClaimId, compareSeq, readClaimed, settleOutcomes } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { type InFlightRecord, InFlightRecords } from './in-flight-records.ts'
import { KeyReader } from './key-reader.ts'
import { PartitionMember } from './partition-membership.ts'
import { Discovery, lagSeqs, ReadPositions } from './read-positions.ts'

export interface OrderedClaimsOptions {
  readonly runtime: Runtime
  readonly logger: Logger
  /** In log mode. */
  readonly log?: LogStatements | undefined
}

export interface OrderedClaims extends Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  leave(): Promise<void>
  ownedPartitions(): readonly number[]
}

/** The maximum number of keys of a destination per statement, and of statements per claim. */
const maxJumps = 2000
const maxRounds = 6

/** Greater than every seq. */
const lastSeq = '9223372036854775807'

/** The maximum number of members for which a statement reads past the rows of other members to find enough of its own. */
const maxOthers = 16

/** In log mode: the number of claims after which the outbox table is read although the log has enough records. */
const maxSinceTable = 4

type ClaimJournalEntry = OwnedClaimOptions['entry']

interface ClaimContext {
  readonly token: string
  readonly until: number
  /** The epochs of the partitions when the statement was sent. */
  readonly epochs: ReadonlyMap<number, string>
  /** Absent for records of the log. */
  readonly entry?: ClaimJournalEntry | undefined
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

interface ReadLoad {
  /** Whether the last claim reached its limit, and this is the first statement of this one. */
  readonly busy: boolean
  readonly first: boolean
  /** Bytes. */
  readonly spent: number
}

/** The records that a claim has found so far. */
interface ClaimState {
  readonly records: ClaimedRecord[]
  /** Bytes. */
  spent: number
  /** Whether it has reached its byte limit. */
  full: boolean
}

function add({ records, bytes, cut }: Omit<ReadResult, 'more'>, claimed: ClaimState): void {
  claimed.records.push(...records)
  claimed.spent += bytes
  claimed.full = cut
}

/**
 * The relay's side of a store with order per key. Records in flight and read positions are kept in memory: a claim changes no row of the outbox.
 * Claims of one store object run one after the other, because each must know the results of the others.
 */
export function orderedClaims(statements: OwnershipStatements, options: OrderedClaimsOptions): OrderedClaims {
  const { runtime, logger } = options
  const log = options.log && logOf(options.log, { runtime, logger })
  const member = new PartitionMember(log === undefined ? statements : endingIn(log, statements), runtime)
  const inFlightRecords = new InFlightRecords()
  const positions = new ReadPositions()
  const keyReader = hasKeyStatements(statements) ? new KeyReader(statements, () => runtime.monotonic()) : undefined
  const claiming = new StatementQueue()
  let seenGeneration = 0
  const discovery = new Discovery()
  /** Records that could not be settled: if the member leaves before a takeover, they count as in flight. */
  let unsettled: readonly InFlightRecord[] = []
  /** Whether the last claim reached its limit, or found nothing. */
  let busy = false
  let idle = false
  /** In log mode: the number of claims since the outbox table was read, and whether it had records. */
  let sinceTable = 0
  let tableHadRecords = false

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
    const claimed: ClaimState = { records: [], spent: 0, full: false }
    try {
      if (log === undefined) await claimFromTable(asked, claimed)
      else await claimFromBoth(log, asked, claimed)
    } catch (error) {
      release(claimed.records)
      throw error
    }
    const { records, full } = claimed
    busy = full || records.length === limit
    idle = records.length === 0
    return records.filter((record) => inFlightRecords.find(record) !== undefined).sort(byClaimId)
  }

  /** Again if partitions were acquired meanwhile. Their log is read before their rows in the table: the earlier records of a key may be there. */
  async function claimFromBoth(ofLog: OpenLog, asked: ClaimOptions, claimed: ClaimState): Promise<void> {
    for (let round = 0; round < maxRounds && claimed.records.length < asked.limit && !claimed.full; round += 1) {
      const { generation } = member
      await ofLog.reader.adopt(member.name, member.epochs)
      if (sinceTable < (tableHadRecords ? 1 : maxSinceTable)) {
        await claimFromLog(ofLog, asked, claimed)
        await claimFromTable(asked, claimed)
      } else {
        await claimFromTable(asked, claimed)
        await claimFromLog(ofLog, asked, claimed)
      }
      if (member.generation === generation) break
    }
  }

  async function claimFromTable(asked: ClaimOptions, claimed: ClaimState): Promise<void> {
    const { limit, lease } = asked
    const { records } = claimed
    const before = records.length
    const finished = new Set<string>()
    for (let round = 0; round < maxRounds && records.length < limit && !claimed.full; round += 1) {
      const { generation } = member
      const load = { busy: busy && round === 0, first: round === 0, spent: claimed.spent }
      const result = await readOnce({ ...asked, limit: limit - records.length }, finished, load)
      add(result, claimed)
      sinceTable = 0
      // The lease must be renewed, or partitions can be acquired or handed over.
      if (member.isDue(lease, inFlightRecords.partitions)) await keepOrJoin(lease)
      if (member.generation > generation && log === undefined) finished.clear()
      else if (!result.more) break
    }
    if (sinceTable === 0) tableHadRecords = records.length > before
  }

  async function claimFromLog(ofLog: OpenLog, asked: ClaimOptions, claimed: ClaimState): Promise<void> {
    const { limit, lease } = asked
    if (claimed.records.length >= limit || claimed.full) return
    const result = await readLog(ofLog, { ...asked, limit: limit - claimed.records.length }, claimed.spent)
    add(result, claimed)
    // Moved records are in the table now.
    sinceTable = result.moved ? maxSinceTable : sinceTable + 1
    if (member.isDue(lease, inFlightRecords.partitions)) await keepOrJoin(lease)
  }

  async function readLog(
    { reader }: OpenLog,
    asked: ClaimOptions,
    spent: number,
  ): Promise<Omit<ReadResult, 'more'> & { readonly moved: boolean }> {
    const { limit, maxBytes, maxAttempts = Infinity, lease, destinations, except = [], behindParked = 'given' } = asked
    const startedAt = runtime.monotonic()
    const { name } = member
    const { status, rows, cut, moved } = await reader.claim({
      member: name,
      limit,
      maxBytes,
      spent,
      destinations,
      except,
      behindParked,
      anyKeys: discovery.anyKeys,
      mayClaimFrom: (partition, epoch) => member.mayClaimFrom(partition, epoch),
    })
    if (name !== member.name || status === 'lost') {
      if (name === member.name) forfeit()
      return { records: [], cut: false, bytes: 0, moved: false }
    }
    const isExhausted = (row: Row) => Number(row['attempts']) >= maxAttempts
    const whole = await withContents(rows, (large) => reader.contents(large.map(({ seq }) => seq)), isExhausted).catch((error: unknown) => {
      for (const row of rows) reader.release({ seq: String(row['seq']), epoch: reader.epochs.get(Number(row['partition'])) ?? '' })
      throw error
    })
    // The lease may have been lost meanwhile.
    if (name !== member.name) return { records: [], cut: false, bytes: 0, moved: false }
    if (status !== undefined) member.observe(status, lease, inFlightRecords.partitions)
    const token = `${name}/log/${runtime.uuid()}`
    const records = await read(take(whole, { token, until: startedAt + lease, epochs: reader.epochs }))
    return { records, cut, bytes: maxBytes === undefined ? 0 : bytesOf(whole), moved }
  }

  /** Runs one statement. `finished` are the destinations that have no more records. */
  async function readOnce(asked: ClaimOptions, finished: Set<string>, load: ReadLoad): Promise<ReadResult> {
    const { limit, maxBytes, maxAttempts = Infinity, lease, destinations, except = [], behindParked = 'given' } = asked
    if (log !== undefined && load.first) {
      // Records that are moved from the log to the outbox table have seqs that may have been passed. The table has few records.
      positions.restart()
      keyReader?.clear()
    } else if (member.generation !== seenGeneration) {
      positions.restart()
      keyReader?.restart()
    }
    seenGeneration = member.generation
    const window = lagSeqs + limit * Math.min(member.live + 1, maxOthers)
    const { keys, skipped } = await nextKeys(asked, { finished, window, ...load })
    const startedAt = runtime.monotonic()
    const from = positions.now(startedAt, { idle })
    const discover = discovery.isDue(startedAt, load)
    const { anyKeys } = discovery
    const { name, epochs } = member
    const partitions = claimedPartitions()
    const entry = inFlightRecords.nextEntry()
    const answer = await statements
      .claim({
        member: name,
        partitions,
        limit,
        maxBytes,
        spent: load.spent,
        destinations,
        except: [...except, ...finished],
        behindParked,
        discover,
        positions: from.map((position) => (skipped.has(position.destination) ? { ...position, floor: lastSeq } : position)),
        window,
        jumps: anyKeys && keyReader === undefined ? maxJumps : 0,
        keys,
        inFlight: inFlightRows(),
        keysUpTo: log?.reader.readUpTo,
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
    keyReader?.empty(answer.emptyKeys ?? [])
    for (const one of progress) {
      const { destination } = one
      const began = from.find((position) => position.destination === destination)
      const given = progress.length === 1 ? rows : rows.filter((row) => row['destination'] === destination)
      positions.advance(one, began, given, { now, took, cut })
    }
    const records = await read(take(whole, { token: `${name}/${entry.number}`, until: startedAt + lease, epochs, entry }))
    for (const { destination, allKeys, more } of progress) {
      const moreKeys = !allKeys || (keys !== undefined && keyReader?.hasMore(destination) === true)
      // Without keys, the statement did not look for any.
      if (!cut && !moreKeys && !more && discovery.anyKeys === anyKeys) finished.add(destination)
    }
    // New destinations are discovered by the next claim, if this one found records.
    const undiscovered = !discover && records.length === 0
    const bytes = maxBytes === undefined ? 0 : bytesOf(whole)
    return { records, cut, bytes, more: undiscovered || progress.some(({ destination }) => !finished.has(destination)) }
  }

  /** Where the store reads keys: those to claim from, unless there are none at all. `skipped`: destinations that now have only records with a key. */
  async function nextKeys(
    { limit, destinations, except = [], behindParked = 'given' }: ClaimOptions,
    { finished, window, first }: Omit<ReadLoad, 'busy'> & { readonly finished: ReadonlySet<string>; readonly window: number },
  ): Promise<{ readonly keys: OwnedClaimOptions['keys']; readonly skipped: ReadonlySet<string> }> {
    if (keyReader === undefined || !discovery.anyKeys) return { keys: undefined, skipped: new Set() }
    const { keys, any, unmixed } = await keyReader.next({
      destinations: (destinations ?? positions.destinations).filter((one) => !except.includes(one) && !finished.has(one)),
      partitions: claimedPartitions(),
      limit,
      window,
      behindParked,
      keysUpTo: log?.reader.readUpTo,
      held: log === undefined ? [] : inFlightRows(),
      first,
    })
    if (!any) discovery.noKeys()
    const skipped = unmixed.filter((range) => positions.skip(range, runtime.monotonic()))
    return { keys: any ? keys : undefined, skipped: new Set(skipped.map(({ destination }) => destination)) }
  }

  /** The partitions whose rows in the table are claimed. In log mode, only those whose log is read: it may have earlier records of the same keys. */
  function claimedPartitions(): readonly number[] {
    if (log === undefined) return member.partitions
    const { epochs } = log.reader
    return member.partitions.filter((partition) => epochs.get(partition) === member.epochs.get(partition))
  }

  function inFlightRows(): OwnedClaimOptions['inFlight'] {
    if (log === undefined) return inFlightRecords.all
    // Of the records of the log, only the keys matter.
    return [...inFlightRecords.all.filter(({ state, key }) => state !== logState || key !== undefined), ...log.reader.waiting]
  }

  /** Registers the rows as in flight, by seq, except for partitions that were handed over meanwhile or are draining. */
  function take(rows: readonly Row[], options: ClaimContext): readonly TakenRow[] {
    const taken: TakenRow[] = []
    for (const row of rows) {
      const held = inFlightRecordOf(row, options)
      inFlightRecords.add(held, options.entry)
      if (isKeyed(held)) keyReader?.pending.claimed(held, { behind: (row['behind'] ?? undefined) !== undefined })
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

  /** By a claim only: in log mode nothing may change the partitions while a claim reads them, except that all of them are lost. */
  async function keepOrJoin(lease: number): Promise<void> {
    if (!(await keep(lease, { handsOver: true }))) await keep(lease, { handsOver: true })
  }

  async function keep(lease: number, { handsOver }: { readonly handsOver: boolean }): Promise<boolean> {
    const kept = await member.keep(lease, () => inFlightRecords.partitions, { handsOver })
    if (!kept) forget()
    return kept
  }

  function forfeit(): void {
    member.forfeit()
    forget()
  }

  function forget(): void {
    inFlightRecords.clear()
    keyReader?.clear()
    log?.restart()
  }

  function returnUnsettled(all: readonly InFlightRecord[]): void {
    for (const held of all) {
      if (inFlightRecords.release(held) && isKeyed(held)) keyReader?.pending.settled(held, undefined)
      if (held.state === logState) log?.reader.release(held)
      else if (held.key === undefined && held.state === 'ready') positions.goBack(held.destination, held.seq)
    }
  }

  async function renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const until = runtime.monotonic() + lease
    // A member whose lease has expired has nothing to renew. It joins again with its next claim.
    if (!member.joined || !(await keep(lease, { handsOver: log === undefined }))) return claims.map(() => false)
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
        const applied = await settleRows(found)
        for (const { row, outcome } of found) {
          if (inFlightRecords.drop(row) && isKeyed(row)) keyReader?.pending.settled(row, applied.has(row.seq) ? outcome.result : undefined)
        }
        if (applied.size < found.length) unsettled = [...unsettled, ...found.map(({ row }) => row).filter(({ seq }) => !applied.has(seq))]
        return applied
      },
    })
  }

  async function settleRows(found: readonly OwnedOutcome[]): Promise<ReadonlySet<string>> {
    const ofLog = log === undefined ? [] : found.filter(({ row }) => row.state === logState)
    if (ofLog.length === 0) return await statements.settle(member.name, found)
    const inLog = log?.reader.settle(member.name, ofLog) ?? []
    if (ofLog.length === found.length) return new Set(await inLog)
    const inTable = statements.settle(
      member.name,
      found.filter(({ row }) => row.state !== logState),
    )
    return new Set((await Promise.all([inLog, inTable])).flatMap((applied) => [...applied]))
  }

  return {
    claim,
    renew,
    release: async (claims) => release(claims),
    settle,
    ownedPartitions: () => [...member.epochs.keys()],
    // Records that are still in flight are counted as if their relay had died: they may have been published.
    async leave() {
      if (log === undefined) return await leaveNow()
      // After a claim that is under way.
      await claiming.run(leaveNow)
      await log.rotation.end()
    },
  }

  async function leaveNow(): Promise<void> {
    const inFlight = [...inFlightRecords.all, ...unsettled]
    inFlightRecords.clear()
    keyReader?.clear()
    unsettled = []
    await member.leave(inFlight)
    log?.restart()
  }
}

interface OpenLog {
  /** Of the current membership. */
  readonly reader: LogReader
  readonly rotation: LogRotation
  /** The member owns nothing any more. */
  restart(): void
}

function logOf(statements: LogStatements, { runtime, logger }: Pick<OrderedClaimsOptions, 'runtime' | 'logger'>): OpenLog {
  const rotation = new LogRotation(statements, { runtime, logger })
  const open = () => new LogReader(statements, { runtime, logger, rotation })
  let reader = open()
  return {
    get reader() {
      return reader
    },
    rotation,
    restart() {
      reader = open()
    },
  }
}

/** The log ends what it reads of partitions before they change their owner. */
function endingIn(log: OpenLog, statements: OwnershipStatements): Pick<OwnershipStatements, 'keep' | 'leave'> {
  return {
    async keep(options) {
      if (options.handOver.length > 0) await log.reader.handOver(options.member, options.handOver)
      return await statements.keep(options)
    },
    async leave(member, inFlight) {
      await log.reader.end(member)
      await statements.leave(member, inFlight)
    },
  }
}

function hasKeyStatements(statements: OwnershipStatements): statements is OwnershipStatements & KeyStatements {
  return statements.readKeys !== undefined && statements.walkKeys !== undefined
}

/** Whether this is a row of the outbox table with a key. */
function isKeyed<Held extends InFlightRow>(row: Held): row is Held & { readonly key: string } {
  return row.key !== undefined && row.state !== logState
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
