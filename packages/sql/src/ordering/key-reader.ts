import type {
  InFlightRow,
  KeyLocation,
  KeyRange,
  KeyStatements,
  KeysRead,
  KeysWalked,
  OwnedClaimOptions,
  PendingKey,
} from '../contract/ownership-statements.ts'
import { partitionCount } from '../records/outbox-row.ts'
import { PendingKeys } from './pending-keys.ts'
import { quickSweep, ReadFloor, slowSweep, sweepInterval } from './read-positions.ts'

interface NextKeysOptions extends Pick<OwnedClaimOptions, 'limit' | 'window' | 'partitions' | 'behindParked' | 'keysUpTo'> {
  readonly destinations: readonly string[]
  /** Whether this is the first statement of the claim. */
  readonly first: boolean
  /** Rows whose keys must not be claimed. Those that were claimed with this reader need not be listed. */
  readonly held: readonly InFlightRow[]
}

interface NextKeys {
  readonly keys: readonly PendingKey[]
  /** Whether there are keys at all, as far as is known. */
  readonly any: boolean
  /** Ranges of seqs that were read and have no records without a key. */
  readonly unmixed: readonly { readonly destination: string; readonly after: bigint; readonly to: bigint }[]
}

/** The maximum number of keys that a walk visits per destination and statement, without and with other keys to claim from. */
const maxJumps = 5000
const sweepJumps = 2000

/** Milliseconds per visited key that are not counted as slow. */
const jumpTime = 0.1

/** While there are other keys to claim from, a walk pauses for this multiple of its duration. */
const pauseFactor = 20

const firstKey: KeyLocation = { partition: 0, key: '' }

/** Where the keys of a destination are read. */
class DestinationKeys {
  readonly destination: string
  readonly reading: ReadFloor = new ReadFloor()
  dueAfter = -Infinity
  /** Whether there may be more records to read now. */
  more = true
  #walkAfter = firstKey
  /** The number of partitions per walk. */
  #partitions = partitionCount
  #nextRound: number
  #pausedUntil = -Infinity
  #slowUntil = -Infinity
  #lastTook = 0

  constructor(destination: string, now: number) {
    this.destination = destination
    this.#nextRound = now + sweepInterval
  }

  advance({ last, dueAfter, more }: KeysRead, now: number): void {
    this.reading.read(BigInt(last ?? 0), now)
    this.dueAfter = dueAfter
    this.more = more
  }

  /** `idle`: there is nothing else to do. */
  isWalkDue(now: number, { idle }: { readonly idle: boolean }): boolean {
    if (idle) return now >= this.#slowUntil
    return now >= this.#pausedUntil && (now >= this.#nextRound || this.isWalking)
  }

  /** Whether a round over all keys has begun and is not complete. */
  get isWalking(): boolean {
    return this.#walkAfter !== firstKey
  }

