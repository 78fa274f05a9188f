import { AckordError, type PublishFailure, type PublishResult, probe } from '@ackord/core'
import { abortable, checkResultCount } from '@ackord/core/internal'
import type { DestinationPauses } from './destination-pauses.ts'
import { groupBy } from './group-by.ts'
import type { OutboxMeter } from './outbox-meter.ts'
import type { ClaimedRecord } from './outbox-store.ts'
import { failed, published } from './outcomes.ts'
import type { RelaySettings } from './relay-options.ts'
import type { Sending } from './screen-record.ts'
import { withTimeLimit } from './time-limit.ts'
import type { Verdict } from './verdict.ts'

export interface PublishGroupOptions {
  readonly settings: RelaySettings
  readonly pauses: DestinationPauses
  readonly meter: OutboxMeter
  /** Aborted when the records are ours no more, or when nobody waits any longer. */
  readonly giveUp: AbortSignal
}

/**
 * Publishes records of one destination, in one call per name at the broker, and says what became of each. Those that are not among the
 * verdicts go back as if they had not been claimed, because the destination is at fault or nothing is known. Never rejects.
 */
export async function publishGroup(
  destination: string,
  sendings: readonly Sending[],
  options: PublishGroupOptions,
): Promise<readonly Verdict[]> {
  const { settings, pauses, giveUp } = options
  const verdicts: Verdict[] = []
  let fault: Omit<PublishFailure, 'ok'> | undefined
  await Promise.all(
    groupBy(sendings, ({ name }) => name).map(async ([name, part]) => {
      try {
        const results = await publish(destination, name, part, options)
        fault ??= results.find(isDestinationFailure)
        for (const [index, { record }] of part.entries()) {
          const verdict = verdictOf(record, results[index], settings)
          if (verdict !== undefined) verdicts.push(verdict)
        }
      } catch (error) {
        fault ??= { error }
      }
    }),
  )
  if (fault === undefined) pauses.worked(destination, sendings.length)
  // If we gave up, it is our own time that ran out, which is no news of the destination.
  else if (!giveUp.aborted) pauses.failed(destination, sendings.length, fault)
  return verdicts
}

async function publish(
  destination: string,
  name: string,
  sendings: readonly Sending[],
  options: PublishGroupOptions,
): Promise<readonly PublishResult[]> {
  const { settings, meter, giveUp } = options
  const { runtime, routes, publishTimeout } = settings
  const publisher = routes.publisherOf(destination)
  if (publisher === undefined) throw noPublisher(destination, routes.destinations ?? [])
  const late = () => new AckordError('ACKORD_PUBLISH_FAILED', `Publishing to '${name}' took longer than ${publishTimeout} ms.`)
  const messages = sendings.map(({ message }) => message)
  const startedAt = runtime.now()
  meter.attempts(destination, messages.length)
  const results = await withTimeLimit(runtime, publishTimeout, late, (timedOut) =>
    abortable(publisher.publish(name, messages, { signal: AbortSignal.any([timedOut, giveUp]) }), giveUp),
  )
  checkResultCount(results, messages.length, name)
  meter.publishDuration(runtime.now() - startedAt, destination)
  const paused = probe('relay.published')
  if (paused !== undefined) await paused
  return results
}

function verdictOf(record: ClaimedRecord, result: PublishResult | undefined, settings: RelaySettings): Verdict | undefined {
  if (result === undefined) return undefined
  if (result.ok) return { record, outcome: published(record) }
  if (result.scope === 'destination') return undefined
  const outcome = failed(record, result, settings)
  const reason = outcome.result !== 'parked' ? undefined : result.permanent === true ? 'permanent' : 'attempts'
  return { record, outcome, error: result.error, reason }
}

function isDestinationFailure(result: PublishResult): result is PublishFailure {
  return !result.ok && result.scope === 'destination'
}

function noPublisher(destination: string, known: readonly string[]): AckordError {
  const names = known.map((name) => `'${name}'`).join(', ')
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `This relay has no publisher for '${destination}'; it has some for ${names}. Add one to the map, or '*' for the rest.`,
  )
}
