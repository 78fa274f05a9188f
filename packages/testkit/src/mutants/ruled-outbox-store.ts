import type { Runtime } from '@ackord/core'
import type {
  Claim,
  ClaimedRecord,
  ClaimOptions,
  NewOutboxRecord,
  OutboxAdmin,
  OutboxCapabilities,
  OutboxFilter,
  OutboxRecord,
  OutboxReference,
  OutboxState,
  OutboxStore,
  Outcome,
} from '@ackord/outbox'
import type { OutboxRules, RuledRow } from './outbox-rules.ts'

export interface RuledOutboxOptions {
  readonly rules: OutboxRules
  readonly runtime: Runtime
  readonly retain: boolean
}

/** An outbox in memory that does what its rules say, so that mutants differ from the contract in one rule each. */
export class RuledOutboxStore implements OutboxStore, OutboxAdmin {
  readonly capabilities: OutboxCapabilities = { order: 'none', delay: true, preLease: false }
  readonly #rules: OutboxRules
  readonly #runtime: Runtime
  readonly #retain: boolean
  readonly #rows: Map<string, RuledRow>
  #lastPlace = 0

  constructor(options: RuledOutboxOptions, rows: Map<string, RuledRow> = new Map()) {
    this.#rules = options.rules
    this.#runtime = options.runtime
    this.#retain = options.retain
    this.#rows = rows
  }

  /** At the end, or at a place of one's own. */
  insert(records: readonly NewOutboxRecord[], at?: number): void {
    const now = this.#runtime.now()
    for (const [index, record] of this.#rules.storeAll(records, this.#rows.size).entries()) {
      const { destination, message, delay = 0 } = this.#rules.store(record)
      const place = at === undefined ? this.#lastPlace + 1 : at + index
      const stored: RuledRow = {
        place,
        createdAt: now,
        destination,
        data: message.data,
        attributes: message.attributes,
        status: 'pending',
        attempts: 0,
        availableAt: now + delay,
        token: undefined,
        leasedUntil: 0,
        lastError: undefined,
        publishedAt: undefined,
        parkedAt: undefined,
      }
      this.#lastPlace = Math.max(this.#lastPlace, place)
      this.#rows.set(String(place), stored)
    }
  }

