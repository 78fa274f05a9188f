import { hash } from 'node:crypto'
import {
  AckordError,
  type Context,
  deterministicIds,
  type ErrorCode,
  enter,
  isAckordError,
  type Logger,
  type Message,
  type Metrics,
  type Middleware,
  middleware,
  type Process,
  silentLogger,
} from '@ackord/core'
import {
  checkChoice,
  checkDuration,
  checkFunction,
  checkName,
  checkNoMore,
  describeValue,
  guardLogger,
  guardMetrics,
  isSettled,
  nameOf,
  outputIdsKey,
  probe,
} from '@ackord/core/internal'
import { defaultTag, redisKey } from '../client/keys.ts'
import { InboxBusyError, outputsWithoutOutbox, PartialCommitError, TransactionAbortedError } from '../errors.ts'
import { OvertakenError } from '../transaction/commit-errors.ts'
import { internalsOf, type Redis } from '../transaction/redis.ts'
import { type InboxClaim, UnitOfWork } from '../transaction/unit-of-work.ts'
import { type Begun, InboxLeases, type Lease } from './inbox-leases.ts'

export interface InboxOptions {
  /** The name of this consumer: each consumer processes a message once. It has no default: two consumers with the same name lose messages. */
  readonly consumer: string
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
  /** Identifies a message instead of its source and id. Default: source and id. */
  readonly key?: ((message: Message) => string) | undefined
  /** Called with each duplicate before it is acked. If it throws, the message fails. Default: none. */
  readonly onDuplicate?: ((message: Message) => void | Promise<void>) | undefined
  /** Logs a debug line per duplicate. Default: none. */
  readonly logger?: Logger | undefined
  /** Counts `ackord.inbox.duplicates` and `ackord.inbox.busy`. Default: none. */
  readonly metrics?: Metrics | undefined
}

/**
 * Handles a message once: the marker that it is done commits with the transaction inside, so that both are there or neither.
 * A duplicate is acked and not handled. Outputs need an outbox inside: published after the commit, they would be lost in a crash.
 */
