import { AckordError, type Backoff, exponentialBackoff, idle, type PublishFailure, type RawMessage, type Runtime } from '@ackord/core'
import { groupBy, publishInTime, redactDestination } from '@ackord/core/internal'
import type { PublisherRoutes } from '../options/relay-options.ts'
import type { OutboxRecord } from '../store/outbox-admin.ts'

/** A record to be published again. */
export interface Replayed {
  readonly record: OutboxRecord
  /** The destination's name at the broker. */
  readonly name: string
  readonly message: RawMessage
}

export interface BatchOptions {
  readonly routes: PublisherRoutes
  readonly publishTimeout: number
  readonly runtime: Runtime
  /** Aborted while a batch waits to try again: it ends then. */
  readonly signal: AbortSignal
}

export interface BatchResult {
  readonly confirmed: ReadonlySet<OutboxRecord>
  /** Why the batch was given up: the first of its records that was not published. `undefined`: all are confirmed, or the signal is aborted. */
  readonly failure: { readonly record: OutboxRecord; readonly error: unknown } | undefined
}

/** How often a record is tried. With the pauses in between, a broker may be away for about 15 seconds. */
export const maxAttempts = 5
export const backoff: Backoff = exponentialBackoff({ initial: 1000, max: 10_000 })

/**
 * Publishes a batch: the first record of every key together with all records without a key, then the second of every key, and so on, as a relay with order per key does. A record
 * whose publish fails is tried again; if it is given up, nothing behind it in its key is published, and the batch ends.
 */
export async function publishBatch(batch: readonly Replayed[], options: BatchOptions): Promise<BatchResult> {
  const confirmed = new Set<OutboxRecord>()
  let runs: readonly (readonly Replayed[])[] = groupBy(batch, keyOf).map(([, run]) => run)
  while (runs.length > 0 && !options.signal.aborted) {
    const wave = runs.flatMap(([first]) => first ?? [])
    const failure = await publishWave(wave, confirmed, options)
    if (failure !== undefined) return { confirmed, failure }
    runs = runs.map(([, ...rest]) => rest).filter(({ length }) => length > 0)
  }
  return { confirmed, failure: undefined }
}

/** A record without a key is a run of its own. */
function keyOf({ record, name, message }: Replayed): unknown {
  const { partitionkey } = message.attributes
  return partitionkey === undefined ? record : `${name.length} ${name}${partitionkey}`
}

async function publishWave(
  wave: readonly Replayed[],
  confirmed: Set<OutboxRecord>,
  { routes, publishTimeout, runtime, signal }: BatchOptions,
): Promise<BatchResult['failure']> {
  let left = wave
  for (let attempt = 1; ; attempt += 1) {
    const failures = new Map<Replayed, PublishFailure>()
    const groups = groupBy(left, ({ record, name }) => `${record.destination.length} ${record.destination}${name}`).map(
      async ([, group]) => {
        const [{ record, name }] = group
        const publisher = routes.publisherOf(record.destination)
        const messages = group.map(({ message }) => message)
        const results =
          publisher === undefined
            ? group.map(() => noPublisher(record.destination))
            : await publishInTime(publisher, name, messages, { timeout: publishTimeout, runtime })
        for (const [index, one] of group.entries()) {
          const result = results[index]
          if (result?.ok === true) confirmed.add(one.record)
          else if (result !== undefined) failures.set(one, result)
        }
      },
    )
    await Promise.all(groups)
    left = left.filter((one) => failures.has(one))
    const [first] = left
    if (first === undefined) return undefined
    const refused = left.find((one) => isFinal(failures.get(one)))
    const givenUp = refused ?? (attempt >= maxAttempts ? first : undefined)
    if (givenUp !== undefined) return { record: givenUp.record, error: failures.get(givenUp)?.error }
    const pause = Math.max(
      backoff(attempt, () => runtime.random()),
      ...[...failures.values()].map(({ retryAfter = 0 }) => retryAfter),
    )
    // The caller sees by the signal that the wave has not ended.
    if (!(await idle(runtime, pause, signal))) return undefined
  }
}

function isFinal(failure: PublishFailure | undefined): boolean {
  return failure?.permanent === true && failure.scope !== 'destination'
}

function noPublisher(destination: string): PublishFailure {
  const text = `There is no publisher for '${redactDestination(destination)}'. Add one to the map, or '*' for the rest.`
  return { ok: false, error: new AckordError('ACKORD_PUBLISH_FAILED', text, { retryable: false }), permanent: true }
}
