import { idle, type Publisher, type PublishResult, toError } from '@ackord/core'
import type { ClaimedRecord, OutboxStore, Outcome, PublisherMap } from '@ackord/outbox'
import { limited, type RelaySetup, type RelayUnderTest } from '../suites/relay/relay-world.ts'
import type { RelayRules } from './relay-rules.ts'
import { type Fate, RuledLetters } from './ruled-letters.ts'

/** A relay that does what its rules say and no more, so that mutants differ from a right one in one rule each. */
export class RuledRelay implements RelayUnderTest {
  readonly #store: OutboxStore
  readonly #setup: RelaySetup
  readonly #rules: RelayRules
  readonly #letters: RuledLetters
  readonly #stop = new AbortController()
  readonly #force = new AbortController()
  /** Until when a destination is left alone, and how often it has failed in a row. */
  readonly #down = new Map<string, { failures: number; until: number }>()
  /** What is under way, by destination. */
  readonly #busy = new Map<string, Promise<void>>()
  #run: Promise<void> | undefined

  constructor(store: OutboxStore, setup: RelaySetup, rules: RelayRules) {
    this.#store = store
    this.#setup = setup
    this.#rules = rules
    this.#letters = new RuledLetters(setup, rules, (fates) => this.#tell(fates))
  }

