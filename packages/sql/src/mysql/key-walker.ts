import type { KeyHead, KeyWalk } from '../owned-claim.ts'
import type { KeyPlace, OwnedClaimOptions, ReadPosition } from '../ownership-statements.ts'
import { isBehind, type KeyRows } from './key-rows.ts'

/** Where the walk of a destination is. */
interface Progress {
  /** The last key of each partition whose turn is over. */
  readonly cursors: Map<number, string>
  /** What the last walk looked at, in its order. How much of that was used is known when the next one begins. */
  looked: readonly KeyPlace[]
}

/** A partition on the way round. */
interface Lap {
  readonly partition: number
  /** Where the way round began, and ends. */
  readonly start: string | undefined
  after: string | undefined
  wrapped: boolean
}

/**
 * Walks through the keys of a destination, in many partitions at once: one key of each in turn, because a statement can seek in all of them, but not go from
 * key to key. So there is a cursor for each partition, in memory.
 */
export class KeyWalker {
  readonly #progress = new Map<string, Progress>()

  async walk(rows: KeyRows, place: ReadPosition, most: number, { partitions, jumps, inHand }: OwnedClaimOptions): Promise<KeyWalk> {
    const progress = this.#goOn(place)
    const held = new Set(inHand.filter(({ destination }) => destination === place.destination).map(({ key }) => key))
    const looked: KeyPlace[] = []
    const heads: KeyHead[] = []
    let laps: readonly Lap[] = lapsOf(partitions, progress.cursors, place.key?.partition ?? -1)
    while (laps.length > 0 && heads.length < most && looked.length < jumps) {
      // No more than can be used: each may have one.
      const asked = laps.slice(0, Math.min(most - heads.length, jumps - looked.length))
      const found = await rows.next(asked)
      for (const [index, lap] of asked.entries()) {
        const row = found[index]
        if (row === undefined || isRound(lap, row.key)) continue
        looked.push({ partition: row.partition, key: row.key })
        if (!held.has(row.key) && rows.gives(row)) heads.push(row)
      }
      laps = [...laps.slice(asked.length), ...asked.flatMap((lap, index) => nextLap(lap, found[index]?.key))]
    }
    progress.looked = looked
    return { heads, last: looked.at(-1), more: laps.length > 0 }
  }

  /** The turns of those that the last walk looked at are over, up to where the claim came. */
  #goOn({ destination, key }: ReadPosition): Progress {
    const progress = this.#progress.get(destination) ?? { cursors: new Map<number, string>(), looked: [] }
    this.#progress.set(destination, progress)
    const used = progress.looked.findLastIndex((one) => one.partition === key?.partition && one.key === key.key)
    for (const one of progress.looked.slice(0, used + 1)) progress.cursors.set(one.partition, one.key)
    progress.looked = []
    return progress
  }
}

/** Beginning behind this partition. */
function lapsOf(partitions: readonly number[], cursors: ReadonlyMap<number, string>, behind: number): readonly Lap[] {
  const sorted = [...partitions].sort((one, other) => one - other)
  const first = sorted.findIndex((partition) => partition > behind)
  const ordered = first === -1 ? sorted : [...sorted.slice(first), ...sorted.slice(0, first)]
  return ordered.map((partition) => {
    const start = cursors.get(partition)
    return { partition, start, after: start, wrapped: start === undefined }
  })
}

function isRound({ start, wrapped }: Lap, key: string): boolean {
  return wrapped && start !== undefined && isBehind(key, start)
}

/** How it goes on behind the key that was found; none if it is round. */
function nextLap(lap: Lap, key: string | undefined): readonly Lap[] {
  if (key === undefined) return lap.wrapped ? [] : [{ ...lap, after: undefined, wrapped: true }]
  return isRound(lap, key) ? [] : [{ ...lap, after: key }]
}
