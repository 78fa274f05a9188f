import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import type { Reply } from '../port.ts'
import { asList } from '../reply.ts'
import type { Script } from '../script.ts'
import { says } from '../streams/error-text.ts'
import { putAside, takeDue, takeOver } from './claim-scripts.ts'
import { fillInShares } from './fill-in-shares.ts'
import { argumentsOf, groupByTag, type HeldClaim, sortIntoHands } from './hands.ts'
import { type Lane, tokenOf } from './lane.ts'
import { withGroups } from './lane-group.ts'
import type { OutboxHome } from './outbox-home.ts'
import { releaseHeld, renewHeld, settleHeld } from './settle-scripts.ts'
import { readFields } from './stream-record.ts'

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
  readonly limit: number
  readonly wants: (lane: Lane) => boolean
}

/** How many pending entries, and how many lanes, one script looks at: others wait meanwhile. */
const lookedAt = 1000
const lanesAtOnce = 500

/** The relay's side of the store. */
export class StreamClaims implements Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  readonly #home: OutboxHome
  readonly #options: StreamClaimsOptions
  /** Which lane is asked first: another one each time. */
  #turn = 0
  /** Whether the last claim did only a part, which is logged once. */
  #complained = false

  constructor(home: OutboxHome, options: StreamClaimsOptions) {
    this.#home = home
    this.#options = options
  }

  async claim({ limit, lease, destinations, except, retried }: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    checkCount('limit', limit)
    checkDuration('lease', lease, { min: 1 })
    const asked: Asked = {
      consumer: `${this.#options.consumer}/${Math.ceil(lease)}`,
      limit,
      wants: ({ destination }) => destinations?.includes(destination) !== false && except?.includes(destination) !== true,
    }
    this.#turn += 1
    const taken: TakenEntry[] = []
    let failure = await failureOf(this.#takeAny(taken, asked, retried))
    const records = await this.#given(taken, asked)
    // Those that are delayed or cannot be read do not stand before the others.
    for (let full = retried !== 'only' && taken.length >= limit; full && failure === undefined && records.length < limit; ) {
      const left = limit - records.length
      const more: TakenEntry[] = []
      failure = await failureOf(this.#read(more, { ...asked, limit: left }))
      records.push(...(await this.#given(more, asked)))
      full = more.length >= left
    }
    // What was taken before something failed is leased by now: kept back, it would wait until that has run out.
    if (failure !== undefined && records.length === 0) throw failure.error
    if (failure !== undefined) this.#complain(failure.error)
    else this.#complained = false
    return records
  }

  async #takeAny(taken: TakenEntry[], asked: Asked, retried: ClaimOptions['retried']): Promise<void> {
    const { limit } = asked
    await this.#takeDue(taken, asked, retried)
    if (retried !== 'never' && taken.length < limit) await this.#takeOver(taken, { ...asked, limit: limit - taken.length })
    if (retried !== 'only' && taken.length < limit) await this.#read(taken, { ...asked, limit: limit - taken.length })
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
    const { port, lanes, group } = this.#home
    const flags = [retried === 'only' ? '0' : '1', retried === 'never' ? '0' : '1']

    const take = async (tag: string, from: readonly Lane[], limit: number): Promise<readonly TakenEntry[]> => {
      const wanted = this.#inTurn(from.filter(asked.wants))
      const entries: TakenEntry[] = []
      let learnt: readonly Lane[] = []
      for (let start = 0; start === 0 || (start < wanted.length && entries.length < limit); start += lanesAtOnce) {
        const some = wanted.slice(start, start + lanesAtOnce)
        const keys = [lanes.destinationsKey(tag), ...some.flatMap((lane) => lane.allKeys)]
        const args = [group, asked.consumer, String(limit - entries.length), ...flags, start === 0 ? '1' : '0']
        const call = () => port.evaluate(takeDue, keys, args, { binary: true })
        const [names, ...answers] = asList(await withGroups(this.#home, some, call))
        if (start === 0) learnt = lanes.learn(tag, asList(names).map(String))
        for (const [index, lane] of some.entries()) entries.push(...this.#entriesOf(lane, answers[index]))
      }
      // Of those that are new nothing was asked for.
      if (!learnt.some(asked.wants) || entries.length >= limit) return entries
      return [...entries, ...(await take(tag, learnt, limit - entries.length))]
    }
    await fillInShares(taken, this.#inTurn(lanes.tags), asked.limit, (tag, count) => take(tag, lanes.of(tag), count))
  }

  /** What others held, and did not settle or renew in time. */
  async #takeOver(taken: TakenEntry[], asked: Asked): Promise<void> {
    const { port, group } = this.#home
    const { idleTime } = this.#options

    const look = async (lane: Lane, limit: number): Promise<readonly TakenEntry[]> => {
      const found: TakenEntry[] = []
      // One that goes on where another ended has not seen what is before that.
      let fromStart = lane.cursor === undefined
      for (;;) {
        const cursor = lane.cursor ?? ['', '-']
        const settings = [idleTime, lookedAt].map(String)
        const args = [group, asked.consumer, String(limit - found.length), ...settings, ...cursor]
        const reply = asList(await withGroups(this.#home, [lane], () => port.evaluate(takeOver, lane.allKeys, args, { binary: true })))
        found.push(...this.#entriesOf(lane, reply, true))
        const name = String(reply[2])
        lane.cursor = name === '' ? undefined : [name, String(reply[3])]
        if (found.length >= limit || (name === '' && fromStart)) return found
        fromStart ||= name === ''
      }
    }
    const due = this.#wanted(asked).filter((lane) => this.#mayLook(lane))
    await fillInShares(taken, due, asked.limit, (lane, count) => this.#orNothing(lane, () => look(lane, count)))
  }

  /** What nobody has read yet. */
  async #read(taken: TakenEntry[], asked: Asked): Promise<void> {
    const { port, group } = this.#home
    await fillInShares(taken, this.#wanted(asked), asked.limit, async (lane, count) => {
      const { stream } = lane.keys
      const args = ['GROUP', group, asked.consumer, 'COUNT', String(count), 'STREAMS', stream, '>']
      const call = () => port.send({ name: 'XREADGROUP', args, keys: [6] }, { binary: true })
      const reply = await this.#orNothing(lane, async () => asList(await withGroups(this.#home, [lane], call)))
      const entries = asList(asList(reply[0])[1])
      return entries.map((entry) => {
        const [id, fields] = entry as readonly [Buffer, readonly Buffer[]]
        return { lane, id: id.toString('latin1'), fields, delivery: 1, uncounted: 0, unchecked: true }
      })
    })
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

  #wanted({ wants }: Asked): readonly Lane[] {
    const { lanes } = this.#home
    return this.#inTurn(lanes.tags.flatMap((tag) => lanes.of(tag)).filter(wants))
  }

  #inTurn<T>(all: readonly T[]): readonly T[] {
    if (all.length < 2) return all
    const first = this.#turn % all.length
    return [...all.slice(first), ...all.slice(0, first)]
  }

  #mayLook(lane: Lane): boolean {
    const now = this.#home.runtime.now()
    if (lane.cursor === undefined && now - lane.lookedAt < this.#options.claimInterval) return false
    lane.lookedAt = now
    return true
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
      return { lane, id: String(id), fields, delivery: Number(delivery), uncounted: Number(uncounted), unchecked }
    })
  }

  /** A lane that cannot be read, such as one whose key holds something else, does not keep the others from being read. */
  async #orNothing<T>(lane: Lane, work: () => Promise<readonly T[]>): Promise<readonly T[]> {
    try {
      const things = await work()
      lane.failing = false
      return things
    } catch (error) {
      if (!says(error, 'WRONGTYPE')) throw error
      this.#failed(lane, error)
      return []
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
