import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import type { Reply, Script } from '../../client/port.ts'
import { asList, says } from '../../client/reply.ts'
import { ClaimPace } from '../claim-pace.ts'
import { byteArguments, ClaimRoom, type Given, type Share } from '../claim-room.ts'
import { fillInShares } from '../fair-shares.ts'
import { readFields } from '../record-fields.ts'
import { argumentsOf, groupByTag, type HeldClaim, sortIntoHands } from './claims-by-stream.ts'
import type { OutboxHome } from './context.ts'
import { type Lane, tokenOf } from './destination-stream.ts'
import { dropEmpty, longEmpty, putAside, takeDue, takeFresh, takeOver } from './scripts/claim-scripts.ts'
import { releaseHeld, renewHeld, settleHeld } from './scripts/settle-scripts.ts'

export interface StreamClaimsOptions {
  /** Without the lease. */
  readonly consumer: string
  readonly claimInterval: number
  readonly idleTime: number
}

/** An entry that was claimed. */
interface TakenEntry {
  readonly lane: Lane
  readonly id: string
  readonly fields: readonly Buffer[]
  readonly delivery: number
  readonly uncounted: number
  /** Whether it may have been read before its time. */
  readonly unchecked: boolean
}

interface Asked {
  readonly consumer: string
  readonly lease: number
  /** The most bytes that the claim may take. */
  readonly maxBytes: number
  readonly room: ClaimRoom
  readonly wants: (lane: Lane) => boolean
}

/** How many pending entries, and how many lanes, one script looks at: others wait meanwhile. */
const lookedAt = 1000
const lanesAtOnce = 500
/** How many destinations that have been empty for long are deleted at once. */
const deletedAtOnce = 100