  start(): void {
    if (this.#run === undefined || !this.#rules.startsOnce) this.#run = this.#loop()
  }

  async stop(): Promise<void> {
    if (this.#run === undefined) {
      if (!this.#rules.stopsIdle) await new Promise(() => {})
      return
    }
    this.#stop.abort()
    if (!this.#rules.stopsGracefully) return
    const { runtime, shutdownTimeout } = this.#setup
    let leave = () => {}
    const left = new Promise<void>((resolve) => {
      leave = resolve
    })
    const timers = [
      ...(this.#rules.stopsInTime ? [runtime.setTimeout(() => this.#force.abort(), shutdownTimeout)] : []),
      ...(this.#rules.leavesStore ? [runtime.setTimeout(leave, shutdownTimeout + 2000)] : []),
    ]
    await Promise.race([this.#run, left])
    for (const timer of timers) timer.cancel()
  }

  async #loop(): Promise<void> {
    const { runtime, batchSize, lease, pollInterval } = this.#setup
    const destinations = this.#rules.claimsOwn ? ownDestinations(this.#setup.publisher) : undefined
    while (!this.#stop.signal.aborted) {
      const paused = [...this.#down].filter(([, { until }]) => until > runtime.now()).map(([destination]) => destination)
      const blocked = !this.#rules.pausesAlone && paused.length > 0
      const records = blocked
        ? []
        : await this.#store.claim({ limit: batchSize, lease, destinations, except: [...paused, ...this.#busy.keys()] })
      if (records.length === 0) await idle(runtime, pollInterval, this.#stop.signal)
      else if (this.#stop.signal.aborted) await this.#store.release(records)
      else if (this.#rules.servesApart) await Promise.race([this.#carryApart(records), idle(runtime, pollInterval, this.#stop.signal)])
      else await this.#carry(records)
    }
    await Promise.all(this.#busy.values())
  }

  /** Each destination by itself. */
  async #carryApart(records: readonly ClaimedRecord[]): Promise<void> {
    const destinations = [...new Set(records.map(({ destination }) => destination))]
    const carried = destinations.map(async (destination) => {
      const work = this.#carry(records.filter((record) => record.destination === destination)).finally(() => this.#busy.delete(destination))
      this.#busy.set(destination, work)
      await work
    })
    await Promise.all(carried)
  }

  async #carry(records: readonly ClaimedRecord[]): Promise<void> {
    if (!this.#rules.publishesFirst) await this.#store.settle(records.map(({ id, token }) => ({ id, token, result: 'published' })))
    const { runtime, lease } = this.#setup
    let done = false
    const keep = () => {
      if (!this.#rules.renews) return
      void this.#store.renew(records, lease).then(() => {
        if (!done) timer = runtime.setTimeout(keep, lease / 3)
      })
    }
    let timer = runtime.setTimeout(keep, lease / 3)
    const expired = records.filter((record) => this.#isExpired(record))
    const sent = records.filter((record) => !expired.includes(record))
    const destinations = [...new Set(sent.map(({ destination }) => destination))]
    const fates = await Promise.all(
      destinations.map((destination) =>
        this.#publish(
          destination,
          sent.filter((record) => record.destination === destination),
        ),
      ),
    )
    done = true
    timer.cancel()
    await this.#settle([...expired.map((record) => ({ record, fate: this.#fateOfExpired(record) })), ...fates.flat()])
  }

  async #settle(fates: readonly Fate[]): Promise<void> {
    const parked = fates.filter((fate) => this.#letters.isFor(fate))
    const parking = this.#letters.park(parked)
    if (!this.#rules.settlesBesideLetter) await parking
    await this.#tell(fates.filter((fate) => !parked.includes(fate)))
    await parking
  }

  async #tell(fates: readonly Fate[]): Promise<void> {
    const outcomes = fates.flatMap(({ fate }) => (fate === 'giveBack' ? [] : [fate]))
    const wanted = outcomes.filter(({ result }) => result !== 'published' || this.#rules.settles)
    if (wanted.length > 0) await this.#store.settle(wanted)
    const back = fates.flatMap(({ record, fate }) => (fate === 'giveBack' ? [record] : []))
    const kept = this.#force.signal.aborted && !this.#rules.givesBack
    if (back.length > 0 && !kept) await this.#store.release(back)
  }

  async #publish(destination: string, records: readonly ClaimedRecord[]): Promise<Fate[]> {
    const publisher = publisherOf(this.#setup.publisher, this.#rules.routes ? destination : undefined)
    if (publisher === undefined) return records.map((record) => ({ record, fate: parked(record, 'no publisher') }))
    let results: readonly PublishResult[]
    try {
      results = await this.#send(publisher, this.#rules.heedsDestination ? destination : 'orders', records)
    } catch (error) {
      if (this.#force.signal.aborted) return records.map((record) => ({ record, fate: 'giveBack' }))
      if (!this.#rules.survivesThrow) await new Promise(() => {})
      results = records.map(() => ({ ok: false, error, scope: 'destination' }))
    }
    if (this.#rules.tellsRecords) results = await this.#tellRecords(publisher, records, results)
    const fault = results.find((result) => !result.ok && result.scope === 'destination')
    if (fault === undefined) this.#down.delete(destination)
    else this.#pause(destination)
    const any = results.some(({ ok }) => ok)
    return records.map((record, index) => {
      const result = results[index] ?? { ok: false, error: new Error('no result') }
      return { record, fate: this.#fateOf(record, any && !this.#rules.looksAtEachResult ? { ok: true } : result) }
    })
  }

  /** The first record that failed is sent once more, alone, if others pass: if it fails again it is at fault itself. */
  async #tellRecords(publisher: Publisher, records: readonly ClaimedRecord[], results: readonly PublishResult[]): Promise<PublishResult[]> {
    const told = [...results]
    const isDown = (result: PublishResult) => !result.ok && result.scope === 'destination'
    const retry = async (index: number): Promise<PublishResult> => {
      const record = records[index] as ClaimedRecord // the index of a result
      try {
        return (await this.#send(publisher, record.destination, [record]))[0] ?? { ok: false, error: new Error('no result') }
      } catch (error) {
        return { ok: false, error, scope: 'destination' }
      }
    }
    const last = told.length - 1
    if (last > 0 && told.every(isDown)) told[last] = await retry(last)
    const first = told.findIndex(isDown)
    if (first === -1 || told.every(isDown)) return told
    const again = await retry(first)
    told[first] = again.ok ? again : { ok: false, error: again.error }
    return told
  }

  async #send(publisher: Publisher, destination: string, records: readonly ClaimedRecord[]): Promise<readonly PublishResult[]> {
    const { runtime, publishTimeout } = this.#setup
    const messages = records.map(({ message }) => message)
    const publish = (signal: AbortSignal) => publisher.publish(destination, messages, { signal })
    if (!this.#rules.sendsOnce) await publish(this.#force.signal)
    return await limited(runtime, this.#rules.limitsPublish ? publishTimeout : undefined, this.#force.signal, publish)
  }

  #isExpired({ message }: ClaimedRecord): boolean {
    return this.#rules.heedsExpiry && (message.expiryTime?.getTime() ?? Infinity) <= this.#setup.runtime.now()
  }

  #fateOfExpired(record: ClaimedRecord): Outcome {
    const { id, token } = record
    return this.#rules.parksExpired ? parked(record, 'it has expired') : { id, token, result: 'published' }
  }

  #fateOf(record: ClaimedRecord, result: PublishResult): Fate['fate'] {
    const { id, token, attempts } = record
    if (result.ok) return { id, token, result: 'published' }
    if (result.scope === 'destination' && this.#rules.sparesAttempts) return 'giveBack'
    const error = toError(result.error).message
    const exhausted = this.#rules.limitsAttempts && attempts >= this.#setup.maxAttempts
    if (exhausted || (this.#rules.parks && result.permanent === true)) return parked(record, error)
    const retryAfter = this.#rules.backsOff ? this.#setup.backoff(attempts, this.#setup.runtime.random) : 0
    return { id, token, result: 'failed', error, retryAfter }
  }

  #pause(destination: string): void {
    const { runtime, logger } = this.#setup
    const before = this.#down.get(destination)
    const failures = (before?.failures ?? 0) + 1
    if (before === undefined || !this.#rules.logsChanges) logger.warn({ destination }, 'A destination is down.')
    const pause = this.#rules.pauses ? Math.min(1000 * 2 ** (failures - 1), 60_000) : 1
    this.#down.set(destination, { failures, until: runtime.now() + pause })
  }
}

function parked({ id, token }: ClaimedRecord, error: string): Outcome {
  return { id, token, result: 'parked', error }
}

function isPublisher(publisher: Publisher | PublisherMap): publisher is Publisher {
  return typeof publisher.publish === 'function'
}

function ownDestinations(publisher: Publisher | PublisherMap): string[] | undefined {
  return isPublisher(publisher) || '*' in publisher ? undefined : Object.keys(publisher)
}

/** Without a destination: the first there is. */
function publisherOf(publisher: Publisher | PublisherMap, destination: string | undefined): Publisher | undefined {
  if (isPublisher(publisher)) return publisher
  return destination === undefined ? Object.values(publisher)[0] : (publisher[destination] ?? publisher['*'])
}
