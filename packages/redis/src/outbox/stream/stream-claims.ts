import { checkCount, checkDuration, groupBy } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore, Outcome } from '@ackord/outbox'
import type { Script } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import { ClaimFailures, failureOf } from '../claim-failures.ts'
import { ClaimRoom } from '../claim-room.ts'
import { failureArguments, unreadableCause } from '../failure-field.ts'
import { readFields } from '../record-fields.ts'
import type { StreamOutboxContext } from './context.ts'
import { type DestinationStream, type DestinationStreams, readToken, tokenOf } from './destination-stream.ts'
import type { EmptyDestinationsOptions } from './empty-destinations.ts'
import { putAside } from './scripts/claim-scripts.ts'
import { releaseHeld, renewHeld, settleHeld } from './scripts/settle-scripts.ts'
import { type ClaimRequest, EntryTaker, type TakenEntry } from './take-entries.ts'

export interface StreamClaimsOptions extends EmptyDestinationsOptions {
  /** Without the lease. */
  readonly consumer: string
}

/** The relay's side of the store: claims records, and renews, releases and settles them. */
export class StreamClaims implements Pick<OutboxStore, 'claim' | 'renew' | 'release' | 'settle'> {
  readonly #context: StreamOutboxContext
  readonly #options: StreamClaimsOptions
  readonly #taker: EntryTaker
  readonly #failures: ClaimFailures

