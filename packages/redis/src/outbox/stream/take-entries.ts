import type { ClaimOptions } from '@ackord/outbox'
import type { RedisCommand, Reply, Script, SendOptions } from '../../client/port.ts'
import { asList, says } from '../../client/reply.ts'
import { ClaimPace } from '../claim-pace.ts'
import { byteArguments, type ClaimRoom, fillInShares, type Portion, type Share } from '../claim-room.ts'
import type { StreamOutboxContext } from './context.ts'
import { type DestinationStream, largeEntry } from './destination-stream.ts'
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

/** A call that takes entries, and how its reply is read. */
interface Asking {
  readonly send: (onLate: SendOptions['onLate']) => Promise<Reply>
  readonly bytesOf: (reply: Reply) => number
  readonly itemsOf: (reply: Reply) => readonly TakenEntry[]
}

const nothing: Portion<never> = { items: [], bytes: 0, stopped: false }

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
  /** The time that the server of each tag last returned, and when that was, by the monotonic clock. */
  readonly #serverTimes = new Map<string, { readonly time: number; readonly at: number }>()
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

  /**
   * Milliseconds since an entry was stored, by the server's clock. Every claim asks for due entries first, and the answer has the time: XREADGROUP does
   * not return it, and TIME would be another command per claim.
   */
  ageOf({ tag }: DestinationStream, createdAt: number): number {
    const known = this.#serverTimes.get(tag)
    // Records of a late answer are released, so their age is of no use.
    if (known === undefined) return 0
    // Negative if the server's clock was set back.
    return Math.max(0, known.time + (this.#context.runtime.monotonic() - known.at) - createdAt)
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
        const reply = await this.#askScript(tag, takeDue, keys, [...flags, isFirst ? '1' : '0'], request, left, 1, (late) =>
          some.flatMap((stream, index) => this.#entriesOf(stream, asList(late)[index + 4])),
        )
        const [names, bytes, isFull, time, ...answers] = asList(reply)
        this.#serverTimes.set(tag, { time: Number(time), at: this.#context.runtime.monotonic() })
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
        const answer = await this.#askScript(stream, takeOver, stream.allKeys, args, request, left, 4, (late) =>
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
        const read = await this.#readBehindGate(tag, wanted, share, request)
        if (read.items.length >= share.count) return read
        const asking = inChunks(wanted, leftOf(share, read), false, async (some, left) => {
          const keys = [...some.flatMap((stream) => stream.allKeys), ...some.map((stream) => stream.keys.gate)]
          const reply = await this.#askScript(tag, takeFresh, keys, [], request, left, 0, (late) =>
            some.flatMap((stream, index) => this.#freshOf(stream, asList(late)[index + 2])),
          )
          const [bytes, isFull, ...answers] = asList(reply)
          const items: TakenEntry[] = []
          for (const [index, stream] of some.entries()) {
            const [, , isEmpty, isOpen] = asList(answers[index])
            if (this.#emptyDestinations.noteEmpty(stream, String(isEmpty) === '1')) empty.push(stream)
            const own = this.#freshOf(stream, answers[index])
            stream.isBusy = String(isOpen) === '1' && own.length >= shareOf(left.count, some.length)
            for (const entry of own) items.push(entry)
          }
          return { items, bytes: Number(bytes), stopped: String(isFull) === '1' }
        })
        // Entries that were read are claimed by now. If the script fails, the next claim meets the failure.
        const given = await (read.items.length === 0 ? asking : asking.catch(() => nothing))
        return { items: [...read.items, ...given.items], bytes: read.bytes + given.bytes, stopped: given.stopped }
      },
      this.#passedOver.fresh,
    )
    await this.#emptyDestinations.drop(empty)
  }

  /**
   * Reads unread entries with XREADGROUP, if all streams have more of them than a claim takes. It reads several times as fast as a script, whose replies Redis converts to
   * Lua and back, but it has no limit in bytes, and reads entries that were parked unread. So it also reads from the gate of each stream, in which there is never an
   * entry: if one of the gates is closed, Redis refuses the command before it reads anything, and the script is asked.
   */
  async #readBehindGate(
    tag: string,
    wanted: readonly DestinationStream[],
    share: Share,
    request: ClaimRequest,
  ): Promise<Portion<TakenEntry>> {
    const { port, group } = this.#context
    if (wanted.length === 0 || wanted.length > streamsPerScript || !wanted.every((stream) => stream.isBusy)) return nothing
    const count = shareOf(share.count, wanted.length)
    if (count * wanted.length > share.count || share.count * largeEntry > share.maxBytes) return nothing
    const keys = wanted.flatMap((stream) => [stream.keys.gate, stream.keys.entries])
    const args = ['GROUP', group, request.consumer, 'COUNT', String(count), 'STREAMS', ...keys, ...keys.map(() => '>')]
    const command: RedisCommand = { name: 'XREADGROUP', args, keys: keys.map((_, index) => index + 6) }
    const byKey = new Map(wanted.map((stream) => [port.keyPrefix + stream.keys.entries, stream]))
    const itemsOf = (reply: Reply): readonly TakenEntry[] =>
      asList(reply).flatMap((answer) => {
        const [key, entries] = asList(answer)
        const stream = byKey.get(String(key))
        return stream === undefined ? [] : asList(entries).map((entry) => freshEntry(stream, entry))
      })
    let items: readonly TakenEntry[] = []
    let bytes = 0
    try {
      await this.#ask(tag, request, share, {
        send: (onLate) => port.send(command, { binary: true, onLate }),
        bytesOf: (reply) => {
          items = itemsOf(reply)
          bytes = bytesOf(items)
          return bytes
        },
        itemsOf,
      })
    } catch (error) {
      if (!says(error, 'NOGROUP', 'WRONGTYPE', 'NOPERM')) throw error
    }
    // The script tells again which of them have more.
    if (items.length < count * wanted.length) for (const stream of wanted) stream.isBusy = false
    return { items, bytes, stopped: false }
  }

  /** `source`: which claims wait for each other's answers. `bytesAt`: the index in the script's reply of the bytes that it took. */
  async #askScript(
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
    const words = [group, request.consumer, String(share.count), ...byteArguments(share), ...args]
    return await this.#ask(source, request, share, {
      send: (onLate) => port.evaluate(script, keys, words, { binary: true, onLate }),
      bytesOf: (reply) => Number(asList(reply)[bytesAt]),
      itemsOf: entriesOf,
    })
  }

  async #ask(
    source: string | DestinationStream,
    request: ClaimRequest,
    { maxBytes }: Share,
    { send, bytesOf, itemsOf }: Asking,
  ): Promise<Reply> {
    const { lease, maxBytes: claimBytes } = request
    const release = (late: Reply) => this.#releaseLate(itemsOf(late), request)
    return await this.#pace.ask(source, { lease, claimBytes, maxBytes, send, bytesOf, release })
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
    return asList(entries).map((entry) => freshEntry(stream, entry))
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
      return nothing
    }
  }

  #failed(stream: DestinationStream, error: unknown): void {
    if (!stream.failing) this.#context.logger.error({ err: error, stream: stream.keys.entries }, 'A stream of an outbox cannot be read.')
    stream.failing = true
  }
}

/** An entry that was read for the first time: its id and fields, and how many deliveries were no attempts, if an operator stored it with earlier attempts. */
function freshEntry(stream: DestinationStream, entry: Reply): TakenEntry {
  const [id, fields, uncounted] = entry as readonly [Buffer, readonly Buffer[], Buffer?]
  const delivery = uncounted === undefined ? 1 : 2
  return { stream, id: id.toString('latin1'), fields, delivery, uncounted: Number(uncounted ?? 0), unchecked: true }
}

function bytesOf(entries: readonly TakenEntry[]): number {
  let bytes = 0
  for (const { fields } of entries) for (const field of fields) bytes += field.length
  return bytes
}

/** How many of `count` entries the scripts take from each of several streams before they take more from any. */
function shareOf(count: number, streams: number): number {
  return Math.max(1, Math.floor(count / streams))
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