export function inboxMiddleware(redis: Redis, options: InboxOptions): Middleware {
  const { consumer, mode = 'exclusive', tag = defaultTag, lease = 30_000, retention = 86_400_000, ...others } = options
  const { key, onDuplicate, logger: givenLogger = silentLogger, metrics: givenMetrics, ...unknown } = others
  checkNoMore('inboxMiddleware()', unknown)
  checkName('consumer', consumer)
  checkChoice('mode', mode, ['exclusive', 'optimistic', 'mark-first'])
  if (typeof tag !== 'function') checkName('tag', tag)
  checkDuration('lease', lease, { min: 10 })
  checkDuration('retention', retention, { min: 1 })
  if (key !== undefined) checkFunction('key', key)
  if (onDuplicate !== undefined) checkFunction('onDuplicate', onDuplicate)
  const logger = guardLogger(givenLogger)
  const metrics = givenMetrics === undefined ? undefined : guardMetrics(givenMetrics)

  const internals = internalsOf(redis)
  const { port, runtime, coalesce, queueContext, tokens } = internals
  const markerOf = markerMaker(consumer)
  const held = { exclusive: lease, optimistic: 0, 'mark-first': retention }[mode]
  const leases = new InboxLeases({
    port,
    space: queueContext.space,
    runtime,
    logger: internals.logger,
    lease: Math.ceil(held),
    size: coalesce,
  })

  async function skip(message: Message): Promise<readonly Message[]> {
    metrics?.count('ackord.inbox.duplicates', 1, { consumer })
    logger.debug({ consumer, type: message.type, id: message.id }, 'A duplicate was skipped.')
    await onDuplicate?.(message)
    await message.ack() // Also under `manual`, where the handler is not called.
    return none
  }

  /** Handles a message whose marker exists. */
  function met(message: Message, marker: string, remaining: number): Promise<readonly Message[]> {
    if (marker.startsWith('done:')) return skip(message)
    if (marker.startsWith('partial:'))
      return Promise.reject(new PartialCommitError(nameOf(message), `${marker.slice(8)}, at an earlier delivery`))
    metrics?.count('ackord.inbox.busy', 1, { consumer })
    return Promise.reject(new InboxBusyError(nameOf(message), remaining))
  }

  function claimOf(lease: Lease, { source, id }: InboxKey): InboxClaim {
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

  return middleware({ role: 'leasedInbox', resource: redis }, (next) => {
    // No async/await on the hot path: saves promises.
    function handle(message: Message, context: Context, lease: Lease, key: InboxKey): Promise<readonly Message[]> {
      const claim = claimOf(lease, key)
      const unit = new UnitOfWork(internals, claim)

      function handled(outputs: readonly Message[]): readonly Message[] | Promise<readonly Message[]> {
        claim.stopRenewal()
        if (outputs.length > 0) return failed(outputsWithoutOutbox(message, outputs.length))
        // If the marker were committed now, the commit of this transaction would mistake it for its own.
        if (unit.state === 'running') return failed(new TransactionAbortedError(nameOf(message), unawaited, { retryable: false }))
        // Without a transaction: a middleware inside of the inbox did not call the handler.
        return unit.state === 'open' ? unit.commitMarker(message, context).then(() => outputs, failed) : outputs
      }

      async function failed(error: unknown): Promise<readonly Message[]> {
        claim.stopRenewal()
        await unit.release()
        if (error instanceof OvertakenError) return await skip(message)
        throw error
      }

      const inside = internals.enterUnit(context, unit)
      try {
        return enter(inside, () => next(message, inside)).then(handled, failed)
      } catch (error) {
        // Middleware written in JavaScript may throw instead of rejecting.
        return failed(error)
      }
    }

    function handleMarked(message: Message, context: Context, lease: Lease, key: InboxKey): Promise<readonly Message[]> {
      return markedFirst(next, message, context.with(outputIdsKey, deterministicIds(consumer, key.source, key.id)), () =>
        leases.release(lease),
      )
    }

    const begin = mode === 'mark-first' ? handleMarked : handle
    const isOurs = ({ state }: Begun) => state === 'mine' || (state === 'free' && mode === 'optimistic')

    return function handleOnce(message, context) {
      let lease: Lease
      let identity: InboxKey
      try {
        identity = inboxKeyOf(message, key)
        const token = mode === 'mark-first' ? `done:${tokens()}` : tokens()
        lease = { marker: markerOf(typeof tag === 'function' ? tag(message) : tag, identity), token }
      } catch (error) {
        return Promise.reject(error)
      }
      return leases.begin(lease).then((begun) => {
        if (begun.state === 'held') return met(message, begun.held, begun.remaining)
        if (!isOurs(begun)) return met(message, '', 0)
        const paused = probe('inbox.recorded')
        return paused === undefined ? begin(message, context, lease, identity) : paused.then(() => begin(message, context, lease, identity))
      })
    }
  })
}

const unawaited = 'it was not awaited. Await redis.write() and next().'
const doNothing = () => {}
const none: readonly Message[] = []
const nothing: Promise<void> = Promise.resolve()

const mayBeDone: readonly ErrorCode[] = ['ACKORD_COMMIT_UNKNOWN', 'ACKORD_PARTIAL_COMMIT', 'ACKORD_INVALID_OUTPUT']

/** The order that simple inboxes use. If the process ends between the mark and the commit, the message is lost. */
async function markedFirst(next: Process, message: Message, context: Context, release: () => Promise<void>): Promise<readonly Message[]> {
  try {
    const outputs = await enter(context, () => next(message, context))
    if (outputs.length > 0) throw outputsWithoutOutbox(message, outputs.length)
    if (isSettled(message) && message.state !== 'acked') await release()
    return outputs
  } catch (error) {
    // A message whose writes may have been carried out must not be handled again.
    if (!mayBeDone.some((code) => isAckordError(error, code))) await release()
    throw error
  }
}

/** Identifies a message for a consumer. Compared byte for byte. */
interface InboxKey {
  readonly source: string
  readonly id: string
}

/** The message's source and id, or the result of `key`. Throws an error that is not retryable if there is no identity. */
function inboxKeyOf(message: Message, key: ((message: Message) => string) | undefined): InboxKey {
  if (key !== undefined) return { source: '', id: checkPart(message, 'inbox key', key(message)) }
  const { source = '', id } = message.attributes
  if (typeof source !== 'string') checkPart(message, 'source', source)
  return { source, id: checkPart(message, 'id', id) }
}

/**
 * `{tag}:inbox:consumer:hash`. Every message has a marker for the whole retention, so its key is short: half of a SHA-256
 * has enough bits that two messages never collide.
 */
function markerMaker(consumer: string): (tag: string, key: InboxKey) => string {
  // Most messages have the tag of the one before.
  let lastTag: string | undefined
  let start = ''
  return (tag, { source, id }) => {
    if (tag !== lastTag) {
      start = redisKey(tag, 'inbox', consumer, '')
      lastTag = tag
    }
    return start + hash('sha256', JSON.stringify([source, id]), 'base64url').slice(0, 22)
  }
}

function checkPart(message: Message, part: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value
  const missing = value === undefined || value === null || value === ''
  throw new AckordError(
    missing ? 'ACKORD_MISSING_ATTRIBUTE' : 'ACKORD_INVALID_ATTRIBUTES',
    `The inbox cannot recognise ${nameOf(message)}: ${missing ? `it has no ${part}` : `its ${part} is ${describeValue(value)}, not a string`}.`,
    { retryable: false },
  )
}
