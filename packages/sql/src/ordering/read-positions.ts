import type { KeyLocation, ReadPosition, ReadProgress } from '../contract/ownership-statements.ts'
import { compareSeq } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'

/** How far the floor lags behind the rows that were read: by this many milliseconds, and at most this many seqs. */
const lagTime = 1000
export const lagSeqs = 1000

/** Milliseconds between two sweeps, and the durations above and below which the size of a sweep is halved or doubled. */
export const sweepInterval = 3000
export const slowSweep = 50
export const quickSweep = 10
const smallestSweep = 1000n
const largestSweep = 2n ** 40n

/** Marks closer together than this are merged. */
const markInterval = 50

/** The seq after which rows are read. It lags behind the rows that were read. */
export class ReadFloor {
  #highest = 0n
  /** The highest seq that was read long enough ago. */
  #settled = 0n
  #marks: { readonly at: number; readonly seq: bigint }[] = []

  get floor(): bigint {
    return highest([this.#highest - BigInt(lagSeqs), this.#settled])
  }

  read(seq: bigint, now: number): void {
    if (seq <= this.#highest) return
    this.#highest = seq
    const last = this.#marks.at(-1)
    if (last === undefined || now - last.at >= markInterval) this.#marks.push({ at: now, seq })
  }

  /** Advances the settled mark to `now`. */
  settle(now: number): void {
    while (this.#marks[0] !== undefined && now - this.#marks[0].at >= lagTime) {
      const { seq } = this.#marks[0]
      this.#marks.shift()
      if (seq > this.#settled) this.#settled = seq
    }
  }

  /** The rows after this seq must be read again. */
  goBack(to: bigint): void {
    if (this.#highest > to) this.#highest = to
    if (this.#settled > to) this.#settled = to
    this.#marks = this.#marks.filter(({ seq }) => seq <= to)
  }
}

/**
 * Where reading of a destination continues. Kept in memory: the database need not scan records that were published long ago, whose rows may still
 * exist while a transaction holds an old snapshot.
 *
 * Transactions do not commit in the order of their seqs. So the floor lags behind the rows that were read, and a record committed a few milliseconds
 * late is found by the next claim; a sweep searches below the floor, range by range, for later ones.
 */
class DestinationPosition {
  key: KeyLocation | undefined
  readonly reading: ReadFloor = new ReadFloor()
  #swept = 0n
  #sweepSize = 100_000n
  #nextSweep = 0

  /** The range below the floor to read now. */
  sweep(now: number, idle: boolean): readonly [bigint, bigint] {
    const { floor } = this.reading
    if (this.#swept >= floor || (now < this.#nextSweep && !idle)) return [0n, 0n]
    if (this.#swept + this.#sweepSize >= floor) return [this.#swept, floor]
    return [this.#swept, this.#swept + this.#sweepSize]
  }

  /** The sweep reached this seq in `took` milliseconds. It is complete when it reaches the floor at the time of the request. */
  sweptTo(seq: bigint, floor: bigint, now: number, took: number): void {
    if (took < quickSweep && this.#sweepSize < largestSweep) this.#sweepSize *= 2n
    if (took > slowSweep && this.#sweepSize > smallestSweep) this.#sweepSize /= 2n
    this.#swept = seq
    if (seq < floor) return
    this.#swept = 0n
    this.#nextSweep = now + sweepInterval
  }
}

export class ReadPositions {
  readonly #positions = new Map<string, DestinationPosition>()

  get destinations(): readonly string[] {
    return [...this.#positions.keys()]
  }

  /** `idle`: the last claim found nothing, so there is time to sweep. */
  now(now: number, { idle }: { readonly idle: boolean }): readonly ReadPosition[] {
    return [...this.#positions].map(([destination, position]) => {
      position.reading.settle(now)
      const [after, to] = position.sweep(now, idle)
      return { destination, floor: String(position.reading.floor), sweep: [String(after), String(to)], key: position.key }
    })
  }

  /** This range has no records without a key. Returns `true` if nothing before it must be read, either. */
  skip({ destination, after, to }: { readonly destination: string; readonly after: bigint; readonly to: bigint }, now: number): boolean {
    const position = this.#positions.get(destination)
    if (position === undefined || position.reading.floor < after) return false
    position.reading.read(to, now)
    return true
  }

  /**
   * `asked` is where reading of this destination started, and `rows` are the rows it returned, in `took` milliseconds. `cut`: more was found than the
   * byte limit allowed.
   */
  advance(
    progress: ReadProgress,
    asked: ReadPosition | undefined,
    rows: readonly Row[],
    { now, took, cut }: { readonly now: number; readonly took: number; readonly cut: boolean },
  ): void {
    const position = this.#of(progress.destination)
    const floor = BigInt(asked?.floor ?? 0)
    const { fresh, swept, counts } = plainOf(rows, String(floor))
    position.reading.read(BigInt(counts.fresh < progress.matches ? fresh : (progress.read ?? 0)), now)
    position.key = lastKey(progress, rows) ?? position.key
    const [after, to] = (asked?.sweep ?? ['0', '0']).map(BigInt)
    // Rows that were found and not returned are found by the next range.
    if (cut && counts.swept === 0) return
    if (after !== to) position.sweptTo(counts.swept > 0 ? BigInt(swept) : (to ?? 0n), floor, now, took)
  }

  /** A record without a key was released. */
  goBack(destination: string, seq: string): void {
    this.#positions.get(destination)?.reading.goBack(BigInt(seq) - 1n)
  }

  /** There are new partitions that have not been read. */
  restart(): void {
    for (const position of this.#positions.values()) position.reading.goBack(0n)
  }

  #of(destination: string): DestinationPosition {
    let position = this.#positions.get(destination)
    if (position === undefined) {
      position = new DestinationPosition()
      this.#positions.set(destination, position)
    }
    return position
  }
}

/** Keys that were skipped because the limit was reached come first the next time. */
function lastKey({ heads, key }: ReadProgress, rows: readonly Row[]): KeyLocation | undefined {
  const keyed = rows.filter(hasKey)
  if (new Set(keyed.map((row) => row['turn'])).size >= heads) return key
  const last = keyed.reduce<Row | undefined>((one, row) => (Number(row['turn']) > Number(one?.['turn'] ?? 0) ? row : one), undefined)
  return last && { partition: Number(last['partition']), key: String(last['ordering_key']) }
}

function hasKey(row: Row): boolean {
  return row['turn'] !== null && row['turn'] !== undefined
}

/**
 * The highest seqs, above the floor and up to it, of rows without a key that have not failed. Compared as strings, because there are hundreds of
 * them.
 */
function plainOf(rows: readonly Row[], floor: string): { fresh: string; swept: string; counts: { fresh: number; swept: number } } {
  const highest = { fresh: '0', swept: '0', counts: { fresh: 0, swept: 0 } }
  for (const row of rows) {
    if (hasKey(row) || row['state'] !== 'ready') continue
    const seq = String(row['seq'])
    const kind = compareSeq(seq, floor) > 0 ? 'fresh' : 'swept'
    highest.counts[kind] += 1
    if (compareSeq(seq, highest[kind]) > 0) highest[kind] = seq
  }
  return highest
}

function highest(seqs: readonly bigint[]): bigint {
  let found = 0n
  for (const seq of seqs) if (seq > found) found = seq
  return found
}

/** Milliseconds between two discoveries while there is enough to do. */
const whileBusy = 500

/** Decides when to look for new destinations, keys and partitions. */
export class Discovery {
  #anyKeys = false
  #at = -Infinity

  /** Whether there are records with a key, as far as is known. */
  get anyKeys(): boolean {
    return this.#anyKeys
  }

  isDue(now: number, { busy }: { readonly busy: boolean }): boolean {
    // Ignores a clock that was set back.
    return !busy || Math.abs(now - this.#at) >= whileBusy
  }

  noKeys(): void {
    this.#anyKeys = false
  }

  done(anyKeys: boolean, now: number): void {
    this.#anyKeys = anyKeys
    this.#at = now
  }
}
