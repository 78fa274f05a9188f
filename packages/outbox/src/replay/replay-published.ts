import { AckordError, idle, isAckordError, toError } from '@ackord/core'
import { abortable, describeMessage, isRetryable, maxReplayBatch, maxReplayBytes, messageOf, ReplayPace } from '@ackord/core/internal'
import { mapRecord } from '../delivery/map-record.ts'
import type { OutboxAdmin, OutboxFilter, OutboxPage, OutboxRecord } from '../store/outbox-admin.ts'
import { backoff, maxAttempts, publishBatch, type Replayed } from './publish-batch.ts'
import {
  type ReplayProgress,
  type ReplayPublishedOptions,
  type ReplayResult,
  type ReplaySettings,
  replaySettings,
} from './replay-options.ts'
import { invalidPosition, type Position, start, writePosition } from './replay-position.ts'
import { replayedMessage } from './replayed-message.ts'

/** A replay that has not reached its end: a record was not published, or the store could not be read. Another replay continues at `progress.position`. */
export class ReplayFailedError extends AckordError {
  static {
    this.prototype.name = 'ReplayFailedError'
  }

  readonly progress: ReplayProgress
  /** The id in the store of the record that was not published; `undefined` if the store could not be read. */
  readonly recordId: string | undefined

  constructor(progress: ReplayProgress, record: OutboxRecord | undefined, cause: unknown) {
    const failed =
      record === undefined ? 'the store could not be read' : `record ${record.id}, ${describeMessage(record.message)}, was not published`
    const text = `The replay ended after ${progress.replayed} ${progress.replayed === 1 ? 'record' : 'records'}, because ${failed}: ${messageOf(toError(cause))}`
    super('ACKORD_REPLAY_FAILED', text, { cause, retryable: isRetryable(cause) })
    this.progress = progress
    this.recordId = record?.id
  }
}

/**
 * Publishes records again that were published before and that the store has kept (`retain`), in the order in which they were stored, marked with the attribute `replayed: true`. Changes
 * nothing in the store, apart from an entry in its audit. Records that are published while it runs, and those that are stored later, may be left out.
 *
 * The records of an ordering key are published one after the other. A record that is not confirmed is tried five times, unless the broker refuses it for good; then the replay
 * rejects with a `ReplayFailedError`, and nothing behind that record in its key was published. Continue at its position when the cause is removed, or without the record, by `except`.
 *
 * Delivery is at least once: a replay that continues at a position, or after a crash at the last position that it reported, may publish some records again. With their own ids,
 * or with the same `newIds`, an inbox recognises them.
 *
 * @example
 * ```ts
 * const { replayed } = await replayPublished(outbox, { publisher, type: 'order.placed', from: new Date('2026-11-01T00:00Z'), toDestination: 'search' })
 * ```
 */
export async function replayPublished(
  outbox: Pick<OutboxAdmin, 'list' | 'audited'>,
  options: ReplayPublishedOptions,
): Promise<ReplayResult> {
  const settings = replaySettings(options)
  const replay = new Replay(outbox, settings)
  if (settings.dryRun || outbox.audited === undefined) return await replay.run()
  let result: ReplayResult | undefined
  await outbox.audited({ action: 'replay', what: describeReplay(settings), ...settings.operator }, async () => {
    result = await replay.run()
    return result.replayed
  })
  // Set: otherwise audited() has rejected.
  return result as ReplayResult
}

/** Milliseconds by which the clock of the store may differ from ours, where that decides only what is read. */
const clockTolerance = 3_600_000
/** Records of the first page: how large they are is not known yet. */
const firstPage = 10

class Replay {
  readonly #outbox: Pick<OutboxAdmin, 'list'>
  readonly #settings: ReplaySettings
  readonly #pace: ReplayPace
  readonly #startedAt: number
  readonly #destinations = new Map<string, number>()
  #replayed = 0
  #expired = 0
  #position: Position

  constructor(outbox: Pick<OutboxAdmin, 'list'>, settings: ReplaySettings) {
    const { rate, dryRun, runtime } = settings
    this.#outbox = outbox
    this.#settings = settings
    this.#pace = new ReplayPace(dryRun ? undefined : rate, runtime)
    this.#startedAt = runtime.monotonic()
    this.#position = settings.start
  }

  async run(): Promise<ReplayResult> {
    const { dryRun, signal } = this.#settings
    const done = await this.#doneBefore()
    let limit = dryRun ? maxReplayBatch : firstPage
    while (!signal.aborted) {
      const page = await this.#read({ limit, payloads: !dryRun })
      if (page === undefined) break
      const { records, next } = page
      for (let from = 0; from < records.length && !signal.aborted; from += this.#pace.batchSize)
        await this.#replay(records.slice(from, from + this.#pace.batchSize), done)
      if (signal.aborted) break
      if (next === undefined) return this.#result(true)
      this.#position = { after: next, done: undefined }
      limit = nextLimit(records)
    }
    return this.#result(false)
  }

  /** The records of the first page that are done. */
  async #doneBefore(): Promise<ReadonlySet<string>> {
    const { done } = this.#position
    if (done === undefined) return new Set()
    const page = await this.#read({ limit: maxReplayBatch, payloads: false })
    const ids = page?.records.map(({ id }) => id) ?? []
    // If it is not there, because the cleanup has deleted it, the records that are left of its page are published again.
    return new Set(ids.slice(0, ids.indexOf(done) + 1))
  }