  async claim(options: ClaimOptions): Promise<readonly ClaimedRecord[]> {
    const { rules, now } = this.#now()
    const claimable = rules
      .scan([...this.#rows.values()])
      .filter((row) => rules.isPending(row, now) && rules.isAvailable(row, now) && !rules.isLeased(row, now) && rules.selects(row, options))
      .slice(0, rules.limit(options.limit))
    const found = rules.bounds(claimable, options.maxBytes ?? Infinity)
    if (!rules.takesAtOnce) await null
    const shared = rules.token(this.#runtime.uuid)
    return found.map((row) => {
      row.attempts = rules.countAttempt(row, row.token !== undefined)
      row.token = rules.actsOnToken ? shared : rules.token(this.#runtime.uuid)
      row.leasedUntil = now + options.lease
      const { token, destination, attempts, createdAt } = row
      return { id: String(row.place), token, destination, message: rules.show(row), attempts, createdAt }
    })
  }

  async renew(claims: readonly Claim[], lease: number): Promise<readonly boolean[]> {
    this.#checkList(claims)
    return this.#each(claims, 'renew', (row) => {
      this.#rules.renew(row, this.#runtime.now() + lease)
      return true
    }).map((answer) => answer ?? false)
  }

  async release(claims: readonly Claim[]): Promise<void> {
    this.#checkList(claims)
    this.#each(claims, 'release', (row) => this.#rules.release(row))
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly ('applied' | 'lost')[]> {
    this.#checkList(outcomes)
    const answers = this.#each(outcomes, 'settle', (row, outcome) => {
      this.#rules.settle(row, outcome, this.#runtime.now())
      if (row.status === 'published' && !this.#retain) this.#rows.delete(String(row.place))
      return 'applied' as const
    })
    return this.#rules.answers(answers.map((answer) => answer ?? 'lost'))
  }

  async *wakeUps({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<void, void, void> {
    if (!this.#rules.endsWakeUps) await new Promise(() => {})
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  }

  async list(filter: OutboxFilter, page: { readonly limit: number; readonly after?: string | undefined }): ReturnType<OutboxAdmin['list']> {
    const rows = this.#rules
      .page(this.#rules.sort([...this.#rows.values()]), page.after)
      .filter((row) => this.#rules.matches(row, this.#stateOf(row), filter))
    const shown = rows.slice(0, page.limit)
    return { records: shown.map((row) => this.#view(row)), next: rows.length > page.limit ? String(shown.at(-1)?.place) : undefined }
  }

  async get(id: string): Promise<OutboxRecord | undefined> {
    const row = this.#rows.get(id)
    return row === undefined ? this.#rules.missing() : this.#view(row)
  }

  async rearm(...[which, edit = {}, options = {}]: Parameters<OutboxAdmin['rearm']>): Promise<number> {
    const { rules, now } = this.#now()
    const [rows, filter] = 'ids' in which ? [this.#find(which.ids), undefined] : [[...this.#rows.values()], which.filter]
    const chosen = rows.filter((row) => rules.isRearmed(row, filter, (asked) => rules.matches(row, this.#stateOf(row), asked), options))
    for (const row of chosen) rules.rearm(row, edit, now, options)
    return chosen.length
  }

  async park(ids: readonly string[], reason: string): Promise<number> {
    const { rules, now } = this.#now()
    const chosen = this.#find(ids).filter((row) => rules.isParked(row, this.#stateOf(row)))
    for (const row of chosen) rules.park(row, reason, now)
    return chosen.length
  }

  /** The rows that `cancel` of these records would remove now. */
  cancellable(references: readonly OutboxReference[]): RuledRow[] {
    return [...this.#rows.values()].filter(
      (row) => this.#rules.isNamed(row.destination, row.attributes, references) && this.#rules.isCancelled(row, this.#stateOf(row)),
    )
  }

  remove(rows: readonly RuledRow[]): void {
    this.#remove(rows)
  }

  async discard(ids: readonly string[]): Promise<number> {
    return this.#remove(this.#find(ids).filter(this.#rules.isDiscarded))
  }

  async stats(): ReturnType<OutboxAdmin['stats']> {
    const { rules, now } = this.#now()
    const rows = [...this.#rows.values()]
    const ages = rows.filter(rules.ages).map((row) => now - row.createdAt)
    const destinations = [...new Set(rows.map((row) => row.destination))].map((destination) => {
      const counts = { destination, ready: 0, waiting: 0, leased: 0, parked: 0, published: 0 }
      for (const row of rows) if (row.destination === destination) counts[rules.counts(this.#stateOf(row))] += 1
      return counts
    })
    return { destinations, oldestAge: ages.length === 0 ? undefined : Math.max(...ages) }
  }

  async deletePublished({ olderThan, limit }: { readonly olderThan: number; readonly limit: number }): Promise<number> {
    const { rules, now } = this.#now()
    const old = [...this.#rows.values()].filter((row) => rules.isDeleted(row, now - olderThan))
    return this.#remove(old.slice(0, rules.deletes(limit)))
  }

  #now(): { readonly rules: OutboxRules; readonly now: number } {
    return { rules: this.#rules, now: this.#runtime.now() }
  }

  #each<C extends Claim, T>(
    claims: readonly C[],
    call: 'renew' | 'release' | 'settle',
    apply: (row: RuledRow, claim: C) => T,
  ): (T | undefined)[] {
    const { rules, now } = this.#now()
    return claims.map((claim) => {
      const rows = rules.actsOnToken ? [...this.#rows.values()] : this.#find([claim.id])
      return rows.filter((row) => rules.holds(row, claim, now, call)).map((row) => apply(row, claim))[0]
    })
  }

  #checkList(list: readonly unknown[]): void {
    if (this.#rules.refusesEmptyLists && list.length === 0) throw new Error('the list is empty')
  }

  #find(ids: readonly string[]): RuledRow[] {
    return ids.flatMap((id) => this.#rows.get(id) ?? [])
  }

  #remove(rows: readonly RuledRow[]): number {
    for (const row of rows) this.#rows.delete(String(row.place))
    return rows.length
  }

  #stateOf(row: RuledRow): OutboxState {
    const { rules, now } = this.#now()
    if (row.status !== 'pending') return row.status
    if (rules.isLeased(row, now)) return 'leased'
    return rules.isAvailable(row, now) ? 'ready' : 'waiting'
  }

  #view(row: RuledRow): OutboxRecord {
    const { destination, attempts, createdAt, availableAt, lastError, publishedAt, parkedAt } = row
    const state = this.#stateOf(row)
    const leasedUntil = state === 'leased' ? row.leasedUntil : undefined
    const message = this.#rules.show(row)
    return {
      id: String(row.place),
      state,
      destination,
      message,
      attempts,
      createdAt,
      availableAt,
      lastError,
      leasedUntil,
      publishedAt,
      parkedAt,
    }
  }
}