  /** While there are other keys to claim from, a walk need only find records below the floor, which are not read any more. */
  range({ idle }: { readonly idle: boolean }): KeyRange {
    const before = Math.min(partitionCount, this.#walkAfter.partition + this.#partitions)
    return { destination: this.destination, after: this.#walkAfter, before, upTo: idle ? undefined : String(this.reading.floor) }
  }

  walked({ last, visited, more }: KeysWalked, { before }: KeyRange, now: number, took: number): void {
    // Without the jumps, what remains is reading the entries of deleted rows. A single slow statement may have another cause.
    const reading = took - visited * jumpTime
    const slow = Math.min(reading, this.#lastTook) > slowSweep
    this.#lastTook = reading
    this.#pausedUntil = now + took * pauseFactor
    this.#slowUntil = slow ? this.#pausedUntil : -Infinity
    if (reading < quickSweep && this.#partitions < partitionCount) this.#partitions *= 2
    if (slow && this.#partitions > 1) this.#partitions /= 2
    if (more && last !== undefined) this.#walkAfter = last
    else if (before < partitionCount) this.#walkAfter = { partition: before, key: '' }
    else {
      this.#walkAfter = firstKey
      this.#nextRound = now + sweepInterval
    }
  }

  restart(): void {
    this.reading.goBack(0n)
    this.dueAfter = -Infinity
    this.more = true
  }
}

/**
 * Finds the keys to claim from in the order in which their records were stored, from a floor on, as records without a key are read. The walk over all
 * keys, which steps through the index entries of deleted records, is only a sweep: it finds records that were committed late, those that an operator has
 * made ready again, and other keys beside one with many records.
 */
export class KeyReader {
  readonly #statements: KeyStatements
  readonly #monotonic: () => number
  readonly #destinations = new Map<string, DestinationKeys>()
  #behindParked: OwnedClaimOptions['behindParked'] | undefined
  /** The number of keys that the last call returned, and of those among them that had no records to claim. */
  #returned = 0
  #empty = 0
  /** Whether most keys had none, in the current claim. */
  #isLacking = false
  readonly pending: PendingKeys = new PendingKeys()

  constructor(statements: KeyStatements, monotonic: () => number) {
    this.#statements = statements
    this.#monotonic = monotonic
  }

  /** The next keys to claim from. */
  async next(options: NextKeysOptions): Promise<NextKeys> {
    const { destinations, limit, first, behindParked } = options
    // Keys that were skipped because of a parked record may be claimed now.
    if (behindParked !== this.#behindParked) this.restart()
    this.#behindParked = behindParked
    const asked = destinations.map((destination) => this.#of(destination))
    const held = new Set(options.held.map(keyNameOf))
    const count = () => destinations.reduce((sum, destination) => sum + this.pending.countOf(destination), 0)
    const mayRead = asked.length > 0 && count() < limit + held.size && (first || asked.some(({ more }) => more))
    const { found, unmixed } = mayRead ? await this.#read(asked, options) : { found: true, unmixed: [] }
    const now = this.#monotonic()
    // If there are no keys, keys that wait, or many records of few keys, a walk may find others.
    if (first) this.#isLacking = false
    else if (this.#empty > this.#returned / 2) this.#isLacking = true
    const idle = this.#isLacking || count() === 0 || (count() < limit && asked.some(({ more }) => more))
    const due = first || idle ? asked.filter((one) => one.isWalkDue(now, { idle })) : []
    const none = due.length > 0 && (await this.#walk(due, options, { idle })) && due.length === asked.length && !found
    const pending = destinations.filter((destination) => this.pending.countOf(destination) > 0)
    const keys = this.pending.next(pending, limit, (key) => held.size > 0 && held.has(keyNameOf(key)))
    this.#returned = keys.length
    this.#empty = 0
    return { keys, any: !none, unmixed }
  }

  /** None of the records of these keys can be claimed now. */
  empty(keys: readonly PendingKey[]): void {
    this.#empty += keys.length
    for (const key of keys) this.pending.empty(key)
  }

  hasMore(destination: string): boolean {
    return this.pending.countOf(destination) > 0 || this.#of(destination).more
  }

  /** Nothing is in flight any more. */
  clear(): void {
    this.pending.clear()
    this.restart()
  }

  /** There are records that have not been read, or must be read again. */
  restart(): void {
    this.pending.restart()
    for (const one of this.#destinations.values()) one.restart()
  }

  /** `found`: whether there are keys. */
  async #read(
    asked: readonly DestinationKeys[],
    { partitions, window, keysUpTo }: NextKeysOptions,
  ): Promise<Pick<NextKeys, 'unmixed'> & { readonly found: boolean }> {
    const startedAt = this.#monotonic()
    const positions = asked.map(({ destination, reading, dueAfter }) => {
      reading.settle(startedAt)
      return { destination, floor: String(reading.floor), dueAfter }
    })
    const all = await this.#statements.readKeys({ positions, partitions, keysUpTo, limit: window })
    const now = this.#monotonic()
    const unmixed: NextKeys['unmixed'][number][] = []
    for (const [index, one] of asked.entries()) {
      const { [index]: position } = positions
      const { [index]: read } = all
      if (position === undefined || read === undefined) continue
      const { destination } = one
      one.advance(read, now)
      for (const record of read.ready) this.pending.read({ destination, ...record })
      for (const record of read.due) this.pending.found({ destination, ...record }, { isHead: false })
      if (!read.plain && read.last !== undefined) unmixed.push({ destination, after: BigInt(position.floor), to: BigInt(read.last) })
    }
    return { unmixed, found: all.some(({ ready, due }) => ready.length > 0 || due.length > 0) }
  }

  /** Resolves to `true` if the destinations have no keys at all, and that was found out quickly. */
  async #walk(
    due: readonly DestinationKeys[],
    { partitions, behindParked }: NextKeysOptions,
    { idle }: { readonly idle: boolean },
  ): Promise<boolean> {
    const startedAt = this.#monotonic()
    const ranges = due.map((one) => one.range({ idle }))
    const all = await this.#statements.walkKeys({ ranges, partitions, behindParked, jumps: idle ? maxJumps : sweepJumps })
    const now = this.#monotonic()
    const took = now - startedAt
    for (const [index, one] of due.entries()) {
      const { [index]: range } = ranges
      const { [index]: walked } = all
      if (range === undefined || walked === undefined) continue
      one.walked(walked, range, now, took)
      for (const record of walked.keys) this.pending.found({ destination: one.destination, ...record }, { isHead: true })
    }
    const whole = ranges.every(({ after, before }) => after === firstKey && before === partitionCount)
    return whole && took < quickSweep && all.every(({ visited }) => visited === 0)
  }

  #of(destination: string): DestinationKeys {
    let found = this.#destinations.get(destination)
    if (found === undefined) {
      found = new DestinationKeys(destination, this.#monotonic())
      this.#destinations.set(destination, found)
    }
    return found
  }
}

function keyNameOf({ destination, key }: { readonly destination: string; readonly key: string | undefined }): string {
  return JSON.stringify([destination, key])
}
