import { AckordError, type PublishFailure, type PublishResult, type Runtime, toError } from '@ackord/core'
import { abortable, checkResultCount, groupBy, messageOf, probe, redactDestination, withTimeLimit } from '@ackord/core/internal'
import type { MapRecord, ParkReason } from '../options/relay-events.ts'
import type { RelaySettings } from '../options/relay-options.ts'
import type { ClaimedRecord } from '../store/outbox-store.ts'
import type { DestinationPauses } from './destination-pauses.ts'
import { type Mapped, mapRecord } from './map-record.ts'
import { failed, neverSettled, parked, published, type Verdict } from './outcomes.ts'
import type { OutboxMeter } from './relay-observer.ts'

export interface PublishGroupOptions {
  readonly settings: RelaySettings
  readonly pauses: DestinationPauses
  readonly meter: OutboxMeter
  /** Aborted when the relay no longer owns the records, or no longer waits for them. */
  readonly cancelled: AbortSignal
  /** When the records had the `age` that the store returned, by the runtime's clock. */
  readonly claimedAt: number
}

/** The result of a record that was sent. `fault`: its destination failed. */
interface Sent {
  readonly sending: Sending
  readonly verdict: Verdict | undefined
  readonly fault: Fault | undefined
}

type Fault = Omit<PublishFailure, 'ok'>

/** The maximum number of suspects that are sent after a batch, each alone; fewer where nothing else shows whether the destination is up. */
const maxAlone = 8
const minAlone = 2

/**
 * Publishes records of one destination, with one call per name at the broker, and returns a verdict for each. Records without a verdict are released
 * as if they had not been claimed, because the destination failed or the result is unknown. Never rejects.
 *
 * Suspects are sent after the others, if any of those succeeded, and each in a call of its own: a suspect that fails then has failed for itself, and
 * loses an attempt.
 */
export async function publishGroup(
  destination: string,
  sendings: readonly Sending[],
  options: PublishGroupOptions,
): Promise<readonly Verdict[]> {
  const { settings, pauses, cancelled } = options
  const { suspensions } = settings.runtime
  const isSuspect = ({ record }: Sending) => pauses.isSuspect(destination, record.id)
  const suspects = pauses.hasSuspects(destination) ? sendings.filter(isSuspect) : []
  const others = suspects.length === 0 ? sendings : sendings.filter((sending) => !isSuspect(sending))
  const together = await publishTogether(destination, others, options)
  // Nearly all batches: every record passed, and none was suspected. The steps below would have the same result, with more copies.
  if (!pauses.hasSuspects(destination) && together.every(hasPassed)) {
    if (!cancelled.aborted && settings.runtime.suspensions === suspensions) pauses.worked(destination, together.length)
    return verdictsOf(together)
  }
  const trusted = others.length === 0 || together.some(hasPassed)
  const tried = suspects.slice(0, others.length === 0 ? minAlone : maxAlone)
  const alone = trusted ? await publishAlone(destination, tried, together, options) : []
  const sent = [...together, ...alone]
  // If the relay gave up, or was suspended, its own time ran out, which says nothing about the destination.
  if (!cancelled.aborted && settings.runtime.suspensions === suspensions) judge(destination, { together, alone }, pauses)
  else return verdictsOf(sent)
  const passed = sent.some(hasPassed)
  return sent.flatMap(({ sending, verdict, fault }) => {
    if (fault === undefined || !passed || !alone.some((one) => one.sending === sending)) return verdict ?? []
    return failure(sending.record, fault, settings)
  })
}

function verdictsOf(sent: readonly Sent[]): readonly Verdict[] {
  const verdicts: Verdict[] = []
  for (const { verdict } of sent) if (verdict !== undefined) verdicts.push(verdict)
  return verdicts
}

