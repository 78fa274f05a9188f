import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Claim, ClaimedRecord, ClaimOptions, OutboxStore } from '@ackord/outbox'
import type { Reply } from '../port.ts'
import { asList } from '../reply.ts'
import { fillInShares } from '../stream-outbox/fill-in-shares.ts'
import type { LuaShard } from './layout.ts'
import { type LuaHome, runOn } from './lua-home.ts'
import { type LuaOutcome, type SettleRules, settleSettings, wordsOf } from './lua-outcome.ts'
import type { OutboxScript } from './outbox-script.ts'
import { laneOf, readBody } from './record-body.ts'
import { claimScript } from './scripts/claim.ts'
import { releaseScript } from './scripts/release.ts'
import { renewScript } from './scripts/renew.ts'
import { settleScript } from './scripts/settle.ts'

/** What one script looks at besides what it gives: others wait meanwhile. */
const budget = 1000

interface ClaimTerms {
  readonly lease: string
  readonly classes: string
  readonly choice: 'all' | 'only' | 'except'
  readonly lanes: string
}

interface Unreadable {
  readonly claim: Claim
  readonly problem: string
}

interface Held<C extends Claim> {
  readonly claim: C
  readonly entry: string
}

/** The relay's side of the store. */
export class LuaClaims implements Pick<OutboxStore, 'renew' | 'release'> {
  readonly #home: LuaHome
  readonly #rules: SettleRules
  readonly #tokens: () => string
  /** Which shard is asked first: another one each time. */
  #turn = 0
  /** Whether the last claim did only a part, which is logged once. */
  #complained = false

  constructor(home: LuaHome, rules: SettleRules, tokens: () => string) {
    this.#home = home
    this.#rules = rules
    this.#tokens = tokens
  }

  async claim({ limit, lease, destinations, except, retried }: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    checkCount('limit', limit)
    checkDuration('lease', lease, { min: 1 })
    const wanted = destinations?.filter((destination) => except?.includes(destination) !== true)
    const terms: ClaimTerms = {
      lease: String(Math.ceil(lease)),
      classes: { only: 'r', never: 'f', both: 'fr' }[retried ?? 'both'],
      choice: wanted !== undefined ? 'only' : except === undefined || except.length === 0 ? 'all' : 'except',
      lanes: [...new Set(wanted ?? except)].map(laneOf).join(' '),
    }
    if (wanted?.length === 0) return []
    this.#turn += 1
    const records: ClaimedRecord[] = []
    const unreadable: Unreadable[] = []
    const shards = this.#home.shards.all
    const first = this.#turn % shards.length
    const inTurn = [...shards.slice(first), ...shards.slice(0, first)]
    let failure: { readonly error: unknown } | undefined
    try {
      await fillInShares(records, inTurn, limit, (shard, count) => this.#take(shard, count, terms, unreadable))
    } catch (error) {
      failure = { error }
    }
    // What cannot be put away now is found again when its lease has run out; the others are not to wait for that.
    if (unreadable.length > 0) await this.#park(unreadable).catch((error: unknown) => this.#complain(error))
    // What was taken before something failed is leased by now: kept back, it would wait until that has run out.
    if (failure !== undefined && records.length === 0) throw failure.error
    if (failure !== undefined) this.#complain(failure.error)
    else this.#complained = false
    return records
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    checkDuration('lease', lease, { min: 1 })
    const lost = await this.#fenced(renewScript, claims, () => [], [String(Math.ceil(lease))])
    return claims.map((_, place) => !lost.has(place))
  }

  async release(claims: readonly Claim[]): Promise<void> {
    await this.#fenced(releaseScript, claims, () => [])
  }

  async settle(outcomes: readonly LuaOutcome[]): Promise<readonly ('applied' | 'lost')[]> {
    const settings = settleSettings(this.#rules, this.#home.runtime.random(), this.#home.metrics !== undefined)
    // All of them first: one that is wrong must not leave the others half told.
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
    return outcomes.map((_, place) => (lost.has(place) ? 'lost' : 'applied'))
  }

  /** Until there is enough, or nothing more. A step that moves much gives others a turn before the next one. */
  async #take(shard: LuaShard, limit: number, terms: ClaimTerms, unreadable: Unreadable[]): Promise<readonly ClaimedRecord[]> {
    const taken: (readonly [string, ClaimedRecord])[] = []
    const token = this.#tokens()
    for (let more = true; more && taken.length < limit; ) {
      const { lease, classes, choice, lanes } = terms
      const asked = limit - taken.length
      const args = [String(asked), lease, token, classes, String(budget), choice, lanes, shard.cursor]
      let reply: Reply
      try {
        reply = await runOn(this.#home, shard, claimScript, args, { binary: true })
      } catch (error) {
        if (taken.length === 0) throw error
        // What was taken is leased by now: kept back, it would wait until that has run out.
        this.#complain(error)
        break
      }
      const [cursor, isMore, removed, parked, ...rows] = asList(reply)
      shard.cursor = String(cursor)
      more = String(isMore) === '1'
      this.#tellRemoved(shard, Number(removed), Number(parked))
      for (let at = 0; at < rows.length; at += 5) {
        const [entry, body, attempts, created, seq] = rows.slice(at, at + 5)
        const { destination, message, problem } = readBody(body as Buffer)
        const claim = { id: shard.idOf(String(entry)), token }
        if (problem !== undefined) unreadable.push({ claim, problem })
        else taken.push([String(seq), { ...claim, destination, message, attempts: Number(attempts), createdAt: Number(String(created)) }])
      }
      // Those that cannot be read do not stand before the others.
      more ||= rows.length / 5 === asked
    }
    return taken.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)).map(([, record]) => record)
  }

