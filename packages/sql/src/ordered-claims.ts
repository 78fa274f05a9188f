import type { Logger, Runtime } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import { readClaimed } from './claimed-record.ts'
import { compareSeq } from './compare-seq.ts'
import { Discovery } from './discovery.ts'
import type { Row } from './driver.ts'
import { Hand, type Held } from './hand.ts'
import { Lane } from './lane.ts'
import type { OwnedClaimOptions, OwnershipStatements } from './ownership-statements.ts'
import { PartitionMember } from './partition-member.ts'
import { lagSeqs, ReadPositions } from './read-positions.ts'
import { settleOutcomes } from './settle-outcomes.ts'

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
    checkDuration('lease', asked.lease, { min: 1 })
    if (asked.destinations?.length === 0) return []
    return await claiming.run(() => claimNow(asked))
  }

  async function claimNow(asked: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { limit, lease } = asked
    unsettled = []
    giveBack(hand.all.filter(({ until }) => until <= runtime.now()))
    if (member.isDue(lease, hand.partitions)) await keepOrJoin(lease)
    const records: ClaimedRecord[] = []
    const finished = new Set<string>()
    try {
      for (let round = 0; round < mostRounds && records.length < limit; round += 1) {
        const before = member.gains
        const looked = await look({ ...asked, limit: limit - records.length }, finished, { busy: busy && round === 0 })
        records.push(...looked.records)
        // It was silent for too long; or there is something to be had, or to be handed over.
        if (member.isDue(lease, hand.partitions)) await keepOrJoin(lease)
        if (member.gains > before) finished.clear()
        else if (!looked.more) break
      }
    } catch (error) {
      release(records)
      throw error
    }
    busy = records.length === limit
    idle = records.length === 0
    return records.filter((record) => hand.find(record) !== undefined).sort(bySeq)
  }

  /** One statement. `finished` are the destinations of which there is nothing more. */
  async function look(asked: ClaimOptions, finished: Set<string>, load: { readonly busy: boolean }): Promise<Look> {
    const { limit, lease, destinations, except = [], behindParked = 'given' } = asked
    if (member.gains !== seenGains) positions.restart()
    seenGains = member.gains
    const startedAt = runtime.now()
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
    const { status, rows, progress } = answer
    // Meanwhile a renewal may have found out the same.
    if (status === undefined || name !== member.name) {
      if (name === member.name) lose()
      return { records: [], more: false }
    }
    hand.written(note)
    member.observe(status, lease, hand.partitions)
    const now = runtime.now()
    const took = now - startedAt
    if (answer.anyKeys !== undefined) discovery.done(answer.anyKeys, now)
    for (const one of progress) {
      const { destination } = one
      const began = from.find((position) => position.destination === destination)
      const given = progress.length === 1 ? rows : rows.filter((row) => row['destination'] === destination)
      positions.advance(one, began, given, now, took)
      // Without keys it was not looked for any.
      if (one.allKeys && !one.more && discovery.anyKeys === anyKeys) finished.add(destination)
    }
    const records = await read(take(rows, { token: `${name}/${note.number}`, until: startedAt + lease, epochs, note }))
    // What is not known yet is looked for by the next claim, if this one has something.
    const undiscovered = !discover && records.length === 0
    return { records, more: undiscovered || progress.some(({ destination }) => !finished.has(destination)) }
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
    const until = runtime.now() + lease
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
  return {
    seq: String(row['seq']),
    state: String(row['state']),
    destination: String(row['destination']),
    partition,
    epoch: epochs.get(partition) ?? '',
    key: key === null || key === undefined ? undefined : String(key),
    attempts: Number(row['attempts']),
    token,
    until,
  }
}
