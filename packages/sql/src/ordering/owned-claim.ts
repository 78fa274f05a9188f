import type {
  InFlightRow,
  KeyLocation,
  OwnedClaim,
  OwnedClaimOptions,
  ReadPosition,
  ReadProgress,
} from '../contract/ownership-statements.ts'
import { inlineBytes, withinBytes } from '../records/claim-bytes.ts'
import { compareSeq } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'

/** A row that may be claimed. Seqs are numbers as strings. */
export interface FoundRow {
  readonly seq: string
  readonly state: string
  readonly attempts: number
}

/** Reads the columns `seq`, `state` and `attempts`. */
export function readFound(row: Row): FoundRow {
  return { seq: String(row['seq']), state: String(row['state']), attempts: Number(row['attempts']) }
}

/** The first row of a key that has records to claim. */
export interface KeyHead extends KeyLocation, FoundRow {
  readonly destination: string
  /** The first parked row of the key, if it is relevant. */
  readonly parked: string | undefined
}

/** One walk through the keys of a destination, from where the last claim ended, at most one round. */
export interface KeyWalk {
  /** In the order of the walk. */
  readonly heads: readonly KeyHead[]
  /** The last visited key. `undefined`: none was visited, or the reader keeps the position itself. */
  readonly last: KeyLocation | undefined
  /** Whether the walk ended before every key was visited. */
  readonly more: boolean
}

/** A request to continue a run: the rows after this seq, up to this many. */
export interface RunAsk {
  readonly head: KeyHead
  readonly after: string
  readonly max: number
}

/** The records without a key of one destination. Each list has at most as many rows as requested. */
export interface PlainRows {
  /** After the floor, within the window, ordered by seq. */
  readonly fresh: readonly FoundRow[]
  /** The size and end of the window, including rows of other members; `undefined` if `fresh` reached its limit. */
  readonly window: { readonly count: number; readonly last: string | undefined } | undefined
  /** In the range below the floor, ordered by seq. */
  readonly swept: readonly FoundRow[]
  /** Retries that are due. */
  readonly retried: readonly FoundRow[]
}

/** The reads of a claim, as small statements on one state of the database. The implementation knows the options of the claim. */
export interface OwnedReads {
  /** The destinations of all rows that are ready or waiting. */
  destinations(): Promise<readonly string[]>
  /** One walk per position. Ends when this many of its keys have records to claim. */
  walk(positions: readonly ReadPosition[], max: number): Promise<readonly KeyWalk[]>
  /** One list per request, up to the first row that may not be claimed yet. */
  follow(asks: readonly RunAsk[]): Promise<readonly (readonly FoundRow[])[]>
  /** One result per position. */
  plain(positions: readonly ReadPosition[], max: number): Promise<readonly PlainRows[]>
  /**
   * The columns of an `OwnedClaim` except for `turn` and `behind`, and `bytes`, the size of data and attributes. In any order. Data and attributes
   * are null if they are larger than `inline`.
   */
  contents(rows: readonly ChosenRow[], inline: number | undefined): Promise<readonly Row[]>
}

/** A row that was chosen for the claim. */
interface ChosenRow extends FoundRow {
  readonly destination: string
  readonly turn: number | undefined
  readonly behind: string | undefined
}

type Given = Pick<OwnedClaim, 'rows' | 'cut' | 'progress'> & { readonly journal: readonly JournalRow[] }

/** The columns of a row in the claim journal. */
export type JournalRow = Pick<InFlightRow, 'state' | 'destination' | 'seq' | 'attempts'>

/** Chooses the rows of a claim, for databases that use small statements: which rows, how many of each kind, and how far was read. */
export async function chooseOwned(reads: OwnedReads, options: OwnedClaimOptions): Promise<Given> {
  const { limit, jumps, window, entry, partitions } = options
  const targets = partitions.length === 0 ? [] : await positionsOf(reads, options)
  if (targets.length === 0) return { rows: [], cut: false, progress: [], journal: entry.carried }
  const share = Math.ceil(limit / targets.length)
  const keyShare = Math.max(1, Math.floor(limit / targets.length))
  const walks = jumps > 0 ? await reads.walk(targets, keyShare) : []
  const runs = await runsOf(reads, walks, options)
  const plain = await reads.plain(targets, share)
  // Every kind of every destination comes first at some time; otherwise a record that is larger than a whole claim would never be claimed while there
  // are others.
  const firstKind = Math.floor(entry.number / targets.length) % 3
  const lists = targets.map(({ destination }, index): CandidateLists => {
    const { fresh = [], swept = [], retried = [] } = plain[index] ?? {}
    const chosen = (row: FoundRow): ChosenRow => ({ ...row, destination, turn: undefined, behind: undefined })
    const kinds = [runs[index] ?? [], [...swept, ...fresh].map(chosen), retried.map(chosen)]
    return [...kinds.slice(firstKind), ...kinds.slice(0, firstKind)]
  })
  const found = inTurn(lists, limit)
  const progress = targets.map(({ destination }, index) => progressOf(destination, walks[index], plain[index], { share, window }))
  const rows = await contentsOf(reads, found, options)
  const given = new Set(rows.map((row) => String(row['seq'])))
  const claimed = found.filter(({ seq }) => given.has(seq))
  return { rows, cut: rows.length < found.length, progress, journal: [...entry.carried, ...claimed] }
}