  async #park(unreadable: readonly Unreadable[]): Promise<void> {
    const { logger, metrics } = this.#home
    for (const { claim, problem } of unreadable) {
      logger.error({ id: claim.id }, `An outbox record is parked. ${problem}`)
      metrics?.count('ackord.outbox.unreadable', 1, {})
    }
    await this.settle(unreadable.map(({ claim, problem }) => ({ ...claim, result: 'parked', error: problem })))
  }

  /** Runs a script for the claims of each shard that can be ours. Gives the places of those that do not hold, however it came to that. */
  async #fenced<C extends Claim>(
    script: OutboxScript,
    claims: readonly C[],
    wordsFor: (held: readonly Held<C>[]) => readonly string[],
    settings: readonly string[] = [],
    lostIn: (reply: Reply) => Reply | undefined = (reply) => reply,
  ): Promise<ReadonlySet<number>> {
    const lost = new Set<number>()
    const byShard = new Map<LuaShard, (Held<C> & { readonly place: number })[]>()
    for (const [place, claim] of claims.entries()) {
      const found = this.#home.shards.find(claim.id)
      if (found === undefined || !/^\S+$/.test(claim.token)) {
        lost.add(place)
        continue
      }
      const own = byShard.get(found.shard) ?? []
      byShard.set(found.shard, own)
      own.push({ claim, entry: found.entry, place })
    }
    const running = Array.from(byShard, async ([shard, held]) => {
      const tokens = new Set(held.map(({ claim }) => claim.token))
      const args = [
        ...settings,
        held.map(({ entry }) => entry).join(' '),
        tokens.size === 1 ? ([...tokens][0] as string) : held.map(({ claim }) => claim.token).join(' '),
        ...wordsFor(held),
      ]
      for (const index of asList(lostIn(await runOn(this.#home, shard, script, args)))) {
        const one = held[Number(index)]
        if (one !== undefined) lost.add(one.place)
      }
    })
    await Promise.all(running)
    return lost
  }

  #readSettled(reply: Reply): Reply | undefined {
    const [lost, ages] = asList(reply)
    for (const age of asList(ages)) this.#home.metrics?.observe('ackord.outbox.delivery_duration', Number(age), {})
    return lost
  }

  #tellRemoved(shard: LuaShard, removed: number, parked: number): void {
    const { logger, metrics } = this.#home
    if (removed > 0) {
      logger.warn({ tag: shard.tag, removed }, 'An outbox had entries in its indexes without a record behind them; they were removed.')
      metrics?.count('ackord.outbox.orphans', removed, {})
    }
    if (parked > 0) {
      logger.error({ tag: shard.tag, parked }, 'Outbox records are parked: their body or their state is missing or broken.')
      metrics?.count('ackord.outbox.quarantined', parked, {})
    }
  }

  #complain(error: unknown): void {
    const text = 'A part of the records of an outbox could not be claimed; they are tried again, and the others are published.'
    if (!this.#complained) this.#home.logger.warn({ err: error }, text)
    this.#complained = true
  }
}