  /** Resolves to `undefined` if the signal is aborted. Tries again while the store does not answer. */
  async #read(options: { readonly limit: number; readonly payloads: boolean }): Promise<OutboxPage | undefined> {
    const { signal, runtime } = this.#settings
    const { after } = this.#position
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await abortable(this.#outbox.list(this.#filter(), { ...options, after }), signal)
      } catch (error) {
        if (signal.aborted) return undefined
        if (isAckordError(error, 'ACKORD_INVALID_OPTION')) throw this.#optionError(error)
        if (!isRetryable(error) || attempt >= maxAttempts) throw new ReplayFailedError(this.#progress(), undefined, error)
        if (
          !(await idle(
            runtime,
            backoff(attempt, () => runtime.random()),
            signal,
          ))
        )
          return undefined
      }
    }
  }

  /**
   * The store is asked for an age, by its own clock, and so excludes what was stored since the replay began. The instants are compared exactly later: what is asked for here
   * only saves reading most of the other records.
   */
  #filter(): OutboxFilter {
    const { filter, from, until, runtime } = this.#settings
    const elapsed = Math.floor(runtime.monotonic() - this.#startedAt)
    return {
      ...filter,
      state: 'published',
      minAge: Math.max(elapsed, until === undefined ? 0 : this.#ageOf(until) - clockTolerance),
      maxAge: from === undefined ? undefined : Math.max(0, this.#ageOf(from)) + clockTolerance,
    }
  }

  #ageOf(instant: number): number {
    // biome-ignore lint/plugin: the user has set the instant.
    return this.#settings.runtime.now() - instant
  }

  async #replay(records: readonly OutboxRecord[], done: ReadonlySet<string>): Promise<void> {
    const { dryRun, signal, routes, publishTimeout, runtime, onProgress } = this.#settings
    const batch: Replayed[] = []
    let expired = 0
    let failure: { readonly record: OutboxRecord; readonly error: unknown } | undefined
    for (const record of records) {
      if (done.has(record.id) || !this.#isWanted(record)) continue
      if (this.#hasExpired(record)) {
        expired += 1
        continue
      }
      try {
        batch.push(this.#prepared(record))
      } catch (error) {
        failure = { record, error }
        break
      }
    }
    const confirmed = new Set<OutboxRecord>()
    if (dryRun) for (const { record } of batch) confirmed.add(record)
    else if (batch.length > 0) {
      await this.#pace.turn(batch.length, signal)
      if (signal.aborted) return
      const published = await publishBatch(batch, { routes, publishTimeout, runtime, signal })
      for (const record of published.confirmed) confirmed.add(record)
      failure = published.failure ?? failure
    }
    this.#count(batch, confirmed)
    const open = new Set(batch.flatMap(({ record }) => (confirmed.has(record) ? [] : [record])))
    if (failure !== undefined) open.add(failure.record)
    // Up to the first record that is not done: those behind it that are confirmed will be published again.
    const end = open.size === 0 ? records.length : records.findIndex((record) => open.has(record))
    const last = records[end - 1]
    if (last !== undefined) this.#position = { ...this.#position, done: last.id }
    if (open.size === 0) this.#expired += expired
    if (failure !== undefined) throw new ReplayFailedError(this.#progress(), failure.record, failure.error)
    onProgress?.(this.#progress())
  }

  #isWanted({ id, createdAt }: OutboxRecord): boolean {
    const { from = -Infinity, until = Infinity, except } = this.#settings
    return createdAt >= from && createdAt <= until && !except.has(id)
  }

  #hasExpired({ message }: OutboxRecord): boolean {
    const { expiryTime } = message
    // biome-ignore lint/plugin: the writer of the message has set the instant.
    return expiryTime !== undefined && expiryTime.getTime() <= this.#settings.runtime.now()
  }

  #prepared(record: OutboxRecord): Replayed {
    const { map, toDestination, newIds } = this.#settings
    const { name, message } = mapRecord(record, map)
    return { record, name: toDestination ?? name, message: replayedMessage(message, newIds) }
  }

  #count(batch: readonly Replayed[], confirmed: ReadonlySet<OutboxRecord>): void {
    for (const { record, name } of batch) {
      if (!confirmed.has(record)) continue
      this.#replayed += 1
      this.#destinations.set(name, (this.#destinations.get(name) ?? 0) + 1)
    }
  }

  #progress(): ReplayProgress {
    const { after, done } = this.#position
    const position = after === start.after && done === start.done ? undefined : writePosition(this.#position)
    return { replayed: this.#replayed, expired: this.#expired, position }
  }

  #result(complete: boolean): ReplayResult {
    return { ...this.#progress(), complete, destinations: Object.fromEntries(this.#destinations) }
  }

  /** Of the options of `list()` only the cursor is the user's. */
  #optionError(error: AckordError): AckordError {
    const { position } = this.#settings
    return 'option' in error && error.option === 'after' && position !== undefined ? invalidPosition(position) : error
  }
}

/** So many records that a page stays small enough, if they are about as large as the last ones. */
function nextLimit(records: readonly OutboxRecord[]): number {
  const bytes = records.reduce((sum, { message }) => sum + message.data.byteLength, 0)
  const average = bytes / Math.max(1, records.length)
  return Math.max(1, Math.min(maxReplayBatch, Math.floor(maxReplayBytes / Math.max(1, average))))
}

/** For the audit: what was replayed, and where to. */
function describeReplay({ filter, from, until, except, toDestination, newIds, position }: ReplaySettings): string {
  const instant = (value: number | undefined) => (value === undefined ? undefined : new Date(value).toISOString())
  const left = except.size === 0 ? undefined : [...except]
  return JSON.stringify({ ...filter, from: instant(from), until: instant(until), except: left, toDestination, newIds, position })
}
