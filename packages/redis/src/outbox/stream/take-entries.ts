import type { ClaimOptions } from '@ackord/outbox'
import type { Reply, Script } from '../../client/port.ts'
import { asList, says } from '../../client/reply.ts'
import { ClaimPace } from '../claim-pace.ts'
import { byteArguments, type ClaimRoom, type Portion, type Share } from '../claim-room.ts'
import { fillInShares } from '../fair-shares.ts'
import type { StreamOutboxContext } from './context.ts'
import type { DestinationStream } from './destination-stream.ts'
import { EmptyDestinations, type EmptyDestinationsOptions } from './empty-destinations.ts'
import { takeDue, takeFresh, takeOver } from './scripts/claim-scripts.ts'

/** An entry that was claimed. */
export interface TakenEntry {
  readonly stream: DestinationStream
  readonly id: string
  readonly fields: readonly Buffer[]
  readonly delivery: number
  /** How many of the deliveries were no attempts. */
  readonly uncounted: number
  /** Whether it may have been read before its delay ended. */
  readonly unchecked: boolean
}

/** One claim, as all of its steps share it. */
export interface ClaimRequest {
  /** The name of the store object and its lease. */
  readonly consumer: string
  readonly lease: number
  /** The most bytes that the claim may take. */
  readonly maxBytes: number
  readonly room: ClaimRoom
  readonly wants: (stream: DestinationStream) => boolean
}

/** Releases the entries of an answer that came after its deadline. */
type ReleaseLate = (entries: readonly TakenEntry[], request: ClaimRequest) => Promise<void>

/** How many pending entries, and how many streams, one script reads: other clients wait meanwhile. */
const maxPending = 1000
const streamsPerScript = 500

/** Claims entries: those that are due, those of consumers whose lease has run out, and those that no consumer has read yet. */
export class EntryTaker {
  readonly #context: StreamOutboxContext
  readonly #options: EmptyDestinationsOptions
  readonly #releaseLate: ReleaseLate
  readonly #pace: ClaimPace
  readonly #emptyDestinations: EmptyDestinations
  /** Tags whose next record was too large for the bytes that the others left: among the due entries, and among the new ones. */
  readonly #passedOver = { due: new Set<string>(), fresh: new Set<string>() }
  /** Which tag and which stream is asked first: another one each time. */
  #tagTurn = 0
  #streamTurn = 0

  constructor(context: StreamOutboxContext, options: EmptyDestinationsOptions, releaseLate: ReleaseLate) {
    this.#context = context
    this.#options = options
    this.#releaseLate = releaseLate
    this.#pace = new ClaimPace(context.runtime)
    this.#emptyDestinations = new EmptyDestinations(context, options)
  }

  /** The most bytes that a claim should ask for now. */
  limit(maxBytes: number): number {
    return this.#pace.limit(maxBytes)
  }

  /** Adds entries to the end of `taken` until the room is full. If a step fails, the entries before it are in `taken` all the same. */
  async take(taken: TakenEntry[], request: ClaimRequest, retried: ClaimOptions['retried']): Promise<void> {
    const { room } = request
    this.#tagTurn += 1
    await this.#takeDue(taken, request, retried)
    if (retried !== 'never' && room.isOpen) await this.#takeOver(taken, request)
    if (retried !== 'only' && room.isOpen) await this.takeFresh(taken, request)
  }

  /** Lets the next claim begin behind the streams that this one took from. */
  advance(count: number): void {
    this.#streamTurn += Math.max(1, count)
  }

  /** Takes entries that were released, delayed or failed, and are due now. Learns which destinations there are. */
  async #takeDue(taken: TakenEntry[], request: ClaimRequest, retried: ClaimOptions['retried']): Promise<void> {
    const { streams } = this.#context
    const flags = [retried === 'only' ? '0' : '1', retried === 'never' ? '0' : '1']