/** The relay's side of the store. */
export class StreamClaims implements Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  readonly #home: OutboxHome
  readonly #options: StreamClaimsOptions
  readonly #pace: ClaimPace
  /** Tags whose next record was too large for what the others left: of those that were read before, and of new ones. */
  readonly #passedOver = { due: new Set<string>(), fresh: new Set<string>() }
  /** Which tag and which lane is asked first: another one each time. */
  #turn = 0
  #laneTurn = 0
  /** When keys of empty destinations were last deleted, by the monotonic clock. */
  #sweptAt: number
  /** Whether the last claim did only a part, which is logged once. */
  #complained = false

  constructor(home: OutboxHome, options: StreamClaimsOptions) {
    this.#home = home
    this.#options = options
    this.#pace = new ClaimPace(home.runtime)
    this.#sweptAt = home.runtime.monotonic()
  }

  async claim({ limit, maxBytes = Infinity, lease, destinations, except, retried }: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    checkCount('limit', limit)
    checkDuration('lease', lease, { min: 1 })
    checkCount('maxBytes', maxBytes, { infinite: true })
    const most = this.#pace.limit(maxBytes)
    const asked: Asked = {
      consumer: `${this.#options.consumer}/${Math.ceil(lease)}`,
      lease,
      maxBytes: most,
      room: new ClaimRoom(limit, most),
      wants: ({ destination }) => destinations?.includes(destination) !== false && except?.includes(destination) !== true,
    }
    this.#turn += 1
    const taken: TakenEntry[] = []
    let failure = await failureOf(this.#takeAny(taken, asked, retried))
    const records = await this.#given(taken, asked)
    // Those that are delayed or cannot be read do not stand before the others.
    let isShort = retried !== 'only' && taken.length > records.length && !asked.room.isOpen
    let bytes = isShort ? bytesOf(taken, records) : 0
    while (isShort && failure === undefined) {
      const room = new ClaimRoom(limit - records.length, most - bytes, records.length === 0)
      const more: TakenEntry[] = []
      failure = await failureOf(this.#takeFresh(more, { ...asked, room }))
      const given = await this.#given(more, asked)
      records.push(...given)
      bytes += bytesOf(more, given)
      isShort = more.length > given.length && !room.isOpen && records.length < limit
    }
    this.#laneTurn += Math.max(1, new Set(records.map(({ destination }) => destination)).size)
    // What was taken before something failed is leased by now: kept back, it would wait until that has run out.
    if (failure !== undefined && records.length === 0) throw failure.error
    if (failure !== undefined) this.#complain(failure.error)
    else this.#complained = false
    return records
  }

  async #takeAny(taken: TakenEntry[], asked: Asked, retried: ClaimOptions['retried']): Promise<void> {
    const { room } = asked
    await this.#takeDue(taken, asked, retried)
    if (retried !== 'never' && room.isOpen) await this.#takeOver(taken, asked)
    if (retried !== 'only' && room.isOpen) await this.#takeFresh(taken, asked)
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const lost = await this.#fenced(renewHeld, claims, () => ['r'], [String(Math.ceil(lease))])
    return claims.map((claim) => !lost.has(claim))
  }

  async release(claims: readonly Claim[]): Promise<void> {
    await this.#fenced(releaseHeld, claims, () => ['r'])
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const lost = await this.#fenced(settleHeld, outcomes, wordsOf)
    return outcomes.map((outcome) => (lost.has(outcome) ? 'lost' : 'applied'))
  }

  /** What was given back, delayed or failed, and whose time has come. Learns which destinations there are. */
  async #takeDue(taken: TakenEntry[], asked: Asked, retried: ClaimOptions['retried']): Promise<void> {
    const { lanes } = this.#home
    const flags = [retried === 'only' ? '0' : '1', retried === 'never' ? '0' : '1']

    const take = async (tag: string, from: readonly Lane[], share: Share): Promise<Given<TakenEntry>> => {
      const wanted = this.#inTurn(from.filter(asked.wants), this.#laneTurn)
      let learnt: readonly Lane[] = []
      const given = await this.#inChunks(wanted, share, true, async (some, left, isFirst) => {
        const keys = [lanes.destinationsKey(tag), ...some.flatMap((lane) => lane.allKeys)]
        const reply = await this.#ask(tag, takeDue, keys, [...flags, isFirst ? '1' : '0'], asked, left, 1, (late) =>
          some.flatMap((lane, index) => this.#entriesOf(lane, asList(late)[index + 3])),
        )
        const [names, bytes, isFull, ...answers] = asList(reply)
        if (isFirst) learnt = lanes.learn(tag, asList(names).map(String))
        const things = some.flatMap((lane, index) => this.#entriesOf(lane, answers[index]))
        return { things, bytes: Number(bytes), stopped: String(isFull) === '1' }
      })
      // Of those that are new nothing was asked for.
      if (given.stopped || !learnt.some(asked.wants) || given.things.length >= share.count) return given
      const more = await take(tag, learnt, leftOf(share, given))
      return { things: [...given.things, ...more.things], bytes: given.bytes + more.bytes, stopped: more.stopped }
    }
    await fillInShares(
      taken,
      this.#inTurn(lanes.tags, this.#turn),
      asked.room,
      (tag, share) => take(tag, lanes.of(tag), share),
      this.#passedOver.due,
    )
  }

  /** What others held, and did not settle or renew in time. */
  async #takeOver(taken: TakenEntry[], asked: Asked): Promise<void> {
    const settings = [this.#options.idleTime, lookedAt].map(String)

    const look = async (lane: Lane, share: Share): Promise<Given<TakenEntry>> => {
      const things: TakenEntry[] = []
      let bytes = 0
      // One that goes on where another ended has not seen what is before that.
      let fromStart = lane.cursor === undefined
      for (;;) {
        const args = [...settings, ...(lane.cursor ?? ['', '-'])]
        const left = leftOf(share, { things, bytes })
        const answer = await this.#ask(lane, takeOver, lane.allKeys, args, asked, left, 4, (late) => this.#entriesOf(lane, late, true))
        const reply = asList(answer)
        things.push(...this.#entriesOf(lane, reply, true))
        bytes += Number(reply[4])
        const stopped = String(reply[5]) === '1'
        const name = String(reply[2])
        lane.cursor = name === '' ? undefined : [name, String(reply[3])]
        if (stopped || things.length >= share.count || (name === '' && fromStart)) return { things, bytes, stopped }
        fromStart ||= name === ''
      }
    }
    const { lanes } = this.#home
    const wanted = lanes.tags.flatMap((tag) => lanes.of(tag)).filter(asked.wants)
    const due = this.#inTurn(wanted, this.#laneTurn).filter((lane) => this.#mayLook(lane))
    await fillInShares(taken, due, asked.room, (lane, share) => this.#orNothing(lane, () => look(lane, share)))
  }

  /** What nobody has read yet. Drops destinations that have been empty for a while. */
  async #takeFresh(taken: TakenEntry[], asked: Asked): Promise<void> {
    const { lanes } = this.#home
    const empty: Lane[] = []
    await fillInShares(
      taken,
      this.#inTurn(lanes.tags, this.#turn),
      asked.room,
      async (tag, share) => {
        const wanted = this.#inTurn(lanes.of(tag).filter(asked.wants), this.#laneTurn)
        return await this.#inChunks(wanted, share, false, async (some, left) => {
          const keys = some.flatMap((lane) => lane.allKeys)
          const reply = await this.#ask(tag, takeFresh, keys, [], asked, left, 0, (late) =>
            some.flatMap((lane, index) => this.#freshOf(lane, asList(late)[index + 2])),
          )
          const [bytes, isFull, ...answers] = asList(reply)
          for (const [index, lane] of some.entries()) if (this.#hasLongBeenEmpty(lane, answers[index])) empty.push(lane)
          const things = some.flatMap((lane, index) => this.#freshOf(lane, answers[index]))
          return { things, bytes: Number(bytes), stopped: String(isFull) === '1' }
        })
      },
      this.#passedOver.fresh,
    )
    await this.#dropEmpty(empty)
  }

  /** Asks for the lanes of a tag, some at a time, until there is enough. `evenIfNone`: once also without a lane. */
  async #inChunks(
    wanted: readonly Lane[],
    share: Share,
    evenIfNone: boolean,
    ask: (some: readonly Lane[], left: Share, isFirst: boolean) => Promise<Given<TakenEntry>>,
  ): Promise<Given<TakenEntry>> {
    const things: TakenEntry[] = []
    let bytes = 0
    for (let start = 0; start < wanted.length || (start === 0 && evenIfNone); start += lanesAtOnce) {
      const given = await ask(wanted.slice(start, start + lanesAtOnce), leftOf(share, { things, bytes }), start === 0)
      things.push(...given.things)
      bytes += given.bytes
      if (given.stopped) return { things, bytes, stopped: true }
      if (things.length >= share.count) break
    }
    return { things, bytes, stopped: false }
  }

  /** `placeOfBytes`: where the reply of the script has the bytes of what it took. */
  async #ask(
    place: string | Lane,
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    asked: Asked,
    share: Share,
    placeOfBytes: number,
    entriesOf: (late: Reply) => readonly TakenEntry[],
  ): Promise<Reply> {
    const { port, group } = this.#home
    const { consumer, lease, maxBytes: claimBytes } = asked
    const words = [group, consumer, String(share.count), ...byteArguments(share), ...args]
    return await this.#pace.ask(place, {
      lease,
      claimBytes,
      maxBytes: share.maxBytes,
      send: (onLate) => port.evaluate(script, keys, words, { binary: true, onLate }),
      bytesOf: (reply) => Number(asList(reply)[placeOfBytes]),
      // Those whose time has not come are put aside: released, they would be ready at once.
      release: async (late) => this.release(await this.#given(entriesOf(late), asked)),
    })
  }

  /** A destination that is used now and then stays in the set: to find it again costs another call. */
  #hasLongBeenEmpty(lane: Lane, answer: Reply | undefined): boolean {
    const isEmpty = Array.isArray(answer) && String(answer[2]) === '1'
    const now = this.#home.runtime.monotonic()
    if (!isEmpty) lane.emptySince = undefined
    else lane.emptySince ??= now
    return lane.emptySince !== undefined && now - lane.emptySince >= this.#options.claimInterval
  }

  /** These leave the set of destinations, unless something was stored meanwhile. What is kept of those that left it long ago is deleted. */
  async #dropEmpty(empty: readonly Lane[]): Promise<void> {
    const { port, lanes, runtime } = this.#home
    const { idleTime } = this.#options
    const isDue = runtime.monotonic() - this.#sweptAt >= idleTime
    if (empty.length === 0 && !isDue) return
    const before = this.#sweptAt
    if (isDue) this.#sweptAt = runtime.monotonic()
    for (const tag of lanes.tags) {
      const dropped = empty.filter((lane) => lane.tag === tag)
      if (isDue) {
        const args = [String(idleTime), String(deletedAtOnce)]
        const names = asList(await port.evaluate(longEmpty, [lanes.emptyKey(tag)], args, { binary: true }))
        dropped.push(...names.map((name) => lanes.get(tag, String(name))))
        // There may be more. The next claim goes on, so that destinations that come and go do not pile up.
        if (names.length === deletedAtOnce) this.#sweptAt = before
      }
      for (let start = 0; start < dropped.length; start += lanesAtOnce) {
        await this.#drop(tag, dropped.slice(start, start + lanesAtOnce))
      }
    }
  }

  async #drop(tag: string, dropped: readonly Lane[]): Promise<void> {
    const { port, lanes, group } = this.#home
    const keys = [lanes.destinationsKey(tag), lanes.emptyKey(tag), ...dropped.flatMap((lane) => lane.allKeys)]
    const names = dropped.map(({ destination }) => destination)
    await port.evaluate(dropEmpty, keys, [group, String(this.#options.idleTime), ...names])
  }

  /** As records, without those that wait for their time still, which are put aside, and those that cannot be read, which are parked. */
  async #given(taken: readonly TakenEntry[], { consumer }: Asked): Promise<ClaimedRecord[]> {
    const { codec } = this.#home
    const records: ClaimedRecord[] = []
    const delayed: (readonly [TakenEntry, number])[] = []
    const unreadable: (readonly [TakenEntry, string])[] = []
    const firstToken = tokenOf(this.#options.consumer, 1)
    for (const entry of taken) {
      const { lane, id, delivery } = entry
      const { message, problem, delay } = readFields(entry.fields, codec)
      if (delay > 0 && entry.unchecked) delayed.push([entry, delay])
      if (problem !== undefined) {
        unreadable.push([entry, problem])
        continue
      }
      records.push({
        id: lane.idOf(id),
        token: delivery === 1 ? firstToken : tokenOf(this.#options.consumer, delivery),
        destination: lane.destination,
        message,
        attempts: delivery - entry.uncounted,
        createdAt: createdAt(id),
      })
    }
    // What cannot be put away now is found again when its lease has run out; the others are not to wait for that.
    if (unreadable.length > 0) await this.#park(unreadable).catch((error: unknown) => this.#complain(error))
    if (delayed.length === 0) return records
    const early = await this.#putAside(delayed, consumer).catch((error: unknown) => {
      this.#complain(error)
      return new Set(delayed.map(([{ lane, id }]) => lane.idOf(id)))
    })
    return records.filter(({ id }) => !early.has(id))
  }

  async #putAside(delayed: readonly (readonly [TakenEntry, number])[], consumer: string): Promise<ReadonlySet<string>> {
    const { port, group } = this.#home
    const early = new Set<string>()
    for (const lane of new Set(delayed.map(([entry]) => entry.lane))) {
      const own = delayed.filter(([entry]) => entry.lane === lane).flatMap(([{ id }, delay]) => [id, String(delay)])
      for (const id of asList(await port.evaluate(putAside, lane.allKeys, [group, consumer, ...own]))) early.add(lane.idOf(String(id)))
    }
    return early
  }

  async #park(unreadable: readonly (readonly [TakenEntry, string])[]): Promise<void> {
    const { logger, metrics } = this.#home
    const outcomes = unreadable.map(([{ lane, id: entry, delivery }, problem]): Outcome => {
      const id = lane.idOf(entry)
      logger.error({ id, stream: lane.keys.stream }, `An outbox record is parked. ${problem}`)
      metrics?.count('ackord.outbox.unreadable', 1, { destination: lane.destination })
      return { id, token: tokenOf(this.#options.consumer, delivery), result: 'parked', error: problem }
    })
    await this.settle(outcomes)
  }

  /** Runs a script for all claims of a tag that can be ours. Gives those that do not hold, however it came to that. */
  async #fenced<C extends Claim>(
    script: Script,
    claims: readonly C[],
    words: (claim: C) => readonly string[],
    last: readonly string[] = [],
  ): Promise<ReadonlySet<C>> {
    const { port, group, lanes } = this.#home
    const { hands, lost } = sortIntoHands(lanes, claims)
    const byTag = groupByTag(hands)
    const running = Array.from(byTag.values(), async (own) => {
      const keys = own.flatMap(({ lane }) => lane.allKeys)
      const args = [group, ...own.flatMap((hand) => argumentsOf(hand, words)), ...last]
      const reply = asList(await port.evaluate(script, keys, args))
      if (reply.length === 0) return
      const inOrder = own.flatMap(({ held }) => held)
      for (const place of reply) lost.add((inOrder[Number(place)] as HeldClaim<C>).claim)
    })
    await Promise.all(running)
    return lost
  }

  #inTurn<T>(all: readonly T[], turn: number): readonly T[] {
    if (all.length < 2) return all
    const first = turn % all.length
    return [...all.slice(first), ...all.slice(0, first)]
  }

  #mayLook(lane: Lane): boolean {
    const now = this.#home.runtime.monotonic()
    if (lane.cursor === undefined && now - lane.lookedAt < this.#options.claimInterval) return false
    lane.lookedAt = now
    return true
  }

  /** Of a reply that has the entries first, then how many were parked in a group that was lost. */
  #freshOf(lane: Lane, answer: Reply | undefined): readonly TakenEntry[] {
    if (!Array.isArray(answer)) {
      this.#failed(lane, String(answer))
      return []
    }
    const [entries, parked] = answer as readonly Reply[]
    lane.failing = false
    if (Number(parked) > 0) {
      const text = 'The consumer group of an outbox was gone and is made anew. All that is in its stream comes again, also what was parked.'
      this.#home.logger.warn({ stream: lane.keys.stream, group: this.#home.group, parked: Number(parked) }, text)
    }
    return asList(entries).map((entry) => {
      const [id, fields, uncounted] = entry as readonly [Buffer, readonly Buffer[], Buffer?]
      const delivery = uncounted === undefined ? 1 : 2
      return { lane, id: id.toString('latin1'), fields, delivery, uncounted: Number(uncounted ?? 0), unchecked: true }
    })
  }

  /** Of a reply that has the entries first and then the ids of those that are gone. */
  #entriesOf(lane: Lane, answer: Reply | undefined, unchecked = false): readonly TakenEntry[] {
    const { logger, metrics } = this.#home
    if (!Array.isArray(answer)) {
      this.#failed(lane, String(answer))
      return []
    }
    const reply: readonly Reply[] = answer
    const gone = asList(reply[1]).map(String)
    if (gone.length > 0) {
      const text = 'Outbox records are lost: their entries were trimmed or deleted by somebody else before they were published.'
      logger.error({ stream: lane.keys.stream, entries: gone }, text)
      metrics?.count('ackord.outbox.trimmed', gone.length, { destination: lane.destination })
    }
    return asList(reply[0]).map((entry) => {
      const [id, fields, delivery, uncounted] = entry as readonly [Buffer, readonly Buffer[], number, number]
      // One that was given back, put aside or re-armed may be published, whatever its delay says.
      const isChecked = !unchecked || Number(uncounted) > 0
      return { lane, id: String(id), fields, delivery: Number(delivery), uncounted: Number(uncounted), unchecked: !isChecked }
    })
  }

  /** A lane that cannot be read, such as one whose key holds something else, does not keep the others from being read. */
  async #orNothing<T>(lane: Lane, work: () => Promise<Given<T>>): Promise<Given<T>> {
    try {
      const given = await work()
      lane.failing = false
      return given
    } catch (error) {
      if (!says(error, 'WRONGTYPE')) throw error
      this.#failed(lane, error)
      return { things: [], bytes: 0, stopped: false }
    }
  }

  #complain(error: unknown): void {
    const text = 'A part of the records of an outbox could not be claimed; they are tried again, and the others are published.'
    if (!this.#complained) this.#home.logger.warn({ err: error }, text)
    this.#complained = true
  }

  #failed(lane: Lane, error: unknown): void {
    if (!lane.failing) this.#home.logger.error({ err: error, stream: lane.keys.stream }, 'A stream of an outbox cannot be read.')
    lane.failing = true
  }
}

