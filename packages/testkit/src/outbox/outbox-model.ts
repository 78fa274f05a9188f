import assert from 'node:assert/strict'
import type { Claim, ClaimedRecord, ClaimOptions, Outcome } from '@ackord/outbox'

interface ModelRecord {
  readonly messageId: string
  readonly destination: string
  readonly place: number
  state: 'pending' | 'parked' | 'published' | 'gone'
  attempts: number
  availableAt: number
  token: string | undefined
  leasedUntil: number
}

/**
 * What the contract allows, as plainly as it can be said: which records may be claimed now, and which claims hold.
 * It is told what the store did, and fails if the store was not free to do it.
 */
export class OutboxModel {
  readonly #records = new Map<string, ModelRecord>()
  /** By the store's ids, which are known from the first claim on. */
  readonly #byStoreId = new Map<string, ModelRecord>()
  #now = 0

  append(messageId: string, destination: string): void {
    const place = this.#records.size
    this.#records.set(messageId, {
      messageId,
      destination,
      place,
      state: 'pending',
      attempts: 0,
      availableAt: this.#now,
      token: undefined,
      leasedUntil: 0,
    })
  }

  advance(duration: number): void {
    this.#now += duration
  }

  /** What a claim may find. */
  claimable({ destinations, except }: Pick<ClaimOptions, 'destinations' | 'except'> = {}): string[] {
    return [...this.#records.values()]
      .filter((record) => this.#isClaimable(record))
      .filter(({ destination }) => destinations?.includes(destination) !== false && except?.includes(destination) !== true)
      .map(({ messageId }) => messageId)
  }

  claimed(claims: readonly ClaimedRecord[], options: ClaimOptions): void {
    const allowed = this.claimable(options)
    assert.ok(claims.length <= options.limit, 'more than the limit was claimed')
    assert.ok(claims.length > 0 || allowed.length === 0, `nothing was claimed although there was ${allowed.join(', ')}`)
    this.#checkOrder(claims, allowed)
    for (const claim of claims) {
      const record = this.#records.get(claim.message.id ?? '')
      assert.ok(record !== undefined && allowed.includes(record.messageId), `${claim.message.id} must not be claimed`)
      assert.ok(record.token !== claim.token, 'a token was used twice')
      record.attempts += 1
      assert.equal(claim.attempts, record.attempts, `attempts of ${record.messageId}`)
      record.token = claim.token
      record.leasedUntil = this.#now + options.lease
      this.#byStoreId.set(claim.id, record)
    }
    assert.equal(new Set(claims.map(({ id }) => id)).size, claims.length, 'a record was claimed twice at once')
  }

  settled(outcomes: readonly Outcome[], answers: readonly string[]): void {
    const expected = outcomes.map((outcome) => {
      const record = this.#held(outcome)
      if (record === undefined) return 'lost'
      record.token = undefined
      if (outcome.result === 'failed') record.availableAt = this.#now + outcome.retryAfter
      else record.state = outcome.result
      return 'applied'
    })
    assert.deepEqual(answers, expected)
  }

  renewed(claims: readonly Claim[], lease: number, answers: readonly boolean[]): void {
    const expected = claims.map((claim) => {
      const record = this.#held(claim)
      if (record !== undefined) record.leasedUntil = this.#now + lease
      return record !== undefined
    })
    assert.deepEqual(answers, expected)
  }

  released(claims: readonly Claim[]): void {
    for (const claim of claims) {
      const record = this.#held(claim)
      if (record === undefined) continue
      record.token = undefined
      record.attempts -= 1
    }
  }

  discarded(ids: readonly string[], count: number): void {
    const parked = this.#parked(ids)
    assert.equal(count, parked.length, 'how many were discarded')
    for (const record of parked) record.state = 'gone'
  }

  rearmed(ids: readonly string[], count: number): void {
    const parked = this.#parked(ids)
    assert.equal(count, parked.length, 'how many were re-armed')
    for (const record of parked) Object.assign(record, { state: 'pending', attempts: 0, availableAt: this.#now })
  }

  /** Neither published nor parked: what must become claimable, given time. */
  get pending(): string[] {
    return [...this.#records.values()].filter(({ state }) => state === 'pending').map(({ messageId }) => messageId)
  }

  /** Whether the claim holds, a lease that ran out not counted: then a store may say either. */
  isCertain({ id, token }: Claim): boolean {
    const record = this.#byStoreId.get(id)
    return record?.token !== token || record.leasedUntil > this.#now
  }

  /** Records that were never tried are taken oldest first within their destination. */
  #checkOrder(claims: readonly ClaimedRecord[], allowed: readonly string[]): void {
    const taken = new Set(claims.map(({ message }) => message.id ?? ''))
    for (const destination of new Set(claims.map((claim) => claim.destination))) {
      const fresh = allowed
        .flatMap((id) => this.#records.get(id) ?? [])
        .filter((one) => one.destination === destination && one.attempts === 0)
      const count = fresh.filter(({ messageId }) => taken.has(messageId)).length
      for (const { messageId } of fresh.slice(0, count)) assert.ok(taken.has(messageId), `${messageId} is older and was passed over`)
    }
  }

  #parked(ids: readonly string[]): ModelRecord[] {
    return ids.flatMap((id) => this.#byStoreId.get(id) ?? []).filter(({ state }) => state === 'parked')
  }

  #isClaimable({ state, token, leasedUntil, availableAt }: ModelRecord): boolean {
    return state === 'pending' && availableAt <= this.#now && (token === undefined || leasedUntil <= this.#now)
  }

  #held({ id, token }: Claim): ModelRecord | undefined {
    const record = this.#byStoreId.get(id)
    return record?.token === token && record.leasedUntil > this.#now ? record : undefined
  }
}