/** Reports to the pauses what the publish has shown about the destination. */
function judge(
  destination: string,
  { together, alone }: { readonly together: readonly Sent[]; readonly alone: readonly Sent[] },
  pauses: DestinationPauses,
): void {
  const sent = [...together, ...alone]
  const passed = sent.filter(hasPassed)
  const failed = (together.length > 0 ? together : alone).filter((one) => !hasPassed(one))
  if (alone.length > 0 && alone.every(hasPassed)) pauses.clear(destination)
  else if (passed.length > 0) pauses.clear(destination, passed.map(idOf))
  const [first] = failed
  // Suspects that fail while others succeed say nothing about their destination.
  if (first?.fault === undefined || (together.length === 0 && passed.length > 0)) {
    pauses.worked(destination, sent.length)
    return
  }
  if (passed.length > 0 || (pauses.isRecovering(destination) && failed.length <= maxAlone)) pauses.suspect(destination, failed.map(idOf))
  pauses.failed(destination, sent.length, { ...first.fault, passed: passed.length > 0 })
}

function hasPassed({ fault }: Sent): boolean {
  return fault === undefined
}

function idOf({ sending }: Sent): string {
  return sending.record.id
}

/**
 * One after another, because a destination that answers few requests concurrently would reject some of them for no fault of their own. Ends with the
 * first that fails after another one has succeeded: the next batch continues with the others.
 */
async function publishAlone(
  destination: string,
  sendings: readonly Sending[],
  others: readonly Sent[],
  options: PublishGroupOptions,
): Promise<readonly Sent[]> {
  const alone: Sent[] = []
  let passed = others.some(hasPassed)
  for (const sending of sendings) {
    const sent = await publishTogether(destination, [sending], options)
    alone.push(...sent)
    const isThrough = sent.every(hasPassed)
    if (options.cancelled.aborted || (passed && !isThrough)) break
    passed ||= isThrough
  }
  return alone
}

async function publishTogether(destination: string, sendings: readonly Sending[], options: PublishGroupOptions): Promise<readonly Sent[]> {
  const groups = groupBy(sendings, ({ name }) => name).map(async ([name, part]): Promise<readonly Sent[]> => {
    try {
      const results = await publish(destination, name, part, options)
      const anyTried = !results.every(isUntried)
      return part.map((sending, index) => {
        const result = results[index]
        const fault = result !== undefined && isDestinationFailure(result) ? result : undefined
        // It is released, and claimed again without the suspect that it was held back for: that one backs off.
        if (result !== undefined && anyTried && isUntried(result)) return { sending, verdict: undefined, fault }
        return { sending, verdict: verdictOf(sending.record, result, options.settings), fault }
      })
    } catch (error) {
      return part.map((sending) => ({ sending, verdict: undefined, fault: { error } }))
    }
  })
  const sent = await Promise.all(groups)
  return sent.length === 1 ? (sent[0] as readonly Sent[]) : sent.flat()
}

async function publish(
  destination: string,
  name: string,
  sendings: readonly Sending[],
  options: PublishGroupOptions,
): Promise<readonly PublishResult[]> {
  const { settings, meter, cancelled, claimedAt } = options
  const { runtime, routes, publishTimeout } = settings
  const publisher = routes.publisherOf(destination)
  if (publisher === undefined) throw noPublisher(destination, routes.destinations ?? [])
  const late = () =>
    new AckordError('ACKORD_PUBLISH_FAILED', `Publishing to '${redactDestination(name)}' took longer than ${publishTimeout} ms.`)
  const messages = sendings.map(({ message }) => message)
  const startedAt = runtime.monotonic()
  const oldestAge = Math.max(...sendings.map(({ record }) => record.age)) + startedAt - claimedAt
  meter.attempts(destination, messages.length)
  let timedOut: AbortSignal | undefined
  const call = (limit: AbortSignal) => {
    timedOut = limit
    return abortable(publisher.publish(name, messages, { signal: AbortSignal.any([limit, cancelled]), oldestAge }), cancelled)
  }
  const results = await withTimeLimit(runtime, publishTimeout, late, call, { useAbortResult: true })
  checkResultCount(results, messages.length, name)
  const confirmedAt = runtime.monotonic()
  meter.publishDuration(confirmedAt - startedAt, destination)
  meter.delivered(sendings, results, { destination, sinceClaim: confirmedAt - claimedAt })
  const paused = probe('relay.published')
  if (paused !== undefined) await paused
  return timedOut?.aborted === true ? results.map((result) => afterTimeOut(result, timedOut?.reason)) : results
}

