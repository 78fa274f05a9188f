import type { InHand, KeyPlace, OwnedClaim, OwnedClaimOptions, ReadPosition, ReadProgress } from '../contract/store-dialect.ts'
import { inlineBytes, withinBytes } from '../records/claim-bytes.ts'
import { compareSeq } from '../records/claim-token.ts'
import type { Row } from '../records/row.ts'

/** A row that may be given, by where it is. Seqs are numbers as text. */
export interface FoundRow {
  readonly seq: string
  readonly state: string
  readonly attempts: number
}

/** The first row of a key that has something to give. */
export interface KeyHead extends KeyPlace, FoundRow {
  readonly destination: string
  /** The first parked row of the key, if it matters. */
  readonly parked: string | undefined
}

/** How the keys of a destination were looked at, from where the last claim ended, once round at most. */
export interface KeyWalk {
  /** In the order in which they were looked at. */
  readonly heads: readonly KeyHead[]
  /** The last that was looked at. `undefined`: none was, or the reader keeps it for itself. */
  readonly last: KeyPlace | undefined
  /** Whether it ended before every key was looked at. */
  readonly more: boolean
}

/** A run is to be followed: what comes after this seq, so many rows at most. */
export interface RunAsk {
  readonly head: KeyHead
  readonly after: string
  readonly most: number
}

/** What has no key, of one destination. Each list has as many as were asked for, at most. */
export interface PlainRows {
  /** After the floor, within the window. By seq. */
  readonly fresh: readonly FoundRow[]
  /** What the window held, others' included; `undefined` where `fresh` is full. */
  readonly window: { readonly count: number; readonly last: string | undefined } | undefined
  /** In the part below the floor. By seq. */
  readonly swept: readonly FoundRow[]
  /** What has waited long enough. */
  readonly retried: readonly FoundRow[]
}

/** What a claim reads, by small statements, all of one state of the database. It knows the options of the claim. */
export interface OwnedReads {
  /** Of all that is ready or waiting. */
  destinations(): Promise<readonly string[]>
  /** One for each place. Ends when so many keys of it have something to give. */
  walk(places: readonly ReadPosition[], most: number): Promise<readonly KeyWalk[]>
  /** One list for each, up to the first row that may not be given yet. */
  follow(asks: readonly RunAsk[]): Promise<readonly (readonly FoundRow[])[]>
  /** One for each place. */
  plain(places: readonly ReadPosition[], most: number): Promise<readonly PlainRows[]>
  /**
   * The columns of an `OwnedClaim` except for `turn` and `behind`, and `bytes`, the size of data and attributes. In any order. These two are null where they are
   * larger than `inline`.
   */
  contents(rows: readonly PlacedRow[], inline: number | undefined): Promise<readonly Row[]>
}

/** A row that is given. */
interface PlacedRow extends FoundRow {
  readonly destination: string
  readonly turn: number | undefined
  readonly behind: string | undefined
}

type Given = Pick<OwnedClaim, 'rows' | 'cut' | 'progress'> & { readonly noted: readonly NotedRow[] }

/** What a note has to say of a row. */
export type NotedRow = Pick<InHand, 'state' | 'destination' | 'seq' | 'attempts'>

/** The choice of a claim, for databases in which it is made of small statements: which rows, how many of each, and how far was read. */
export async function chooseOwned(reads: OwnedReads, options: OwnedClaimOptions): Promise<Given> {
  const { limit, jumps, window, note, partitions } = options
  const places = partitions.length === 0 ? [] : await placesOf(reads, options)
  if (places.length === 0) return { rows: [], cut: false, progress: [], noted: note.carried }
  const share = Math.ceil(limit / places.length)
  const keyShare = Math.max(1, Math.floor(limit / places.length))
  const walks = jumps > 0 ? await reads.walk(places, keyShare) : []
  const runs = await runsOf(reads, walks, options)
  const plain = await reads.plain(places, share)
  // Every kind of every place is the first in its turn, or a record that is larger than a whole claim would never be taken while others are there.
  const firstKind = Math.floor(note.number / places.length) % 3
  const lists = places.map(({ destination }, index): PlaceLists => {
    const { fresh = [], swept = [], retried = [] } = plain[index] ?? {}
    const placed = (row: FoundRow): PlacedRow => ({ ...row, destination, turn: undefined, behind: undefined })
    const kinds = [runs[index] ?? [], [...swept, ...fresh].map(placed), retried.map(placed)]
    return [...kinds.slice(firstKind), ...kinds.slice(0, firstKind)]
  })
  const found = inTurn(lists, limit)
  const progress = places.map(({ destination }, index) => progressOf(destination, walks[index], plain[index], { share, window }))
  const rows = await contentsOf(reads, found, options)
  const given = new Set(rows.map((row) => String(row['seq'])))
  const noted = found.filter(({ seq }) => given.has(seq))
  return { rows, cut: rows.length < found.length, progress, noted: [...note.carried, ...noted] }
}