    const take = async (tag: string, from: readonly DestinationStream[], share: Share): Promise<Portion<TakenEntry>> => {
      const wanted = rotate(from.filter(request.wants), this.#streamTurn)
      let learnt: readonly DestinationStream[] = []
      const given = await inChunks(wanted, share, true, async (some, left, isFirst) => {
        const keys = [streams.destinationsKey(tag), ...some.flatMap((stream) => stream.allKeys)]
        const reply = await this.#ask(tag, takeDue, keys, [...flags, isFirst ? '1' : '0'], request, left, 1, (late) =>
          some.flatMap((stream, index) => this.#entriesOf(stream, asList(late)[index + 3])),
        )
        const [names, bytes, isFull, ...answers] = asList(reply)
        if (isFirst) learnt = streams.learn(tag, asList(names).map(String))
        const items = some.flatMap((stream, index) => this.#entriesOf(stream, answers[index]))
        return { items, bytes: Number(bytes), stopped: String(isFull) === '1' }
      })
      // The script was not asked for the new destinations.
      if (given.stopped || !learnt.some(request.wants) || given.items.length >= share.count) return given
      const more = await take(tag, learnt, leftOf(share, given))
      return { items: [...given.items, ...more.items], bytes: given.bytes + more.bytes, stopped: more.stopped }
    }
    await fillInShares(
      taken,
      rotate(streams.tags, this.#tagTurn),
      request.room,
      (tag, share) => take(tag, streams.of(tag), share),
      this.#passedOver.due,
    )
  }

  /** Takes entries of other consumers that did not settle them or renew their lease in time. */
  async #takeOver(taken: TakenEntry[], request: ClaimRequest): Promise<void> {
    const settings = [this.#options.idleTime, maxPending].map(String)

    const look = async (stream: DestinationStream, share: Share): Promise<Portion<TakenEntry>> => {
      const items: TakenEntry[] = []
      let bytes = 0
      // A look that goes on where another one ended has not seen the entries before that.
      let fromStart = stream.cursor === undefined
      for (;;) {
        const args = [...settings, ...(stream.cursor ?? ['', '-'])]
        const left = leftOf(share, { items, bytes })
        const answer = await this.#ask(stream, takeOver, stream.allKeys, args, request, left, 4, (late) =>
          this.#entriesOf(stream, late, true),
        )
        const reply = asList(answer)
        items.push(...this.#entriesOf(stream, reply, true))
        bytes += Number(reply[4])
        const stopped = String(reply[5]) === '1'
        const name = String(reply[2])
        stream.cursor = name === '' ? undefined : [name, String(reply[3])]
        if (stopped || items.length >= share.count || (name === '' && fromStart)) return { items, bytes, stopped }
        fromStart ||= name === ''
      }
    }
    const { streams } = this.#context
    const wanted = streams.tags.flatMap((tag) => streams.of(tag)).filter(request.wants)
    const due = rotate(wanted, this.#streamTurn).filter((stream) => this.#mayLook(stream))
    await fillInShares(taken, due, request.room, (stream, share) => this.#orNothing(stream, () => look(stream, share)))
  }

  /** Takes entries that no consumer has read yet. Drops destinations that have been empty for a while. */
  async takeFresh(taken: TakenEntry[], request: ClaimRequest): Promise<void> {
    const { streams } = this.#context
    const empty: DestinationStream[] = []
    await fillInShares(
      taken,
      rotate(streams.tags, this.#tagTurn),
      request.room,
      async (tag, share) => {
        const wanted = rotate(streams.of(tag).filter(request.wants), this.#streamTurn)
        return await inChunks(wanted, share, false, async (some, left) => {
          const keys = some.flatMap((stream) => stream.allKeys)
          const reply = await this.#ask(tag, takeFresh, keys, [], request, left, 0, (late) =>
            some.flatMap((stream, index) => this.#freshOf(stream, asList(late)[index + 2])),
          )
          const [bytes, isFull, ...answers] = asList(reply)
          for (const [index, stream] of some.entries()) {
            if (this.#emptyDestinations.noteEmpty(stream, String(asList(answers[index])[2]) === '1')) empty.push(stream)
          }
          const items = some.flatMap((stream, index) => this.#freshOf(stream, answers[index]))
          return { items, bytes: Number(bytes), stopped: String(isFull) === '1' }
        })
      },
      this.#passedOver.fresh,
    )
    await this.#emptyDestinations.drop(empty)
  }

  /** `source`: which claims wait for each other's answers. `bytesAt`: the index in the script's reply of the bytes that it took. */
  async #ask(
    source: string | DestinationStream,
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    request: ClaimRequest,
    share: Share,
    bytesAt: number,
    entriesOf: (late: Reply) => readonly TakenEntry[],
  ): Promise<Reply> {
    const { port, group } = this.#context
    const { consumer, lease, maxBytes: claimBytes } = request
    const words = [group, consumer, String(share.count), ...byteArguments(share), ...args]
    return await this.#pace.ask(source, {
      lease,
      claimBytes,
      maxBytes: share.maxBytes,
      send: (onLate) => port.evaluate(script, keys, words, { binary: true, onLate }),
      bytesOf: (reply) => Number(asList(reply)[bytesAt]),
      release: (late) => this.#releaseLate(entriesOf(late), request),
    })
  }

  #mayLook(stream: DestinationStream): boolean {
    const now = this.#context.runtime.monotonic()
    if (stream.cursor === undefined && now - stream.lookedAt < this.#options.claimInterval) return false
    stream.lookedAt = now
    return true
  }

  /** Reads a reply that has the entries first, then the number of entries that were parked in a lost group. */
  #freshOf(stream: DestinationStream, answer: Reply | undefined): readonly TakenEntry[] {
    if (!Array.isArray(answer)) {
      this.#failed(stream, String(answer))
      return []
    }
    const [entries, parked] = answer as readonly Reply[]
    stream.failing = false
    if (Number(parked) > 0) {
      const text =
        'The consumer group of an outbox was missing and is created again. All records in its stream are delivered again, including parked ones.'
      this.#context.logger.warn({ stream: stream.keys.entries, group: this.#context.group, parked: Number(parked) }, text)
    }
    return asList(entries).map((entry) => {
      const [id, fields, uncounted] = entry as readonly [Buffer, readonly Buffer[], Buffer?]
      const delivery = uncounted === undefined ? 1 : 2
      return { stream, id: id.toString('latin1'), fields, delivery, uncounted: Number(uncounted ?? 0), unchecked: true }
    })
  }

  /** Reads a reply that has the entries first, then the ids of entries that are missing. */
  #entriesOf(stream: DestinationStream, answer: Reply | undefined, unchecked = false): readonly TakenEntry[] {
    const { logger, metrics } = this.#context
    if (!Array.isArray(answer)) {
      this.#failed(stream, String(answer))
      return []
    }
    const reply: readonly Reply[] = answer
    const missing = asList(reply[1]).map(String)
    if (missing.length > 0) {
      const text = 'Outbox records are lost: another client trimmed or deleted their entries before they were published.'
      logger.error({ stream: stream.keys.entries, entries: missing }, text)
      metrics?.count('ackord.outbox.trimmed', missing.length, { destination: stream.destination })
    }
    return asList(reply[0]).map((entry) => {
      const [id, fields, delivery, uncounted] = entry as readonly [Buffer, readonly Buffer[], number, number]
      // An entry that was released, put aside or re-armed may be published, whatever its delay says.
      const isChecked = !unchecked || Number(uncounted) > 0
      return { stream, id: String(id), fields, delivery: Number(delivery), uncounted: Number(uncounted), unchecked: !isChecked }
    })
  }

  /** A stream that cannot be read, such as a key of another type, does not keep the others from being read. */
  async #orNothing<T>(stream: DestinationStream, work: () => Promise<Portion<T>>): Promise<Portion<T>> {
    try {
      const given = await work()
      stream.failing = false
      return given
    } catch (error) {
      if (!says(error, 'WRONGTYPE')) throw error
      this.#failed(stream, error)
      return { items: [], bytes: 0, stopped: false }
    }
  }

  #failed(stream: DestinationStream, error: unknown): void {
    if (!stream.failing) this.#context.logger.error({ err: error, stream: stream.keys.entries }, 'A stream of an outbox cannot be read.')
    stream.failing = true
  }
}

/** Asks for streams of one tag, some at a time, until there is enough. `evenIfNone`: asks once also without a stream. */
async function inChunks(
  wanted: readonly DestinationStream[],
  share: Share,
  evenIfNone: boolean,
  ask: (some: readonly DestinationStream[], left: Share, isFirst: boolean) => Promise<Portion<TakenEntry>>,
): Promise<Portion<TakenEntry>> {
  const items: TakenEntry[] = []
  let bytes = 0
  for (let start = 0; start < wanted.length || (start === 0 && evenIfNone); start += streamsPerScript) {
    const given = await ask(wanted.slice(start, start + streamsPerScript), leftOf(share, { items, bytes }), start === 0)
    items.push(...given.items)
    bytes += given.bytes
    if (given.stopped) return { items, bytes, stopped: true }
    if (items.length >= share.count) break
  }
  return { items, bytes, stopped: false }
}

function leftOf(share: Share, { items, bytes }: Pick<Portion<unknown>, 'items' | 'bytes'>): Share {
  return {
    count: share.count - items.length,
    maxBytes: Math.max(0, share.maxBytes - bytes),
    atLeastOne: share.atLeastOne && items.length === 0,
  }
}

function rotate<T>(all: readonly T[], turn: number): readonly T[] {
  if (all.length < 2) return all
  const first = turn % all.length
  return [...all.slice(first), ...all.slice(0, first)]
}
