import type { Runtime } from '@ackord/core'
import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewOutboxRecord,
  OutboxAdmin,
  OutboxCapabilities,
  OutboxFilter,
  OutboxStore,
  Outcome,
} from '@ackord/outbox'
import type { OrderRules, RuledCandidate, RuledHand } from './order-rules.ts'
import { outboxRules, type RuledRow } from './outbox-rules.ts'
import { RuledOutboxStore } from './ruled-outbox-store.ts'

const partitionCount = 256

/** What all store objects of one world share. */
export class RuledOrderedData {
  readonly rows: Map<string, RuledRow> = new Map()
  readonly hands: Map<RuledRow, RuledHand> = new Map()
  /** Until when each member lives. */
  readonly members: Map<string, number> = new Map()
  readonly owners: (string | undefined)[] = Array.from({ length: partitionCount })
}

/** An outbox with order per key that does what its rules say, so that mutants differ from the contract in one rule each. What operators see is the unordered one's. */
export class RuledOrderedStore implements OutboxStore, OutboxAdmin {
  readonly capabilities: OutboxCapabilities
  readonly #rules: OrderRules
  readonly #runtime: Runtime
  readonly #data: RuledOrderedData
  readonly #plain: RuledOutboxStore
  readonly #member: string
  #turn = 0
  #seen = 0

  constructor(rules: OrderRules, runtime: Runtime, retain: boolean, data: RuledOrderedData) {
    this.capabilities = { order: rules.order, delay: true, preLease: false }
    this.#rules = rules
    this.#runtime = runtime
    this.#data = data
    const matches: typeof outboxRules.matches = (row, state, filter) =>
      outboxRules.matches(row, state, rules.filtersKeys ? filter : { ...filter, orderingKey: undefined })
    const isLeased = (row: RuledRow) => !rules.hidesHands && data.hands.has(row)
    this.#plain = new RuledOutboxStore({ rules: { ...outboxRules, matches, isLeased }, runtime, retain }, data.rows)
    this.#member = runtime.uuid()
  }

  insert(records: readonly NewOutboxRecord[], place?: number): void {
    this.#plain.insert(records, place)
  }