/** Records that were confirmed, or rejected permanently, before the time limit keep that result. Failed records may have failed because of the abort. */
function afterTimeOut(result: PublishResult, error: unknown): PublishResult {
  return result.ok || result.permanent === true ? result : { ok: false, error, scope: 'destination' }
}

function verdictOf(record: ClaimedRecord, result: PublishResult | undefined, settings: RelaySettings): Verdict | undefined {
  if (result === undefined) return undefined
  if (result.ok) return { record, outcome: published(record) }
  return result.scope === 'destination' ? undefined : failure(record, result, settings)
}

/** The verdict on a record that has failed itself. */
function failure(record: ClaimedRecord, fault: Fault, settings: RelaySettings): Verdict {
  const outcome = failed(record, fault, settings)
  const reason = outcome.result !== 'parked' ? undefined : fault.permanent === true ? 'permanent' : 'attempts'
  return { record, outcome, error: fault.error, reason }
}

function isUntried(result: PublishResult): boolean {
  return !result.ok && result.tried === false
}

function isDestinationFailure(result: PublishResult): result is PublishFailure {
  return !result.ok && result.scope === 'destination'
}

function noPublisher(destination: string, known: readonly string[]): AckordError {
  const names = known.map((name) => `'${redactDestination(name)}'`).join(', ')
  return new AckordError(
    'ACKORD_PUBLISH_FAILED',
    `This relay has no publisher for '${redactDestination(destination)}'; it has publishers for ${names}. Add one to the map, or '*' for the rest.`,
  )
}

export interface ScreenOptions {
  readonly maxAttempts: number
  readonly map: MapRecord | undefined
  readonly runtime: Runtime
}

/** A record to be sent. */
export interface Sending extends Mapped {
  readonly record: ClaimedRecord
}

/** The message to publish for a record, or the verdict why it is not published. */
export function screenRecord(record: ClaimedRecord, options: ScreenOptions): Sending | Verdict {
  const { maxAttempts, map, runtime } = options
  // Before anything reads the record: it may be what crashes its relays.
  const unsettled = neverSettled(record, maxAttempts)
  if (unsettled !== undefined) return refused(record, 'unsettled', unsettled)
  const { expiryTime } = record.message
  // biome-ignore lint/plugin: the writer of the message has set the instant.
  if (expiryTime !== undefined && expiryTime.getTime() <= runtime.now()) return refused(record, 'expired', expired(expiryTime))
  if (map === undefined) return { record, name: record.destination, message: record.message }
  try {
    return { record, ...mapRecord(record, map) }
  } catch (error) {
    return refused(record, 'unmapped', notMapped(error))
  }
}

function refused(record: ClaimedRecord, reason: ParkReason, error: AckordError): Verdict {
  return { record, outcome: parked(record, error), error, reason }
}

function expired(at: Date): AckordError {
  const text = `The record was not published: it has expired. Its expirytime of ${at.toISOString()} has passed by the relay's clock.`
  return new AckordError('ACKORD_MESSAGE_EXPIRED', text, { retryable: false })
}

function notMapped(thrown: unknown): AckordError {
  const cause = toError(thrown)
  return new AckordError('ACKORD_PUBLISH_FAILED', `The record was not published: map() failed for it: ${messageOf(cause)}`, {
    cause,
    retryable: false,
  })
}