function leftOf(share: Share, { things, bytes }: Pick<Given<unknown>, 'things' | 'bytes'>): Share {
  return {
    count: share.count - things.length,
    maxBytes: Math.max(0, share.maxBytes - bytes),
    atLeastOne: share.atLeastOne && things.length === 0,
  }
}

/** The size of those that became records. */
function bytesOf(taken: readonly TakenEntry[], records: readonly ClaimedRecord[]): number {
  if (records.length === 0) return 0
  const ids = new Set(records.map(({ id }) => id))
  let bytes = 0
  for (const { lane, id, fields } of taken) if (ids.has(lane.idOf(id))) for (const field of fields) bytes += field.length
  return bytes
}

function wordsOf(outcome: Outcome): readonly string[] {
  if (outcome.result === 'published') return ['p']
  const error = shortened(outcome.error)
  if (outcome.result === 'parked') return ['k', error]
  checkDuration('retryAfter', outcome.retryAfter)
  return ['f', String(Math.ceil(outcome.retryAfter)), error]
}

async function failureOf(work: Promise<void>): Promise<{ readonly error: unknown } | undefined> {
  try {
    await work
    return undefined
  } catch (error) {
    return { error }
  }
}

/** Nobody reads more than this. */
function shortened(error: string): string {
  return error.slice(0, 10_000)
}

function createdAt(entry: string): number {
  return Number(entry.slice(0, entry.indexOf('-')))
}
