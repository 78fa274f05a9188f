import { redisKey } from '../../client/keys.ts'

/**
 * What is kept of the records of one destination under one tag. All bodies stay in the stream from the commit until they are published or discarded.
 *
 * - `stream`: the entries. What a relay has is pending in the group for a consumer `<name>/<lease>`, so that its lease can be seen by all;
 *   its delivery count only ever grows, and fences.
 * - `ready`, `retry`: what was read and is nobody's, by when it may be claimed: never failed, and failed before. Pending for the consumer `waiting`.
 * - `parked`: by when that was. Pending for the consumer `parked`.
 * - `errors`: the last one of a record that failed.
 * - `uncounted`: how many of its deliveries were no attempts: those that were given back, and those before it was re-armed.
 */
export interface LaneKeys {
  readonly stream: string
  readonly ready: string
  readonly retry: string
  readonly parked: string
  readonly errors: string
  readonly uncounted: string
}

/** The records of one destination under one tag. */
export class Lane {
  readonly tag: string
  readonly destination: string
  readonly keys: LaneKeys
  /** What every id of its records ends in. */
  readonly suffix: string
  /** Whether its last read failed: it is logged once. */
  failing = false
  /** Since when every claim found it empty, by the monotonic clock. */
  emptySince: number | undefined
  /** When its pending list was looked through, by the monotonic clock, and where a look ended that was not through: consumer and entry. */
  lookedAt: number = -Infinity
  cursor: readonly [string, string] | undefined

  constructor(tag: string, destination: string, keys: LaneKeys) {
    this.tag = tag
    this.destination = destination
    this.keys = keys
    this.suffix = `/${encodeURIComponent(tag)}/${destination}`
  }

  get allKeys(): readonly string[] {
    const { stream, ready, retry, parked, errors, uncounted } = this.keys
    return [stream, ready, retry, parked, errors, uncounted]
  }

  /** The record's id, by which it is found again whatever became of it. */
  idOf(entry: string): string {
    return entry + this.suffix
  }
}

/** All lanes of an outbox: those that there are, and those that somebody names. */
export class Lanes {
  readonly tags: readonly string[]
  readonly #name: string
  readonly #known = new Map<string, Map<string, Lane>>()

  constructor(tags: readonly string[], name: string) {
    this.tags = tags
    this.#name = name
    for (const tag of tags) this.#known.set(tag, new Map())
  }

  /** The set of the destinations under a tag. */
  destinationsKey(tag: string): string {
    return redisKey(tag, this.#name, 'destinations')
  }

  /** Those that have no record, by when they left the set of destinations. Their keys are deleted later. */
  emptyKey(tag: string): string {
    return redisKey(tag, this.#name, 'empty')
  }

  /** A stream of one entry. A new one is a hint that something was stored. */
  wakeKey(tag: string): string {
    return redisKey(tag, this.#name, 'wake')
  }

  of(tag: string): readonly Lane[] {
    return [...(this.#known.get(tag)?.values() ?? [])]
  }

  get(tag: string, destination: string): Lane {
    return this.#known.get(tag)?.get(destination) ?? this.#create(tag, destination)
  }

  /** These are the destinations of a tag now. Gives the lanes that are new. */
  learn(tag: string, destinations: readonly string[]): readonly Lane[] {
    const before = this.#known.get(tag)
    const now = new Map(destinations.map((destination) => [destination, this.get(tag, destination)]))
    this.#known.set(tag, now)
    return [...now.values()].filter(({ destination }) => before?.has(destination) !== true)
  }

  /** `undefined` for what was never an id of this outbox. */
  find(id: string): Place | undefined {
    const first = id.indexOf('/')
    const entry = id.slice(0, first)
    if (first === -1 || !/^\d+-\d+$/.test(entry)) return undefined
    const second = id.indexOf('/', first + 1)
    const tag = this.tags.find((one) => encodeURIComponent(one) === id.slice(first + 1, second))
    return second === -1 || tag === undefined ? undefined : { entry, lane: this.get(tag, id.slice(second + 1)) }
  }

  #create(tag: string, destination: string): Lane {
    const key = (kind: string) => redisKey(tag, this.#name, kind, destination)
    return new Lane(tag, destination, {
      stream: key('to'),
      ready: key('ready'),
      retry: key('retry'),
      parked: key('parked'),
      errors: key('errors'),
      uncounted: key('uncounted'),
    })
  }
}

export interface Place {
  readonly lane: Lane
  /** The id of its entry in the stream. */
  readonly entry: string
}

export function tokenOf(consumer: string, delivery: number): string {
  return `${delivery} ${consumer}`
}

/** Who claimed, and how often the entry had been delivered then. `undefined` for what was never a token of an outbox. */
export function readToken(token: string): { readonly consumer: string; readonly delivery: number } | undefined {
  const space = token.indexOf(' ')
  const delivery = Number(token.slice(0, space))
  return space > 0 && Number.isSafeInteger(delivery) ? { consumer: token.slice(space + 1), delivery } : undefined
}
