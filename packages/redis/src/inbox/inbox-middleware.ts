import {
  type Context,
  deterministicIds,
  type ErrorCode,
  enter,
  isAckordError,
  type Message,
  type Metrics,
  type Middleware,
  type Process,
} from '@ackord/core'
import {
  checkChoice,
  checkDuration,
  checkName,
  describeMessage,
  isSettled,
  outputIdsKey,
  PartPorts,
  rejectUnknownOptions,
} from '@ackord/core/internal'
import {
  type InboxOptions as CommonInboxOptions,
  createInboxMiddleware,
  type HandleRecorded,
  type InboxFinding,
  type InboxKey,
  openInbox,
} from '@ackord/outbox'
import { defaultTag } from '../client/keys.ts'
import { InboxBusyError, PartialCommitError, TransactionAbortedError } from '../errors.ts'
import type { MarkerClaim } from '../transaction/committer.ts'
import { OvertakenError } from '../transaction/committer.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { UnitOfWork } from '../transaction/unit-of-work.ts'
import { type Begun, InboxLeases, type Lease } from './inbox-leases.ts'
import { markerMaker } from './marker.ts'

export interface InboxOptions extends CommonInboxOptions {
  /**
   * - `exclusive`: a lease while the message is handled, renewed, and checked by the commit. A duplicate that arrives meanwhile is nacked.
   *   After a crash the message is handled again when the lease has expired.
   * - `optimistic`: no lease. Duplicates that arrive at the same time are all handled, and one of them commits.
   * - `mark-first`: the message is marked as done before it is handled. **A crash in between loses it.**
   *
   * Default: `exclusive`.
   */
  readonly mode?: 'exclusive' | 'optimistic' | 'mark-first' | undefined
  /**
   * The hash tag of the marker's key. The marker commits with the writes of the handler, so their keys need the same tag: `redis.key(tag, …)`. One tag is
   * one slot: on a cluster, derive it from the message. Default: `'ackord'`.
   */
  readonly tag?: string | ((message: Message) => string) | undefined
  /** Milliseconds. After a crash, the message is handled again this much later. Default: 30,000. */
  readonly lease?: number | undefined
  /**
   * Milliseconds after the commit for which duplicates are recognised. It must be longer than the broker may redeliver a message. A marker
   * takes about 150 bytes: 1,000 messages per second for a day take 13 GB. Default: 24 hours.
   */
  readonly retention?: number | undefined
  /** Counts `ackord.inbox.handled`, `ackord.inbox.duplicates` and `ackord.inbox.busy`. Default: those of the router. */
  readonly metrics?: Metrics | undefined
}

/**
 * Handles a message once: the marker that it is done commits with the transaction inside, so that both are there or neither.
 * A duplicate is acked and not handled. Outputs need an outbox inside: published after the commit, they would be lost in a crash.
 */
