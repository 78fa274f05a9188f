import { InvalidOptionError } from '@ackord/core'
import { checkCount, checkDuration, checkFraction, rejectUnknownOptions } from '@ackord/core/internal'
import { type Claim, type ClaimedRecord, type ClaimOptions, type OutboxStore, type Outcome, relayDefaults } from '@ackord/outbox'
import type { Reply } from '../../client/port.ts'
import { asList } from '../../client/reply.ts'
import { ClaimFailures, failureOf } from '../claim-failures.ts'
import { ClaimPace } from '../claim-pace.ts'
import { byteArguments, ClaimRoom, fillInShares, type Portion, type Share } from '../claim-room.ts'
import { failureArguments, unreadableCause } from '../failure-field.ts'
import { type LuaOutboxContext, runOn } from './context.ts'
import type { LuaShard } from './layout.ts'
import { hashDestination, readBody } from './record-body.ts'
import { claimScript } from './scripts/claim.ts'
import { claimOrderedScript } from './scripts/claim-ordered.ts'
import { leaveScript, releaseScript, renewScript } from './scripts/lease.ts'
import type { OutboxScript } from './scripts/prelude.ts'
import { settleScript } from './scripts/settle.ts'

/** How many further records one script reads: other clients wait meanwhile. */
const budget = 1000

/** With order per key: how many scripts search for keys with claimable records before the next claim goes on. */
const mostSearches = 10
/** The maximum number of destinations for which the key where the next claim begins is remembered. */
const mostCursors = 1000

interface ClaimTerms {
  readonly lease: number
  /** The most bytes that the claim may take. */
  readonly claimBytes: number
  readonly classes: string
  readonly choice: 'all' | 'only' | 'except'
  readonly destinationHashes: string
  readonly behindParked: NonNullable<ClaimOptions['behindParked']>
}

interface Unreadable {
  readonly claim: Claim
  readonly problem: string
}

interface TakenRecord {
  readonly seq: string
  /** For records with an ordering key: the hashes of their destination and key. */
  readonly line: string
  readonly record: ClaimedRecord
}

export interface ClaimRules extends SettleRules {
  /** With order per key: whether one store object at a time polls a shard. */
  readonly exclusive: boolean
}

interface Held<C extends Claim> {
  readonly claim: C
  readonly entry: string
}

/** The relay's side of the store: claims records, and renews, releases and settles them. */
export class LuaClaims implements Pick<OutboxStore, 'renew' | 'release'> {
  readonly #context: LuaOutboxContext
  readonly #rules: ClaimRules
  readonly #tokens: () => string
  readonly #pace: ClaimPace
  readonly #failures: ClaimFailures
  /** The name of this store object among the pollers, with order per key. */
  readonly #name: string
  /** Shards whose next record was too large for the bytes that the others left. */
  readonly #passedOver = new Set<LuaShard>()
  /** Which shard is asked first: another one each time. */
  #turn = 0

  constructor(context: LuaOutboxContext, rules: ClaimRules, tokens: () => string) {
    this.#context = context
    this.#rules = rules
    this.#tokens = tokens
    this.#name = tokens()
    this.#pace = new ClaimPace(context.runtime)
    this.#failures = new ClaimFailures(context.logger)
  }

