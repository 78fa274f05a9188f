import { redisKey } from '../../client/keys.ts'

/**
 * The keys of one destination under one tag. Records stay in the stream from the commit until they are published or discarded.
 *
 * - `entries`: the stream. An entry that a relay has claimed is pending in the group for a consumer `<name>/<lease>`, so that every relay sees the lease;
 *   its delivery count only ever grows, and is the fencing token.
 * - `ready`, `retry`: entries that were read and are not claimed, by when they may be claimed: never failed, and failed before. Pending for the consumer `waiting`.
 * - `parked`: parked entries, by when they were parked. Pending for the consumer `parked`.
 * - `errors`: the failures of each entry that failed, as `failure-field.ts` writes them; and the index of message ids (`index-scripts.ts`).
 * - `uncounted`: how many deliveries of an entry were no attempts: those that were released, and those before it was re-armed.
 * - `gate`: says whether XREADGROUP may read the unread entries, which it may if none of them is large, and none has a field in `uncounted`. Open: an empty stream with the same
 *   group. Closed: a string, until all entries were read. Not there: it was never closed, and the next claim opens it. See `#readBehindGate()` of `EntryTaker`.
 */
export interface DestinationKeys {
  readonly entries: string
  readonly ready: string
  readonly retry: string
  readonly parked: string
  readonly errors: string
  readonly uncounted: string
  readonly gate: string
}

/** An entry with more bytes than this closes the gate of its destination. */
export const largeEntry: number = 32 * 1024

/** The records of one destination under one tag. */
export class DestinationStream {
  readonly tag: string
  readonly destination: string
  readonly keys: DestinationKeys
  /** The end of the ids of all its records. */
  readonly suffix: string
  /** Whether its last read failed, which is logged once. */
  failing = false
  /** Since when every claim found it empty, by the monotonic clock. */
  emptySince: number | undefined
  /** When its pending entries were last searched, by the monotonic clock, and where an unfinished search ended: consumer and entry. */
  lookedAt: number = -Infinity
  cursor: readonly [string, string] | undefined
  /** Whether the last claim found more unread entries than it could take, and the gate open. */
  isBusy = false

  constructor(tag: string, destination: string, keys: DestinationKeys) {
    this.tag = tag
    this.destination = destination
    this.keys = keys
    this.suffix = `/${encodeURIComponent(tag)}/${destination}`
  }

  /** The keys that most scripts take, in their order: all but `gate`. */
  get allKeys(): readonly string[] {
    const { entries, ready, retry, parked, errors, uncounted } = this.keys
    return [entries, ready, retry, parked, errors, uncounted]
  }

  /** The id of the record with this entry. It holds all that is needed to find the record again. */
  idOf(entry: string): string {
    return entry + this.suffix
  }
}

/** The streams of an outbox: those of known destinations, and any other by its name. */
export class DestinationStreams {
  readonly tags: readonly string[]
  readonly #name: string
  readonly #known = new Map<string, Map<string, DestinationStream>>()

  constructor(tags: readonly string[], name: string) {
    this.tags = tags
    this.#name = name
    for (const tag of tags) this.#known.set(tag, new Map())
  }

  /** The set of the destinations under a tag. */
  destinationsKey(tag: string): string {
    return redisKey(tag, this.#name, 'destinations')
  }

  /** The sorted set of destinations without records, by when they left the set of destinations. Their keys are deleted later. */
  emptyKey(tag: string): string {
    return redisKey(tag, this.#name, 'empty')
  }

  /** A short stream. A new entry is a hint that a record was stored. */
  wakeKey(tag: string): string {
    return redisKey(tag, this.#name, 'wake')
  }

  /** The keys of notes (`redis-notes.ts`), under the first tag. */
  noteKey(...parts: readonly string[]): string {
    return redisKey(this.tags[0] as string, this.#name, ...parts)
  }

  /** Those of the known destinations of a tag. */
  of(tag: string): readonly DestinationStream[] {
    return [...(this.#known.get(tag)?.values() ?? [])]
  }

  get(tag: string, destination: string): DestinationStream {
    return this.#known.get(tag)?.get(destination) ?? this.#create(tag, destination)
  }

  /** Replaces the known destinations of a tag. Returns the streams of new ones. */
  learn(tag: string, destinations: readonly string[]): readonly DestinationStream[] {
    const before = this.#known.get(tag)
    const now = new Map(destinations.map((destination) => [destination, this.get(tag, destination)]))
    this.#known.set(tag, now)
    return [...now.values()].filter(({ destination }) => before?.has(destination) !== true)
  }

  /** The entry of a record's id; `undefined` for an id that this outbox never made. */
  find(id: string): StreamEntry | undefined {
    const first = id.indexOf('/')
    const entry = id.slice(0, first)
    if (first === -1 || !/^\d+-\d+$/.test(entry)) return undefined
    const second = id.indexOf('/', first + 1)
    const tag = this.tags.find((one) => encodeURIComponent(one) === id.slice(first + 1, second))
    return second === -1 || tag === undefined ? undefined : { entry, stream: this.get(tag, id.slice(second + 1)) }
  }

  #create(tag: string, destination: string): DestinationStream {
    const key = (kind: string) => redisKey(tag, this.#name, kind, destination)
    return new DestinationStream(tag, destination, {
      entries: key('to'),
      ready: key('ready'),
      retry: key('retry'),
      parked: key('parked'),
      errors: key('errors'),
      uncounted: key('uncounted'),
      gate: key('gate'),
    })
  }
}

export interface StreamEntry {
  readonly stream: DestinationStream
  /** The id of its entry in the stream. */
  readonly entry: string
}

export function tokenOf(consumer: string, delivery: number): string {
  return `${delivery} ${consumer}`
}

/** The consumer of a claim, and the delivery count of its entry at that time. `undefined` for a token that no stream outbox made. */
export function readToken(token: string): { readonly consumer: string; readonly delivery: number } | undefined {
  const space = token.indexOf(' ')
  const delivery = Number(token.slice(0, space))
  return space > 0 && Number.isSafeInteger(delivery) ? { consumer: token.slice(space + 1), delivery } : undefined
}
