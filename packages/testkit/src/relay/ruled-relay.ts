import { idle, type PublishResult, toError } from '@ackord/core'
import type { ClaimedRecord, OutboxStore, Outcome } from '@ackord/outbox'
import type { RelayRules } from './relay-rules.ts'
import type { RelaySetup, RelayUnderTest } from './relay-world.ts'

type Fate = Outcome | 'giveBack'

/** A relay that does what its rules say and no more, so that mutants differ from a right one in one rule each. */
export class RuledRelay implements RelayUnderTest {
  readonly #store: OutboxStore
  readonly #setup: RelaySetup
  readonly #rules: RelayRules
  readonly #stop = new AbortController()
  /** Until when a destination is left alone, and how often it has failed in a row. */
  readonly #down = new Map<string, { failures: number; until: number }>()
  #run: Promise<void> | undefined

  constructor(store: OutboxStore, setup: RelaySetup, rules: RelayRules) {
    this.#store = store
    this.#setup = setup
    this.#rules = rules
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
    if (this.#rules.stopsGracefully) await this.#run
  }

  async #loop(): Promise<void> {
    const { runtime, batchSize, lease, pollInterval } = this.#setup
    while (!this.#stop.signal.aborted) {
      const paused = [...this.#down].filter(([, { until }]) => until > runtime.now()).map(([destination]) => destination)
      const blocked = !this.#rules.pausesAlone && paused.length > 0
      const records = blocked ? [] : await this.#store.claim({ limit: batchSize, lease, except: paused })
      if (records.length === 0) await idle(runtime, pollInterval, this.#stop.signal)
      else if (this.#stop.signal.aborted) await this.#store.release(records)
      else await this.#carry(records)
    }
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
    const destinations = [...new Set(records.map(({ destination }) => destination))]
    const fates = await Promise.all(
      destinations.map((destination) =>
        this.#publish(
          destination,
          records.filter((record) => record.destination === destination),
        ),
      ),
    )
    done = true
    timer.cancel()
    await this.#settle(fates.flat())
  }

  async #settle(fates: readonly { readonly record: ClaimedRecord; readonly fate: Fate }[]): Promise<void> {
    const outcomes = fates.flatMap(({ fate }) => (fate === 'giveBack' ? [] : [fate]))
    const wanted = outcomes.filter(({ result }) => result !== 'published' || this.#rules.settles)
    if (wanted.length > 0) await this.#store.settle(wanted)
    const back = fates.flatMap(({ record, fate }) => (fate === 'giveBack' ? [record] : []))
    if (back.length > 0) await this.#store.release(back)
  }

  async #publish(destination: string, records: readonly ClaimedRecord[]): Promise<{ record: ClaimedRecord; fate: Fate }[]> {
    let results: readonly PublishResult[]
    try {
      results = await this.#send(this.#rules.heedsDestination ? destination : 'orders', records)
    } catch (error) {
      if (!this.#rules.survivesThrow) await new Promise(() => {})
      results = records.map(() => ({ ok: false, error, scope: 'destination' }))
    }
    const fault = results.find((result) => !result.ok && result.scope === 'destination')
    if (fault === undefined) this.#down.delete(destination)
    else this.#pause(destination)
    const any = results.some(({ ok }) => ok)
    return records.map((record, index) => {
      const result = results[index] ?? { ok: false, error: new Error('no result') }
      return { record, fate: this.#fateOf(record, any && !this.#rules.looksAtEachResult ? { ok: true } : result) }
    })
  }

  async #send(destination: string, records: readonly ClaimedRecord[]): Promise<readonly PublishResult[]> {
    const { publisher, runtime, publishTimeout } = this.#setup
    const limit = new AbortController()
    const messages = records.map(({ message }) => message)
    if (!this.#rules.sendsOnce) await publisher.publish(destination, messages, { signal: limit.signal })
    const sending = publisher.publish(destination, messages, { signal: limit.signal })
    if (!this.#rules.limitsPublish) return await sending
    const late = new Promise<never>((_, reject) => {
      const timer = runtime.setTimeout(() => {
        limit.abort()
        reject(new Error('the publish took too long'))
      }, publishTimeout)
      sending.then(
        () => timer.cancel(),
        () => timer.cancel(),
      )
    })
    return await Promise.race([sending, late])
  }

  #fateOf(record: ClaimedRecord, result: PublishResult): Fate {
    const { id, token, attempts } = record
    if (result.ok) return { id, token, result: 'published' }
    if (result.scope === 'destination' && this.#rules.sparesAttempts) return 'giveBack'
    const error = toError(result.error).message
    const exhausted = this.#rules.limitsAttempts && attempts >= this.#setup.maxAttempts
    if (exhausted || (this.#rules.parks && result.permanent === true)) return { id, token, result: 'parked', error }
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