  constructor(context: StreamOutboxContext, options: StreamClaimsOptions) {
    this.#context = context
    this.#options = options
    this.#failures = new ClaimFailures(context.logger)
    // Delayed entries are put aside first: released, they would be ready at once.
    const releaseLate = async (entries: readonly TakenEntry[], request: ClaimRequest) =>
      await this.release(await this.#toRecords(entries, request))
    this.#taker = new EntryTaker(context, options, releaseLate)
  }

  async claim({ limit, maxBytes = Infinity, lease, destinations, except, retried }: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    checkCount('limit', limit)
    checkDuration('lease', lease, { min: 1 })
    checkCount('maxBytes', maxBytes, { infinite: true })
    const most = this.#taker.limit(maxBytes)
    const request: ClaimRequest = {
      consumer: `${this.#options.consumer}/${Math.ceil(lease)}`,
      lease,
      maxBytes: most,
      room: new ClaimRoom(limit, most),
      wants: ({ destination }) => destinations?.includes(destination) !== false && except?.includes(destination) !== true,
    }
    const taken: TakenEntry[] = []
    let failure = await failureOf(this.#taker.take(taken, request, retried))
    const records = await this.#toRecords(taken, request)
    // Entries that are delayed or cannot be read do not keep the others back.
    let isShort = retried !== 'only' && taken.length > records.length && !request.room.isOpen
    let bytes = isShort ? bytesOf(taken, records) : 0
    while (isShort && failure === undefined) {
      const room = new ClaimRoom(limit - records.length, most - bytes, records.length === 0)
      const more: TakenEntry[] = []
      failure = await failureOf(this.#taker.takeFresh(more, { ...request, room }))
      const given = await this.#toRecords(more, request)
      records.push(...given)
      bytes += bytesOf(more, given)
      isShort = more.length > given.length && !room.isOpen && records.length < limit
    }
    this.#taker.advance(new Set(records.map(({ destination }) => destination)).size)
    return this.#failures.recordsOf(records, failure)
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const lost = await this.#runFenced(renewHeld, claims, () => ['r'], [String(Math.ceil(lease))])
    return claims.map((claim) => !lost.has(claim))
  }

  async release(claims: readonly Claim[]): Promise<void> {
    await this.#runFenced(releaseHeld, claims, () => ['r'])
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const lost = await this.#runFenced(settleHeld, outcomes, wordsOf)
    return outcomes.map((outcome) => (lost.has(outcome) ? 'lost' : 'applied'))
  }

  /** Reads the entries as records. Delayed ones are put aside, and those that cannot be read are parked. */
  async #toRecords(taken: readonly TakenEntry[], { consumer }: ClaimRequest): Promise<ClaimedRecord[]> {
    const { codec } = this.#context
    const records: ClaimedRecord[] = []
    const delayed: (readonly [TakenEntry, number])[] = []
    const unreadable: (readonly [TakenEntry, string])[] = []
    const firstToken = tokenOf(this.#options.consumer, 1)
    for (const entry of taken) {
      const { stream, id, delivery } = entry
      const { message, problem, delay } = readFields(entry.fields, codec)
      if (delay > 0 && entry.unchecked) delayed.push([entry, delay])
      if (problem !== undefined) {
        unreadable.push([entry, problem])
        continue
      }
      const createdAt = createdAtOf(id)
      records.push({
        id: stream.idOf(id),
        token: delivery === 1 ? firstToken : tokenOf(this.#options.consumer, delivery),
        destination: stream.destination,
        message,
        attempts: delivery - entry.uncounted,
        createdAt,
        age: this.#taker.ageOf(stream, createdAt),
      })
    }
    // An entry that cannot be parked or put aside now is found again when its lease has run out; the others do not wait for that.
    if (unreadable.length > 0) await this.#park(unreadable).catch((error: unknown) => this.#failures.warn(error))
    if (delayed.length === 0) return records
    const early = await this.#putAside(delayed, consumer).catch((error: unknown) => {
      this.#failures.warn(error)
      return new Set(delayed.map(([{ stream, id }]) => stream.idOf(id)))
    })
    return records.filter(({ id }) => !early.has(id))
  }

  async #putAside(delayed: readonly (readonly [TakenEntry, number])[], consumer: string): Promise<ReadonlySet<string>> {
    const { port, group } = this.#context
    const early = new Set<string>()
    for (const stream of new Set(delayed.map(([entry]) => entry.stream))) {
      const own = delayed.filter(([entry]) => entry.stream === stream).flatMap(([{ id }, delay]) => [id, String(delay)])
      for (const id of asList(await port.evaluate(putAside, stream.allKeys, [group, consumer, ...own]))) early.add(stream.idOf(String(id)))
    }
    return early
  }

  async #park(unreadable: readonly (readonly [TakenEntry, string])[]): Promise<void> {
    const { logger, metrics } = this.#context
    const outcomes = unreadable.map(([{ stream, id: entry, delivery }, problem]): Outcome => {
      const id = stream.idOf(entry)
      logger.error({ id, stream: stream.keys.entries }, `An outbox record is parked. ${problem}`)
      metrics?.count('ackord.outbox.unreadable', 1, { destination: stream.destination })
      return { id, token: tokenOf(this.#options.consumer, delivery), result: 'parked', error: problem, cause: unreadableCause }
    })
    await this.settle(outcomes)
  }

  /** Runs a script for all claims, once per tag. Resolves to the claims that no longer hold, or never did. */
  async #runFenced<C extends Claim>(
    script: Script,
    claims: readonly C[],
    words: (claim: C) => readonly string[],
    last: readonly string[] = [],
  ): Promise<ReadonlySet<C>> {
    const { port, group, streams } = this.#context
    const { groups, lost } = claimsByStream(streams, claims)
    const running = groupBy(groups, ({ stream }) => stream.tag).map(async ([, own]) => {
      const keys = own.flatMap(({ stream }) => stream.allKeys)
      const args = [group, ...own.flatMap((one) => argumentsOf(one, words)), ...last]
      const reply = asList(await port.evaluate(script, keys, args))
      if (reply.length === 0) return
      const inOrder = own.flatMap(({ claims: held }) => held)
      for (const index of reply) lost.add((inOrder[Number(index)] as StreamClaim<C>).claim)
    })
    await Promise.all(running)
    return lost
  }
}

/** The size of the entries that became records. */
function bytesOf(taken: readonly TakenEntry[], records: readonly ClaimedRecord[]): number {
  if (records.length === 0) return 0
  const ids = new Set(records.map(({ id }) => id))
  let bytes = 0
  for (const { stream, id, fields } of taken) if (ids.has(stream.idOf(id))) for (const field of fields) bytes += field.length
  return bytes
}

function wordsOf(outcome: Outcome): readonly string[] {
  if (outcome.result === 'published') return ['p']
  const failure = failureArguments(outcome.error, outcome.cause)
  if (outcome.result === 'parked') return ['k', ...failure]
  checkDuration('retryAfter', outcome.retryAfter)
  return ['f', String(Math.ceil(outcome.retryAfter)), ...failure]
}

function createdAtOf(entry: string): number {
  return Number(entry.slice(0, entry.indexOf('-')))
}

/** A claim, and the entry of its record. */
interface StreamClaim<C extends Claim> {
  readonly claim: C
  /** The id of its entry in the stream. */
  readonly entry: string
  /** The delivery count of the entry at the time of the claim. */
  readonly delivery: number
}

/** The claims of one relay on one stream, in the order of the stream. */
interface StreamClaimGroup<C extends Claim> {
  readonly stream: DestinationStream
  readonly consumer: string
  readonly claims: StreamClaim<C>[]
}

/** Groups claims by their stream and their relay. `lost`: those that this outbox cannot have made. */
function claimsByStream<C extends Claim>(
  streams: DestinationStreams,
  claims: readonly C[],
): { readonly groups: readonly StreamClaimGroup<C>[]; readonly lost: Set<C> } {
  const groups = new Map<string, StreamClaimGroup<C>>()
  const lost = new Set<C>()
  // Most claims are in the group of the one before.
  let group: StreamClaimGroup<C> | undefined
  let token: string | undefined
  let delivery = 0
  for (const claim of claims) {
    const { id } = claim
    if (group === undefined || claim.token !== token || !id.endsWith(group.stream.suffix)) {
      const read = readToken(claim.token)
      const found = streams.find(id)
      if (read === undefined || found === undefined) {
        lost.add(claim)
        continue
      }
      const name = `${read.consumer}${found.stream.suffix}`
      group = groups.get(name) ?? { stream: found.stream, consumer: read.consumer, claims: [] }
      groups.set(name, group)
      token = claim.token
      delivery = read.delivery
    }
    group.claims.push({ claim, entry: id.slice(0, -group.stream.suffix.length), delivery })
  }
  for (const { claims: own } of groups.values()) if (!isInOrder(own)) own.sort((one, other) => compareEntries(one.entry, other.entry))
  return { groups: [...groups.values()], lost }
}

/** The arguments of the scripts: the consumer, the ids, a word for each or one for all, and the arguments of the words. */
function argumentsOf<C extends Claim>(
  { consumer, claims }: StreamClaimGroup<C>,
  wordsOf: (claim: C) => readonly string[],
): readonly string[] {
  const words: string[] = []
  const more: string[] = []
  let ids = ''
  let same = true
  for (const { claim, entry, delivery } of claims) {
    const [letter, ...others] = wordsOf(claim)
    const word = `${delivery}${letter}`
    same &&= words.length === 0 || word === words[0]
    words.push(word)
    for (const other of others) more.push(other)
    ids += ` ${entry}`
  }
  return [consumer, ids, same ? (words[0] ?? '') : words.join(' '), ...more]
}

function isInOrder<C extends Claim>(claims: readonly StreamClaim<C>[]): boolean {
  for (let index = 1; index < claims.length; index += 1) {
    if (compareEntries((claims[index - 1] as StreamClaim<C>).entry, (claims[index] as StreamClaim<C>).entry) > 0) return false
  }
  return true
}

/** Compares ids in the order of the stream: two numbers each, without leading zeros. */
function compareEntries(one: string, other: string): number {
  // A dash sorts before all digits, so that strings of the same length compare as their numbers do.
  if (one.length === other.length) return one < other ? -1 : one > other ? 1 : 0
  const [ms = '', seq = ''] = one.split('-')
  const [otherMs = '', otherSeq = ''] = other.split('-')
  return compareNumbers(ms, otherMs) || compareNumbers(seq, otherSeq)
}

function compareNumbers(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
