import type { Logger, Runtime } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import { Lane } from '../contract/statement-queue.ts'
import type { OwnedClaimOptions, OwnershipStatements } from '../contract/store-dialect.ts'
import { bytesOf, withContents } from '../records/claim-bytes.ts'
import { compareSeq } from '../records/claim-token.ts'
import { readClaimed, settleOutcomes } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { Hand, type Held } from './in-flight-records.ts'
import { PartitionMember } from './partition-membership.ts'
import { Discovery, lagSeqs, ReadPositions } from './read-positions.ts'

export interface OrderedClaimsOptions {
  readonly runtime: Runtime
  readonly logger: Logger
}

export interface OrderedClaims extends Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  leave(): Promise<void>
}

/** How many keys of a destination a statement looks at, and how many statements a claim takes, at most. */
const mostJumps = 2000
const mostRounds = 6

/** For how many members at most a statement reads over what belongs to the others, to find enough of its own. */
const mostOthers = 16

type Note = OwnedClaimOptions['note']

interface Taking {
  readonly token: string
  readonly until: number
  /** Of the partitions, when the statement was sent. */
  readonly epochs: ReadonlyMap<number, string>
  readonly note: Note
}

interface Taken {
  readonly row: Row
  readonly held: Held
}

interface Look {
  readonly records: readonly ClaimedRecord[]
  /** Whether the claim has all the bytes that it may have. */
  readonly cut: boolean
  /** What they take of the claim's bytes. */
  readonly bytes: number
  /** Whether another statement may find more. */
  readonly more: boolean
}

/**
 * The relay's side of a store with order per key. What is in hand and how far was read is kept in memory: a claim changes no row of the outbox.
 * Claims of one store object come one after the other, as each must know what the others gave.
 */
