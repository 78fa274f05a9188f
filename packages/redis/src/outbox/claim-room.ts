/** How much a claim may still take. All steps of a claim share one, so that together they keep to `limit` and `maxBytes`. */
export class ClaimRoom {
  #count: number
  #bytes: number
  #isEmpty: boolean
  #isFull = false

  constructor(limit: number, maxBytes: number, isEmpty = true) {
    this.#count = limit
    this.#bytes = Math.max(0, maxBytes)
    this.#isEmpty = isEmpty
  }

  /** Whether another record may be claimed. */
  get isOpen(): boolean {
    return !this.#isFull && this.#count > 0
  }

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether nothing was claimed yet: the first record is claimed however large it is. */
  get isEmpty(): boolean {
    return this.#isEmpty
  }

  use(count: number, bytes: number): void {
    this.#count -= count
    this.#bytes = Math.max(0, this.#bytes - bytes)
    if (count > 0 || bytes > 0) this.#isEmpty = false
  }

  /** The next record is too large for the bytes that are left. */
  close(): void {
    this.#isFull = true
  }
}

/** The part of a claim that one of several sources is asked for. */
export interface Share {
  readonly count: number
  readonly maxBytes: number
  /** Whether its first record is claimed even if it is larger than `maxBytes`. */
  readonly atLeastOne: boolean
}

export interface Portion<Item> {
  readonly items: readonly Item[]
  readonly bytes: number
  /** Whether it stopped before a record that did not fit into `maxBytes`. */
  readonly stopped: boolean
}

/** The arguments of a script: the most bytes, and '1' if the first record is claimed however large it is. */
export function byteArguments({ maxBytes, atLeastOne }: Omit<Share, 'count'>): readonly [string, string] {
  return [String(Math.min(Math.floor(maxBytes), Number.MAX_SAFE_INTEGER)), atLeastOne ? '1' : '0']
}

/**
 * Asks several sources for records until the room is full. Each round asks them concurrently, each for its share of the count and of the bytes; the next round
 * asks those again that returned their whole share. So a round takes as long as its slowest source, and a source with many records does not keep
 * one with few from being asked. If there are more sources than records to claim, only the first are asked: the caller rotates them.
 *
 * A source whose next record is larger than its share is asked again at the end, alone, for all the bytes that are left.
 *
 * A source that returned nothing because its next record did not fit is kept in `passedOver`, if given, and the next call asks it first, for one record: beside sources that always
 * have records it would never get its turn otherwise.
 *
 * Records are added to the end of `items`. If a source fails, this rejects with its error, and the records of the others are in `items` all the same.
 */
export async function fillInShares<Source, Item>(
  items: Item[],
  sources: readonly Source[],
  room: ClaimRoom,
  ask: (source: Source, share: Share) => Promise<Portion<Item>>,
  passedOver: Set<Source> = new Set(),
): Promise<void> {
  const askAlone = async (source: Source, count: number): Promise<void> => {
    const { items: received, bytes, stopped } = await ask(source, { count, maxBytes: room.bytes, atLeastOne: room.isEmpty })
    for (const item of received) items.push(item)
    room.use(received.length, bytes)
    if (received.length > 0) passedOver.delete(source)
    if (stopped || room.bytes === 0) room.close()
    if (stopped && received.length === 0) passedOver.add(source)
  }
  const [waiting] = passedOver
  // It fits for sure only into an empty room; otherwise it would close the room to the others.
  if (waiting !== undefined && room.isEmpty && room.isOpen) {
    passedOver.delete(waiting)
    if (sources.length > 1 && sources.includes(waiting)) await askAlone(waiting, 1)
  }
  const tooLarge: Source[] = []
  let asked = sources
  while (asked.length > 1 && room.isOpen) {
    const round = asked.slice(0, room.count)
    const left = room.count
    const shares = round.map((_, index): Share => {
      const count = Math.floor(left / round.length) + (index < left % round.length ? 1 : 0)
      return { count, maxBytes: room.bytes / round.length, atLeastOne: false }
    })
    const answers = await Promise.allSettled(round.map((source, index) => ask(source, shares[index] as Share)))
    const full: Source[] = []
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 'rejected') continue
      const { items: received, bytes, stopped } = answer.value
      for (const item of received) items.push(item)
      room.use(received.length, bytes)
      if (stopped) tooLarge.push(round[index] as Source)
      else if (received.length >= (shares[index] as Share).count) full.push(round[index] as Source)
    }
    const failed = answers.find((answer) => answer.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    asked = [...full, ...asked.slice(left)]
  }
  for (const source of [...asked, ...tooLarge]) {
    if (room.isOpen) await askAlone(source, room.count)
    else if (tooLarge.includes(source)) passedOver.add(source)
  }
}
