import { AckordError, type PublishFailure, type PublishResult, probe } from '@ackord/core'
import { abortable, checkResultCount } from '@ackord/core/internal'
import type { DestinationPauses } from './destination-pauses.ts'
import type { Lease } from './lease-keeper.ts'
import type { OutboxMeter } from './outbox-meter.ts'
import type { ClaimedRecord, Outcome } from './outbox-store.ts'
import { failed, published } from './outcomes.ts'
import type { RelaySettings } from './relay-options.ts'
import { withTimeLimit } from './time-limit.ts'

export interface PublishGroupOptions {
  readonly settings: RelaySettings
  readonly lease: Lease<ClaimedRecord>
  readonly pauses: DestinationPauses
  readonly meter: OutboxMeter
}

/**
 * Publishes records of one destination in one call and says what became of each, in their order; `undefined` is for a record that goes back
 * as if it had not been claimed, because the destination is at fault or nothing is known. Never rejects.
 */
export async function publishGroup(
  destination: string,
  records: readonly ClaimedRecord[],
  options: PublishGroupOptions,
): Promise<readonly (Outcome | undefined)[]> {
  const { settings, lease, pauses, meter } = options
  const startedAt = settings.runtime.now()
  let results: readonly PublishResult[]
  try {
    results = await publish(destination, records, settings, lease.signal)
  } catch (error) {
    // Without the lease it is our own time that ran out, which is no news of the destination.
    if (!lease.signal.aborted) pauses.failed(destination, records.length, { error })
    return records.map(() => undefined)
  }
  meter.publishDuration(settings.runtime.now() - startedAt, destination)
  const paused = probe('relay.published')
  if (paused !== undefined) await paused
  const fault = results.find(isDestinationFailure)
  if (fault === undefined) pauses.worked(destination, records.length)
  else pauses.failed(destination, records.length, fault)
  return records.map((record, index) => outcomeOf(record, results[index], settings))
}

async function publish(
  destination: string,
  records: readonly ClaimedRecord[],
  settings: RelaySettings,
  lost: AbortSignal,
): Promise<readonly PublishResult[]> {
  const { runtime, publisher, publishTimeout } = settings
  const late = () => new AckordError('ACKORD_PUBLISH_FAILED', `Publishing to '${destination}' took longer than ${publishTimeout} ms.`)
  const messages = records.map((record) => record.message)
  const results = await withTimeLimit(runtime, publishTimeout, late, (timedOut) =>
    abortable(publisher.publish(destination, messages, { signal: AbortSignal.any([timedOut, lost]) }), lost),
  )
  checkResultCount(results, messages.length, destination)
  return results
}

function outcomeOf(record: ClaimedRecord, result: PublishResult | undefined, settings: RelaySettings): Outcome | undefined {
  if (result === undefined) return undefined
  if (result.ok) return published(record)
  return isDestinationFailure(result) ? undefined : failed(record, result, settings)
}

function isDestinationFailure(result: PublishResult): result is PublishFailure {
  return !result.ok && result.scope === 'destination'
}