export function orderedClaims(statements: OwnershipStatements, { runtime, logger }: OrderedClaimsOptions): OrderedClaims {
  const member = new PartitionMember(statements, runtime)
  const hand = new Hand()
  const positions = new ReadPositions()
  const claiming = new Lane()
  let seenGains = 0
  const discovery = new Discovery()
  /** What could not be settled: if we leave now, before anybody takes over, it was in hand. */
  let unsettled: readonly Held[] = []
  /** Whether the last claim found all it was asked for, or nothing. */
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
    giveBack(hand.all.filter(({ until }) => until <= runtime.monotonic()))
    if (member.isDue(lease, hand.partitions)) await keepOrJoin(lease)
    const records: ClaimedRecord[] = []
    const finished = new Set<string>()
    let spent = 0
    let full = false
    try {
      for (let round = 0; round < mostRounds && records.length < limit; round += 1) {
        const before = member.gains
        const looked = await look({ ...asked, limit: limit - records.length }, finished, { busy: busy && round === 0, spent })
        records.push(...looked.records)
        spent += looked.bytes
        full = looked.cut
        // It was silent for too long; or there is something to be had, or to be handed over.
        if (member.isDue(lease, hand.partitions)) await keepOrJoin(lease)
        if (full) break
        if (member.gains > before) finished.clear()
        else if (!looked.more) break
      }
    } catch (error) {
      release(records)
      throw error
    }
    busy = full || records.length === limit
    idle = records.length === 0
    return records.filter((record) => hand.find(record) !== undefined).sort(bySeq)
  }

  /** One statement. `finished` are the destinations of which there is nothing more. */
  async function look(asked: ClaimOptions, finished: Set<string>, load: { readonly busy: boolean; readonly spent: number }): Promise<Look> {
    const { limit, maxBytes, maxAttempts = Infinity, lease, destinations, except = [], behindParked = 'given' } = asked
    if (member.gains !== seenGains) positions.restart()
    seenGains = member.gains
    const startedAt = runtime.monotonic()
    const from = positions.now(startedAt, { idle })
    const discover = discovery.isDue(startedAt, load)
    const { anyKeys } = discovery
    const { name, epochs } = member
    const note = hand.nextNote()
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
        window: lagSeqs + limit * Math.min(member.live + 1, mostOthers),
        jumps: anyKeys ? mostJumps : 0,
        inHand: hand.all,
        note,
      })
      .catch((error: unknown) => {
        hand.unknown(note)
        throw error
      })
    const { status, rows, cut, progress } = answer
    // Meanwhile a renewal may have found out the same.
    if (status === undefined || name !== member.name) {
      if (name === member.name) lose()
      return { records: [], cut: false, bytes: 0, more: false }
    }
    const isExhausted = (row: Row) => Number(row['attempts']) >= maxAttempts
    const whole = await withContents(rows, (large) => statements.contents(large), isExhausted).catch((error: unknown) => {
      hand.unknown(note)
      throw error
    })
    hand.written(note)
    member.observe(status, lease, hand.partitions)
    const now = runtime.monotonic()
    const took = now - startedAt
    if (answer.anyKeys !== undefined) discovery.done(answer.anyKeys, now)
    for (const one of progress) {
      const { destination } = one
      const began = from.find((position) => position.destination === destination)
      const given = progress.length === 1 ? rows : rows.filter((row) => row['destination'] === destination)
      positions.advance(one, began, given, { now, took, cut })
      // Without keys it was not looked for any.
      if (!cut && one.allKeys && !one.more && discovery.anyKeys === anyKeys) finished.add(destination)
    }
    const records = await read(take(whole, { token: `${name}/${note.number}`, until: startedAt + lease, epochs, note }))
    // What is not known yet is looked for by the next claim, if this one has something.
    const undiscovered = !discover && records.length === 0
    const bytes = maxBytes === undefined ? 0 : bytesOf(whole)
    return { records, cut, bytes, more: undiscovered || progress.some(({ destination }) => !finished.has(destination)) }
  }

  /** Into the hand, by seq; except for what was handed over meanwhile, or is to be. */
  function take(rows: readonly Row[], options: Taking): readonly Taken[] {
    const taken: Taken[] = []
    for (const row of rows) {
      const held = heldOf(row, options)
      hand.take(held, options.note)
      if (member.givesOf(held.partition, held.epoch)) taken.push({ row, held })
      else giveBack([held])
    }
    return taken.sort((one, other) => compareSeq(one.held.seq, other.held.seq))
  }

  /** What cannot be read is parked. What comes after it in its key goes back: the next claim knows whether it may be given. */
  async function read(taken: readonly Taken[]): Promise<readonly ClaimedRecord[]> {
    const records: ClaimedRecord[] = []
    const unreadable: Outcome[] = []
    const ended = new Set<string>()
    for (const { row, held } of taken) {
      if (ended.size > 0 && ended.has(placeOf(held))) {
        giveBack([held])
        continue
      }
      const claimed = readClaimed(row, { id: held.seq, token: held.token }, held.attempts + 1, logger)
      if ('unreadable' in claimed) {
        unreadable.push(claimed.unreadable)
        ended.add(placeOf(held))
      } else {
        const behind = row['behind']
        records.push(behind === null || behind === undefined ? claimed.record : { ...claimed.record, behind: String(behind) })
      }
    }
    if (unreadable.length > 0) {
      try {
        await settle(unreadable)
      } catch (error) {
        giveBack(taken.map(({ held }) => held))
        throw error
      }
    }
    return records
  }

  async function keepOrJoin(lease: number): Promise<void> {
    if (!(await keep(lease))) await keep(lease)
  }

  async function keep(lease: number): Promise<boolean> {
    const kept = await member.keep(lease, () => hand.partitions)
    if (!kept) hand.clear()
    return kept
  }

  function lose(): void {
    member.lose()
    hand.clear()
  }

  function giveBack(all: readonly Held[]): void {
    for (const held of all) {
      hand.giveBack(held)
      if (held.key === undefined && held.state === 'ready') positions.goBack(held.destination, held.seq)
    }
  }

  async function renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const until = runtime.monotonic() + lease
    // One whose time is over has nothing that could be kept. It begins anew with its next claim.
    if (!member.joined || !(await keep(lease))) return claims.map(() => false)
    return claims.map((one) => {
      const held = hand.find(one)
      if (held !== undefined) held.until = until
      return held !== undefined
    })
  }

  function release(claims: readonly Claim[]): void {
    giveBack(claims.flatMap((one) => hand.find(one) ?? []))
  }

  async function settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return await settleOutcomes(outcomes, {
      place: (some) =>
        some.map((outcome) => {
          const held = hand.find(outcome)
          return held && { held, outcome }
        }),
      async apply(placed) {
        const applied = await statements.settle(member.name, placed)
        for (const { held } of placed) hand.drop(held)
        if (applied.size < placed.length)
          unsettled = [...unsettled, ...placed.map(({ held }) => held).filter(({ seq }) => !applied.has(seq))]
        return applied
      },
    })
  }

  return {
    claim,
    renew,
    release: async (claims) => release(claims),
    settle,
    // What is in hand all the same is counted as if it had been taken from one that died: it may have been published.
    async leave() {
      const inHand = [...hand.all, ...unsettled]
      hand.clear()
      unsettled = []
      await member.leave(inHand)
    },
  }
}

function bySeq(one: Claim, other: Claim): number {
  return compareSeq(one.id, other.id)
}

function placeOf({ seq, destination, key }: Held): string {
  return key === undefined ? seq : JSON.stringify([destination, key])
}

function heldOf(row: Row, { token, until, epochs }: Taking): Held {
  const key = row['ordering_key']
  const partition = Number(row['partition'])
  const place = row['place']
  return {
    seq: String(row['seq']),
    state: String(row['state']),
    destination: String(row['destination']),
    partition,
    epoch: epochs.get(partition) ?? '',
    key: key === null || key === undefined ? undefined : String(key),
    attempts: Number(row['attempts']),
    place: typeof place === 'string' ? place : undefined,
    token,
    until,
  }
}