/** The positions that are read. Each claim starts with another destination, because the last of many would starve otherwise. */
async function positionsOf(reads: OwnedReads, options: OwnedClaimOptions): Promise<readonly ReadPosition[]> {
  const { destinations, discover, positions, except, limit, entry } = options
  const known = new Map(positions.map((position) => [position.destination, position]))
  const wanted = destinations ?? (discover ? await reads.destinations() : [...known.keys()])
  const chosen = [...new Set(wanted)].filter((destination) => !except.includes(destination)).sort()
  const first = entry.number % Math.max(1, chosen.length)
  return [...chosen.slice(first), ...chosen.slice(0, first)]
    .slice(0, limit)
    .map((destination) => known.get(destination) ?? { destination, floor: '0', sweep: ['0', '0'], key: undefined })
}

/** Runs of the keys of each destination: the first row of each key, then the second ones, and so on. Unused shares go to keys that have more rows. */
async function runsOf(
  reads: OwnedReads,
  walks: readonly KeyWalk[],
  { limit, behindParked }: OwnedClaimOptions,
): Promise<readonly (readonly ChosenRow[])[]> {
  const heads = walks.flatMap((walk) => walk.heads)
  const rows = new Map<KeyHead, FoundRow[]>(heads.map((head) => [head, [head]]))
  const follow = async (asked: readonly KeyHead[], max: number) => {
    if (asked.length === 0 || max < 1) return
    const asks = asked.map((head) => ({ head, after: rows.get(head)?.at(-1)?.seq ?? head.seq, max }))
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

type CandidateLists = readonly (readonly ChosenRow[])[]

/** Takes one row of each kind of each destination in turn, so that a run is always cut off at its end. */
function inTurn(candidates: readonly CandidateLists[], limit: number): readonly ChosenRow[] {
  const lists = candidates.flat()
  const longest = Math.max(...lists.map(({ length }) => length))
  const found: ChosenRow[] = []
  for (let rank = 0; rank < longest && found.length < limit; rank += 1) {
    for (const list of lists) {
      const row = list[rank]
      if (row !== undefined && found.length < limit) found.push(row)
    }
  }
  return found
}

/**
 * The rows found, in order, as far as the byte limit of the claim allows. Small contents are read together with the sizes of all rows, large ones
 * later.
 */
async function contentsOf(reads: OwnedReads, found: readonly ChosenRow[], options: OwnedClaimOptions): Promise<readonly Row[]> {
  if (found.length === 0) return []
  const read = indexBySeq(await reads.contents(found, inlineBytes(options.maxBytes, options.limit)))
  // A row that no longer exists was discarded by an operator.
  const existing = found.filter(({ seq }) => read.has(seq))
  const given = withinBytes(existing, options, ({ seq }) => Number(read.get(seq)?.['bytes']))
  return given.map(({ seq, turn, behind: parked }) => ({ ...read.get(seq), turn, behind: parked }))
}

function indexBySeq(rows: readonly Row[]): Map<string, Row> {
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

/** The stored form: grouped by state and destination, which most rows share. */
type Journal = readonly (readonly [state: string, destination: string, seqs: readonly string[], attempts: readonly number[]])[]

/** The rows that a relay has in flight, as a string, for databases without arrays. */
export function journalText(rows: readonly JournalRow[]): string {
  const groups = new Map<string, [string, string, string[], number[]]>()
  for (const { state, destination, seq, attempts } of rows) {
    const name = `${state} ${destination}`
    const group = groups.get(name) ?? [state, destination, [], []]
    groups.set(name, group)
    group[2].push(seq)
    group[3].push(attempts)
  }
  return JSON.stringify([...groups.values()] satisfies Journal)
}

export function readJournal(text: string): readonly JournalRow[] {
  // Only this library writes them.
  const groups = JSON.parse(text) as Journal
  return groups.flatMap(([state, destination, seqs, attempts]) =>
    seqs.map((seq, index) => ({ state, destination, seq, attempts: attempts[index] ?? 0 })),
  )
}