  async claim({
    limit,
    maxBytes,
    lease,
    destinations,
    except,
    retried,
    behindParked = 'given',
  }: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    checkCount('limit', limit)
    checkDuration('lease', lease, { min: 1 })
    if (maxBytes !== undefined) checkCount('maxBytes', maxBytes, { infinite: true })
    const wanted = destinations?.filter((destination) => except?.includes(destination) !== true)
    const terms: ClaimTerms = {
      lease: Math.ceil(lease),
      claimBytes: this.#pace.limit(maxBytes ?? Infinity),
      classes: { only: 'r', never: 'f', both: 'fr' }[retried ?? 'both'],
      choice: wanted !== undefined ? 'only' : except === undefined || except.length === 0 ? 'all' : 'except',
      destinationHashes: [...new Set(wanted ?? except)].map(hashDestination).join(' '),
      behindParked,
    }
    if (wanted?.length === 0) return []
    this.#turn += 1
    const records: ClaimedRecord[] = []
    const unreadable: Unreadable[] = []
    const shards = this.#context.shards.all
    const first = this.#turn % shards.length
    const inTurn = [...shards.slice(first), ...shards.slice(0, first)]
    const room = new ClaimRoom(limit, terms.claimBytes)
    const take = (shard: LuaShard, share: Share) => this.#take(shard, share, terms, unreadable)
    const failure = await failureOf(fillInShares(records, inTurn, room, take, this.#passedOver))
    // A record that cannot be parked now is found again when its lease has expired; the others do not wait for that.
    if (unreadable.length > 0) await this.#park(unreadable).catch((error: unknown) => this.#failures.warn(error))
    return this.#failures.recordsOf(records, failure)
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const lost = await this.#fenced(renewScript, claims, () => [], [String(Math.ceil(lease))])
    return claims.map((_, index) => !lost.has(index))
  }

  async release(claims: readonly Claim[]): Promise<void> {
    await this.#fenced(releaseScript, claims, () => [])
  }

  /** With order per key: other store objects may claim this object's records at once. */
  async leave(): Promise<void> {
    await Promise.all(this.#context.shards.all.map((shard) => runOn(this.#context, shard, leaveScript, [this.#name])))
  }

  async settle(outcomes: readonly LuaOutcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const settings = settleSettings(this.#rules, this.#context.runtime.random(), this.#context.metrics !== undefined)
    // All outcomes are checked before the first is sent: an invalid one must not leave others settled.
    const words = new Map(outcomes.map((outcome) => [outcome, wordsOf(outcome, this.#rules)]))
    const letters = (held: readonly Held<LuaOutcome>[]) => held.map(({ claim }) => words.get(claim)?.[0] ?? '').join('')
    const more = (held: readonly Held<LuaOutcome>[]) => held.flatMap(({ claim }) => words.get(claim)?.slice(1) ?? [])
    const lost = await this.#fenced(
      settleScript,
      outcomes,
      (held) => [letters(held), ...more(held)],
      settings,
      (reply) => this.#readSettled(reply),
    )
    return outcomes.map((_, index) => (lost.has(index) ? 'lost' : 'applied'))
  }

  /** Until there is enough, or nothing more. A step that moves many records lets other clients run before the next one. */
  async #take(shard: LuaShard, share: Share, terms: ClaimTerms, unreadable: Unreadable[]): Promise<Portion<ClaimedRecord>> {
    const taken: TakenRecord[] = []
    /** For keys with a record that cannot be read: the sequence number of that record. */
    const ended = new Map<string, string>()
    const { ordered } = this.#context
    const token = ordered ? `${this.#name}/${this.#tokens()}` : this.#tokens()
    const { lease, claimBytes, classes, choice, destinationHashes, behindParked } = terms
    const script = ordered ? claimOrderedScript : claimScript
    const searches = ordered ? mostSearches : Infinity
    let bytes = 0
    let stopped = false
    for (let more = true, step = 0; more && !stopped && taken.length < share.count && step < searches; step += 1) {
      const asked = share.count - taken.length
      const maxBytes = Math.max(0, share.maxBytes - bytes)
      const room = byteArguments({ maxBytes, atLeastOne: share.atLeastOne && bytes === 0 })
      const args = [
        String(asked),
        String(lease),
        token,
        ordered ? this.#name : classes,
        String(budget),
        choice,
        destinationHashes,
        shard.cursor,
        ...room,
      ]
      if (ordered) args.push(behindParked, this.#rules.exclusive ? '1' : '0', this.#turn % 2 === 0 ? '1' : '0', cursorsOf(shard))
      let reply: Reply
      try {
        reply = await this.#pace.ask(shard, {
          lease,
          claimBytes,
          maxBytes,
          bytesOf: (answer) => Number(asList(answer)[4]),
          send: (onLate) => runOn(this.#context, shard, script, args, { binary: true, onLate }),
          release: (late) => this.release(rowsOf(late, ordered).map(([entry]) => ({ id: shard.idOf(String(entry)), token }))),
        })
      } catch (error) {
        if (taken.length === 0) throw error
        // The records are leased by now: not returned, they would wait until the lease has expired.
        this.#failures.warn(error)
        break
      }
      const [cursor, isMore, removed, parked, size, isFull, now, keyCursors] = asList(reply)
      const rows = rowsOf(reply, ordered)
      if (ordered) keepCursors(shard, String(keyCursors))
      shard.cursor = String(cursor)
      more = String(isMore) === '1'
      bytes += Number(size)
      stopped = String(isFull) === '1'
      this.#reportRemoved(shard, Number(removed), Number(parked))
      for (const [entry, body, attempts, created, seqText, behind = '', lineText = ''] of rows) {
        const { destination, message, problem } = readBody(body as Buffer)
        const claim = { id: shard.idOf(String(entry)), token }
        const seq = String(seqText)
        const line = String(lineText)
        if (problem === undefined) {
          const createdAt = Number(String(created))
          // The server's clock may have been set back.
          const age = Math.max(0, Number(now) - createdAt)
          const record = { ...claim, destination, message, attempts: Number(attempts), createdAt, age }
          const parkedBefore = String(behind)
          taken.push({ seq, line, record: parkedBefore === '' ? record : { ...record, behind: shard.idOf(parkedBefore) } })
        } else {
          unreadable.push({ claim, problem })
          if (line !== '' && seq < (ended.get(line) ?? '~')) ended.set(line, seq)
        }
      }
      // Records that cannot be read do not keep the others back.
      more ||= rows.length === asked
    }
    // Records behind one that cannot be read are released: the next claim knows whether they may be delivered.
    const isBehind = ({ seq, line }: TakenRecord) => seq > (ended.get(line) ?? '~')
    if (ended.size > 0)
      await this.release(taken.filter(isBehind).map(({ record }) => record)).catch((error: unknown) => this.#failures.warn(error))
    const items = taken
      .filter((one) => !isBehind(one))
      .sort((one, other) => (one.seq < other.seq ? -1 : one.seq > other.seq ? 1 : 0))
      .map(({ record }) => record)
    return { items, bytes, stopped }
  }

  async #park(unreadable: readonly Unreadable[]): Promise<void> {
    const { logger, metrics } = this.#context
    for (const { claim, problem } of unreadable) {
      logger.error({ id: claim.id }, `An outbox record is parked. ${problem}`)
      metrics?.count('ackord.outbox.unreadable', 1, {})
    }
    await this.settle(unreadable.map(({ claim, problem }) => ({ ...claim, result: 'parked', error: problem, cause: unreadableCause })))
  }

  /** Runs a script for the claims of each shard. Resolves to the indexes of claims that no longer hold, or never did. */
  async #fenced<C extends Claim>(
    script: OutboxScript,
    claims: readonly C[],
    wordsFor: (held: readonly Held<C>[]) => readonly string[],
    settings: readonly string[] = [],
    lostIn: (reply: Reply) => Reply | undefined = (reply) => reply,
  ): Promise<ReadonlySet<number>> {
    const lost = new Set<number>()
    const byShard = new Map<LuaShard, (Held<C> & { readonly index: number })[]>()
    for (const [index, claim] of claims.entries()) {
      const found = this.#context.shards.find(claim.id)
      if (found === undefined || !/^\S+$/.test(claim.token)) {
        lost.add(index)
        continue
      }
      const own = byShard.get(found.shard) ?? []
      byShard.set(found.shard, own)
      own.push({ claim, entry: found.entry, index })
    }
    const running = Array.from(byShard, async ([shard, held]) => {
      const tokens = new Set(held.map(({ claim }) => claim.token))
      const args = [
        ...settings,
        held.map(({ entry }) => entry).join(' '),
        tokens.size === 1 ? ([...tokens][0] as string) : held.map(({ claim }) => claim.token).join(' '),
        ...wordsFor(held),
      ]
      for (const index of asList(lostIn(await runOn(this.#context, shard, script, args)))) {
        const one = held[Number(index)]
        if (one !== undefined) lost.add(one.index)
      }
    })
    await Promise.all(running)
    return lost
  }

  #readSettled(reply: Reply): Reply | undefined {
    const [lost, ages] = asList(reply)
    for (const age of asList(ages)) this.#context.metrics?.observe('ackord.outbox.delivery_duration', Number(age), {})
    return lost
  }

  #reportRemoved(shard: LuaShard, removed: number, parked: number): void {
    const { logger, metrics } = this.#context
    if (removed > 0) {
      logger.warn({ tag: shard.tag, removed }, 'An outbox had index entries without a record. They were removed.')
      metrics?.count('ackord.outbox.orphans', removed, {})
    }
    if (parked > 0) {
      logger.error({ tag: shard.tag, parked }, 'Outbox records are parked: their body or their state is missing or broken.')
      metrics?.count('ackord.outbox.quarantined', parked, {})
    }
  }
}

/** Id, body, attempts, created and seq of each claimed record; with order per key also the parked record before it, and the hashes of its destination and key. */
function rowsOf(reply: Reply, ordered: boolean): readonly (readonly (Reply | undefined)[])[] {
  const words = asList(reply)
  const rows: (readonly (Reply | undefined)[])[] = []
  const [head, width] = ordered ? [8, 7] : [7, 5]
  for (let at = head; at < words.length; at += width) rows.push(words.slice(at, at + width))
  return rows
}

function cursorsOf({ keyCursors }: LuaShard): string {
  return Array.from(keyCursors, ([destinationHash, key]) => `${destinationHash} ${key}`).join(' ')
}

function keepCursors({ keyCursors }: LuaShard, text: string): void {
  const words = text.split(' ')
  if (keyCursors.size + words.length / 2 > mostCursors) keyCursors.clear()
  for (let at = 0; at + 1 < words.length; at += 2) keyCursors.set(words[at] as string, words[at + 1] as string)
}

/** The outcome of a claimed record. A failed one without `retryAfter` waits for the back-off of the store, and is parked at its `maxAttempts`. */
export type LuaOutcome =
  | Outcome
  | (Claim & {
      readonly result: 'failed'
      readonly error: string
      readonly cause?: string | undefined
      readonly retryAfter?: undefined
    })

export interface LuaBackoff {
  /** Milliseconds after the first failure. Default: 1,000. */
  readonly initial?: number | undefined
  /** The factor of each further failure. Default: 2. */
  readonly factor?: number | undefined
  /** The maximum in milliseconds, before the jitter. Default: 60,000. */
  readonly max?: number | undefined
  /** Which part of it is random, more or less. Default: 0.2. */
  readonly jitter?: number | undefined
}

export interface SettleRules {
  readonly retain: boolean
  readonly backoff: Required<{ [K in keyof LuaBackoff]: number }>
  readonly maxAttempts: number
  readonly redact: ((error: string) => string) | undefined
}

export function checkBackoff(options: LuaBackoff): SettleRules['backoff'] {
  const defaults = relayDefaults.backoff
  const { initial = defaults.initial, factor = defaults.factor, max = defaults.max, jitter = defaults.jitter, ...unknown } = options
  rejectUnknownOptions('backoff', unknown)
  checkDuration('backoff.initial', initial)
  checkDuration('backoff.max', max)
  checkFraction('backoff.jitter', jitter)
  if (!(factor >= 1 && Number.isFinite(factor)))
    throw new InvalidOptionError('backoff.factor', `must be a number, 1 or more; it is ${factor}.`)
  return { initial, factor, max, jitter }
}

/** The back-off as arguments of the script. */
function settleSettings({ retain, backoff, maxAttempts }: SettleRules, random: number, wantsAges: boolean): readonly string[] {
  const { initial, factor, max, jitter } = backoff
  return [retain ? '1' : '0', ...[initial, factor, max, jitter, random, maxAttempts].map(String), wantsAges ? '1' : '0']
}

/** The letter of an outcome, and its arguments. */
function wordsOf(outcome: LuaOutcome, { redact }: SettleRules): readonly string[] {
  if (outcome.result === 'published') return ['p']
  const { error, cause } = outcome
  const failure = failureArguments(redacted(error, redact), cause === undefined ? undefined : redacted(cause, redact))
  if (outcome.result === 'parked') return ['k', ...failure]
  if (outcome.retryAfter === undefined) return ['f', '', ...failure]
  checkDuration('retryAfter', outcome.retryAfter)
  return ['f', String(Math.ceil(outcome.retryAfter)), ...failure]
}

/** If `redact` throws, the outcome is stored all the same, without the text. */
function redacted(error: string, redact: SettleRules['redact']): string {
  try {
    return redact === undefined ? error : String(redact(error))
  } catch {
    return 'The error is not shown: redact() threw.'
  }
}