  async claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const inHand = [...this.#data.hands.values()].some(({ member }) => member === this.#member)
    if (!inHand || this.#rules.claimKeeps) this.#attend(options.lease)
    this.#takeOver()
    const kept = this.#giveUp()
    const rows = this.#rules
      .sort([...this.#data.rows.values()])
      .filter((row) => kept.has(partitionOf(row)))
      .filter((row) => this.#rules.looksBack || row.place > this.#seen)
    const runs = this.#runs(rows, options)
    const chosen = this.#rules.bounds(this.#rules.choose(this.#inTurn(runs), options.limit), options.maxBytes ?? Infinity)
    for (const { row } of chosen) this.#seen = Math.max(this.#seen, row.place)
    return this.#rules.sort(chosen.map(({ row }) => row)).map((row) => this.#give(row, chosen.find((one) => one.row === row)?.behind))
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    const live = this.#rules.isLive(this.#data.members.get(this.#member) ?? 0, this.#runtime.now())
    if (live && this.#rules.renewKeeps) this.#attend(lease)
    if (live) this.#giveUp()
    return claims.map((claim) => this.#held(claim, 'renew') !== undefined)
  }

  async release(claims: readonly Claim[]): Promise<void> {
    for (const claim of claims) {
      const row = this.#held(claim, 'release')
      if (row === undefined) continue
      this.#data.hands.delete(row)
      if (this.#rules.countsReleases) row.attempts += 1
    }
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    return outcomes.map((outcome) => {
      const row = this.#held(outcome, 'settle')
      if (row === undefined) return 'lost'
      this.#data.hands.delete(row)
      outboxRules.settle(row, outcome, this.#runtime.now())
      if (outcome.result !== 'published' && this.#rules.countsFailures) row.attempts += 1
      if (outcome.result === 'published') this.#data.rows.delete(String(row.place))
      return 'applied'
    })
  }

  async leave(): Promise<void> {
    if (this.#rules.leaves) this.#free(this.#member)
  }

  list(filter: OutboxFilter, page: Parameters<OutboxAdmin['list']>[1]): ReturnType<OutboxAdmin['list']> {
    return this.#plain.list(filter, page)
  }

  get(id: string): ReturnType<OutboxAdmin['get']> {
    return this.#plain.get(id)
  }

  rearm(...which: Parameters<OutboxAdmin['rearm']>): Promise<number> {
    return this.#plain.rearm(...which)
  }

  park(ids: readonly string[], reason: string): Promise<number> {
    return this.#plain.park(ids, reason)
  }

  discard(ids: readonly string[]): Promise<number> {
    return this.#plain.discard(ids)
  }

  stats(): ReturnType<OutboxAdmin['stats']> {
    return this.#plain.stats()
  }

  deletePublished(options: Parameters<OutboxAdmin['deletePublished']>[0]): Promise<number> {
    return this.#plain.deletePublished(options)
  }

  #attend(lease: number): void {
    const { members } = this.#data
    const now = this.#runtime.now()
    for (const [member, until] of [...members]) if (!this.#rules.isLive(until, now)) this.#free(member)
    members.set(this.#member, now + lease)
  }

  #takeOver(): void {
    const { owners, rows, hands } = this.#data
    const wanted = this.#share - this.#owned().length
    const taken = [...owners.keys()].filter((partition) => owners[partition] === undefined).slice(0, Math.max(0, wanted))
    for (const partition of taken) owners[partition] = this.#member
    for (const row of rows.values()) {
      if (!taken.includes(partitionOf(row))) continue
      row.attempts = this.#rules.takeOver(row, hands.has(row))
      hands.delete(row)
    }
  }

  /** Gives what may be claimed from. */
  #giveUp(): ReadonlySet<number> {
    const kept = new Set(this.#owned())
    if (!this.#rules.givesUp) return kept
    const busy = new Set([...this.#data.hands.keys()].map(partitionOf))
    const highest = [...kept].reverse()
    const byWork = [...highest.filter((one) => !busy.has(one)), ...highest.filter((one) => busy.has(one))]
    const surplus = (this.#rules.drains ? byWork : highest).slice(0, Math.max(0, kept.size - this.#share))
    for (const partition of surplus) {
      kept.delete(partition)
      if (!busy.has(partition) || !this.#rules.drains) this.#data.owners[partition] = undefined
    }
    return kept
  }

  #runs(rows: readonly RuledRow[], options: ClaimOptions): (readonly RuledCandidate[])[] {
    const rules = this.#rules
    const behindParked = rules.behindParked(options.behindParked)
    const now = this.#runtime.now()
    const isInHand = (row: RuledRow) => this.#data.hands.has(row)
    const isDue = (row: RuledRow) => row.status === 'pending' && outboxRules.isAvailable(row, now)
    const queues = new Map<string, RuledRow[]>()
    for (const row of rows) {
      const name = rules.queueOf(row) ?? String(row.place)
      queues.set(name, [...(queues.get(name) ?? []), row])
    }
    const waits = (row: RuledRow) => row.status === 'pending' && !isDue(row)
    if (rules.holdsUp === 'everything' && rows.some(waits)) return []
    return [...queues.values()].map((queue) => {
      const run: RuledCandidate[] = []
      if (rules.isBusy(queue, isInHand)) return run
      let parked: string | undefined
      for (const row of queue) {
        if (isInHand(row)) continue
        if (!outboxRules.selects(row, { ...options, retried: undefined })) break
        if (waits(row) && rules.holdsUp === 'its queue') break
        if (row.status === 'parked' && behindParked === 'kept') break
        if (row.status === 'parked') parked ??= String(row.place)
        if (isDue(row)) run.push({ row, behind: behindParked === 'marked' ? parked : undefined })
      }
      return run
    })
  }

  /** From the one whose turn it is, the destinations by turns. */
  #inTurn(runs: readonly (readonly RuledCandidate[])[]): readonly (readonly RuledCandidate[])[] {
    const some = runs.filter(({ length }) => length > 0)
    const start = this.#rules.takesTurns ? this.#turn % Math.max(1, some.length) : 0
    // Primes walk through all of them, whatever comes and goes.
    this.#turn += 17
    const places = new Map<string, number>()
    return [...some.slice(start), ...some.slice(0, start)]
      .map((run) => {
        const destination = run[0]?.row.destination ?? ''
        const place = (places.get(destination) ?? 0) + 1
        places.set(destination, place)
        return { run, place }
      })
      .toSorted((a, b) => a.place - b.place)
      .map(({ run }) => run)
  }

  #give(row: RuledRow, behind: string | undefined): ClaimedRecord {
    const token = this.#runtime.uuid()
    this.#data.hands.set(row, { member: this.#member, token })
    if (this.#rules.countsClaims) row.attempts += 1
    const { place, destination, createdAt, attempts } = row
    const claimed = { id: String(place), token, destination, message: outboxRules.show(row), attempts: attempts + 1, createdAt }
    return behind === undefined ? claimed : { ...claimed, behind }
  }

  #held({ id, token }: Claim, call: 'renew' | 'release' | 'settle'): RuledRow | undefined {
    const { rows, hands, owners, members } = this.#data
    const row = rows.get(id)
    if (row === undefined) return undefined
    const hand = hands.get(row)
    const live = this.#rules.isLive(members.get(this.#member) ?? 0, this.#runtime.now())
    const owned = live && owners[partitionOf(row)] === this.#member
    return this.#rules.holds({ same: hand?.token === token, owned, inHand: hand !== undefined }, call) ? row : undefined
  }

  #free(member: string): void {
    const { members, owners } = this.#data
    members.delete(member)
    for (const [partition, owner] of owners.entries()) if (owner === member) owners[partition] = undefined
  }

  #owned(): number[] {
    const { owners } = this.#data
    return [...owners.keys()].filter((partition) => owners[partition] === this.#member)
  }

  get #share(): number {
    return this.#rules.share(partitionCount, this.#data.members.size)
  }
}

function partitionOf(row: RuledRow): number {
  const key = String(row.attributes['partitionkey'] ?? row.place)
  let hash = 7
  for (const letter of key) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521
  return hash % partitionCount
}