export function inboxMiddleware(redis: Redis, options: InboxOptions): Middleware {
  const { consumer, mode = 'exclusive', tag = defaultTag, lease = 30_000, retention = 86_400_000, ...others } = options
  const { key, onDuplicate, logger, metrics: givenMetrics, ...unknown } = others
  rejectUnknownOptions('inboxMiddleware()', unknown)
  const inbox = openInbox({ consumer, key, onDuplicate, logger, metrics: givenMetrics })
  checkChoice('mode', mode, ['exclusive', 'optimistic', 'mark-first'])
  if (typeof tag !== 'function') checkName('tag', tag)
  checkDuration('lease', lease, { min: 10 })
  checkDuration('retention', retention, { min: 1 })

  const internals = internalsOf(redis)
  const ports = new PartPorts({ logger: logger ?? internals.logger, metrics: givenMetrics }, [inbox, internals.ports])
  const { port, runtime, coalesce, queueContext, tokens } = internals
  const markerOf = markerMaker(consumer)
  const held = { exclusive: lease, optimistic: 0, 'mark-first': retention }[mode]
  const leases = new InboxLeases({
    port,
    space: queueContext.space,
    runtime,
    logger: ports.logger,
    lease: Math.ceil(held),
    size: coalesce,
  })

  /** For a message whose marker exists: it is a duplicate, or an error says why it cannot be handled now. */
  function met(message: Message, marker: string, remaining: number): 'duplicate' {
    if (marker.startsWith('done:')) return 'duplicate'
    if (marker.startsWith('partial:')) throw new PartialCommitError(describeMessage(message), `${marker.slice(8)}, at an earlier delivery`)
    ports.metrics?.count('ackord.inbox.busy', 1, { consumer })
    throw new InboxBusyError(describeMessage(message), remaining)
  }

  function claimOf(lease: Lease, { source, id }: InboxKey): MarkerClaim {
    const { marker, token } = lease
    return {
      marker,
      token,
      rule: mode === 'exclusive' ? 'lease' : 'once',
      retention: Math.ceil(retention),
      outputIds: () => deterministicIds(consumer, source, id),
      stopRenewal: mode === 'exclusive' ? leases.renew(lease) : doNothing,
      release: () => (mode === 'exclusive' ? leases.release(lease) : nothing),
    }
  }

  // No async/await on the hot path: saves promises.
  function inUnitOfWork(lease: Lease, key: InboxKey): HandleRecorded {
    return function handle(next, message, context) {
      const claim = claimOf(lease, key)
      const unit = new UnitOfWork(internals, claim)

      function handled(outputs: readonly Message[]): readonly Message[] | Promise<readonly Message[] | undefined> {
        claim.stopRenewal()
        // If the marker were committed now, the commit of this transaction would mistake it for its own.
        if (unit.state === 'running') return failed(new TransactionAbortedError(describeMessage(message), unawaited, { retryable: false }))
        // Without a transaction: a middleware inside of the inbox did not call the handler.
        return unit.state === 'open' ? unit.commitMarker(message, context).then(() => outputs, failed) : outputs
      }

      async function failed(error: unknown): Promise<undefined> {
        claim.stopRenewal()
        await unit.release()
        // Another worker has handled the message.
        if (!(error instanceof OvertakenError)) throw error
      }

      const inside = internals.enterUnit(context, unit)
      try {
        return enter(inside, () => next(message, inside)).then(handled, failed)
      } catch (error) {
        // Middleware written in JavaScript may throw instead of rejecting.
        return failed(error)
      }
    }
  }

  /** The order that simple inboxes use. If the process ends between the mark and the commit, the message is lost. */
  function alreadyMarked(lease: Lease, { source, id }: InboxKey): HandleRecorded {
    return async function handle(next: Process, message: Message, context: Context) {
      const inside = context.with(outputIdsKey, deterministicIds(consumer, source, id))
      try {
        const outputs = await enter(inside, () => next(message, inside))
        if (isSettled(message) && message.state !== 'acked') await leases.release(lease)
        return outputs
      } catch (error) {
        // A message whose writes may have been carried out must not be handled again.
        if (!mayBeDone.some((code) => isAckordError(error, code))) await leases.release(lease)
        throw error
      }
    }
  }

  const handlerOf = mode === 'mark-first' ? alreadyMarked : inUnitOfWork
  const isOurs = ({ state }: Begun) => state === 'mine' || (state === 'free' && mode === 'optimistic')

  function record(message: Message, _context: Context, key: InboxKey): Promise<InboxFinding> {
    const token = mode === 'mark-first' ? `done:${tokens()}` : tokens()
    const lease = { marker: markerOf(typeof tag === 'function' ? tag(message) : tag, key), token }
    return leases.begin(lease).then((begun) => {
      if (begun.state === 'held') return met(message, begun.held, begun.remaining)
      return isOurs(begun) ? handlerOf(lease, key) : met(message, '', 0)
    })
  }

  return createInboxMiddleware({
    inbox,
    store: { record },
    info: { role: 'leasedInbox', resource: redis, inheritPorts: ports.inheritPorts },
  })
}

const unawaited = 'it was not awaited. Await redis.write() and next().'
const doNothing = () => {}
const nothing: Promise<void> = Promise.resolve()

const mayBeDone: readonly ErrorCode[] = ['ACKORD_COMMIT_UNKNOWN', 'ACKORD_PARTIAL_COMMIT', 'ACKORD_INVALID_OUTPUT']