/** The destinations that are read. Each claim begins with another one, or the last of many would starve. */
async function placesOf(reads: OwnedReads, options: OwnedClaimOptions): Promise<readonly ReadPosition[]> {
  const { destinations, discover, positions, except, limit, note } = options
  const known = new Map(positions.map((position) => [position.destination, position]))
  const wanted = destinations ?? (discover ? await reads.destinations() : [...known.keys()])
  const places = [...new Set(wanted)].filter((destination) => !except.includes(destination)).sort()
  const first = note.number % Math.max(1, places.length)
  return [...places.slice(first), ...places.slice(0, first)]
    .slice(0, limit)
    .map((destination) => known.get(destination) ?? { destination, floor: '0', sweep: ['0', '0'], key: undefined })
}

/** Runs of the keys of each place: one row of each key first, then the second ones, and so on. What some leave over is for those that have more. */
async function runsOf(
  reads: OwnedReads,
  walks: readonly KeyWalk[],
  { limit, behindParked }: OwnedClaimOptions,
): Promise<readonly (readonly PlacedRow[])[]> {
  const heads = walks.flatMap((walk) => walk.heads)
  const rows = new Map<KeyHead, FoundRow[]>(heads.map((head) => [head, [head]]))
  const follow = async (asked: readonly KeyHead[], most: number) => {
    if (asked.length === 0 || most < 1) return
    const asks = asked.map((head) => ({ head, after: rows.get(head)?.at(-1)?.seq ?? head.seq, most }))
    for (const [index, more] of (await reads.follow(asks)).entries()) rows.get(asked[index] as KeyHead)?.push(...more) // one for each
  }
  const length = Math.ceil(limit / Math.max(1, heads.length))
  await follow(heads, length - 1)
  const left = limit - [...rows.values()].reduce((sum, run) => sum + run.length, 0)
  const longer = heads.filter((head) => (rows.get(head)?.length ?? 0) >= length)
  await follow(longer, Math.floor(left / Math.max(1, longer.length)))

  return walks.map((walk) => {
    const ranked = walk.heads.flatMap((head, index) =>
      (rows.get(head) ?? []).map((row, n) => ({
        n,
        row: { ...head, ...row, turn: index + 1, behind: behindParked === 'marked' ? behind(row, head) : undefined },
      })),
    )
    return ranked.sort((one, other) => one.n - other.n).map(({ row }) => row)
  })
}

function behind({ seq }: FoundRow, { parked }: KeyHead): string | undefined {
  return parked !== undefined && compareSeq(seq, parked) > 0 ? parked : undefined
}

type PlaceLists = readonly (readonly PlacedRow[])[]

/** A row of each kind of each place in turn, so that a run is always cut off at its end. */
function inTurn(places: readonly PlaceLists[], limit: number): readonly PlacedRow[] {
  const lists = places.flat()
  const longest = Math.max(...lists.map(({ length }) => length))
  const found: PlacedRow[] = []
  for (let rank = 0; rank < longest && found.length < limit; rank += 1) {
    for (const list of lists) {
      const row = list[rank]
      if (row !== undefined && found.length < limit) found.push(row)
    }
  }
  return found
}

/** Of the rows that were found, in their order, what the bytes of the claim allow. Small ones are read together with the sizes of all, large ones later. */
async function contentsOf(reads: OwnedReads, found: readonly PlacedRow[], options: OwnedClaimOptions): Promise<readonly Row[]> {
  if (found.length === 0) return []
  const read = bySeq(await reads.contents(found, inlineBytes(options.maxBytes, options.limit)))
  // One that is gone meanwhile was discarded by an operator.
  const there = found.filter(({ seq }) => read.has(seq))
  const given = withinBytes(there, options, ({ seq }) => Number(read.get(seq)?.['bytes']))
  return given.map(({ seq, turn, behind: parked }) => ({ ...read.get(seq), turn, behind: parked }))
}

function bySeq(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [String(row['seq']), row]))
}

function progressOf(
  destination: string,
  walk: KeyWalk | undefined,
  plain: PlainRows | undefined,
  { share, window }: { readonly share: number; readonly window: number },
): ReadProgress {
  const { fresh = [], swept = [], retried = [] } = plain ?? {}
  return {
    destination,
    key: walk?.last,
    heads: walk?.heads.length ?? 0,
    allKeys: walk?.more !== true,
    matches: fresh.length,
    read: plain?.window === undefined ? fresh.at(-1)?.seq : plain.window.last,
    more: [fresh, swept, retried].some(({ length }) => length >= share) || (plain?.window?.count ?? 0) >= window,
  }
}

/** As it is stored: by state and destination, which are the same for most. */
type Noted = readonly (readonly [state: string, destination: string, seqs: readonly string[], attempts: readonly number[]])[]

/** What a relay has in hand, as a text for databases that have no arrays. */
export function noteText(rows: readonly NotedRow[]): string {
  const groups = new Map<string, [string, string, string[], number[]]>()
  for (const { state, destination, seq, attempts } of rows) {
    const name = `${state} ${destination}`
    const group = groups.get(name) ?? [state, destination, [], []]
    groups.set(name, group)
    group[2].push(seq)
    group[3].push(attempts)
  }
  return JSON.stringify([...groups.values()] satisfies Noted)
}

export function readNote(text: string): readonly NotedRow[] {
  // Nobody else writes them.
  const groups = JSON.parse(text) as Noted
  return groups.flatMap(([state, destination, seqs, attempts]) =>
    seqs.map((seq, index) => ({ state, destination, seq, attempts: attempts[index] ?? 0 })),
  )
}
