import { InvalidOptionError, type Publisher, type Runtime, systemRuntime } from '@ackord/core'
import { checkDuration, checkFunction, checkName, describeValue, rejectUnknownOptions } from '@ackord/core/internal'
import type { MapRecord } from '../options/relay-events.ts'
import { type PublisherMap, PublisherRoutes } from '../options/relay-options.ts'
import type { Operator, OutboxFilter } from '../store/outbox-admin.ts'
import { type Position, readPosition, start } from './replay-position.ts'

/** Which published records are replayed. All criteria must match. */
export interface ReplayFilter extends Pick<OutboxFilter, 'destination' | 'type' | 'orderingKey' | 'messageId'> {
  /** Only records that were stored at this instant or later, by the store's clock. Default: from the oldest that is kept. */
  readonly from?: Date | undefined
  /** Only records that were stored at this instant or earlier, by the store's clock. Default: until the replay began. */
  readonly until?: Date | undefined
  /** Ids of records in the store that are left out, such as one that the broker refuses. Default: none. */
  readonly except?: readonly string[] | undefined
}

export interface ReplayPublishedOptions extends ReplayFilter, Operator {
  /** Where records are published: one publisher for all, or a map by destination in the store, as for a relay. It is not closed. */
  readonly publisher: Publisher | PublisherMap
  /** Changes a message or its destination name before it is published: the `map` of the relay, if that has one. Default: nothing is changed. */
  readonly map?: MapRecord | undefined
  /** The destination's name at the broker for all records, such as that of a new consumer. Default: that of each record. */
  readonly toDestination?: string | undefined
  /**
   * The name of this replay, for new message ids: each is made from the name and from the old source and id, so that a replay with the same name has the same ids, and an inbox
   * recognises what an interrupted replay has published already. The old id becomes the attribute `replayedid`. Default: messages keep their ids, and consumers that
   * remember them ignore the copies.
   */
  readonly newIds?: string | undefined
  /** Records per second, at most. `Infinity`: no limit. Default: 100. */
  readonly rate?: number | undefined
  /** Where an earlier replay with the same filter has ended, as it reported. Default: the beginning. */
  readonly position?: string | undefined
  /** Whether to count only: nothing is published, and no audit is written. Default: false. */
  readonly dryRun?: boolean | undefined
  /** The time limit of one `publish()`, in milliseconds. Default: 10,000. */
  readonly publishTimeout?: number | undefined
  /** Ends the replay after the records that are being published, without an error. */
  readonly signal?: AbortSignal | undefined
  /** Called after each batch. It must not throw. */
  readonly onProgress?: ((progress: ReplayProgress) => void) | undefined
  readonly runtime?: Runtime | undefined
}

export interface ReplayProgress {
  /** Records that the broker has confirmed. In a dry run: that would be published. */
  readonly replayed: number
  /** Records that were left out because their `expirytime` has passed. */
  readonly expired: number
  /** Where another replay continues; `undefined` at the beginning. */
  readonly position: string | undefined
}

export interface ReplayResult extends ReplayProgress {
  /** Whether all records that match were read: `false` if the signal has ended the replay before. */
  readonly complete: boolean
  /** How many records were published to each destination, by its name at the broker. */
  readonly destinations: Readonly<Record<string, number>>
}

/** The options with defaults applied. */
export interface ReplaySettings {
  readonly filter: Pick<OutboxFilter, 'destination' | 'type' | 'orderingKey' | 'messageId'>
  /** Milliseconds since the epoch. */
  readonly from: number | undefined
  readonly until: number | undefined
  readonly except: ReadonlySet<string>
  readonly routes: PublisherRoutes
  readonly map: MapRecord | undefined
  readonly toDestination: string | undefined
  readonly newIds: string | undefined
  /** `undefined`: no limit. */
  readonly rate: number | undefined
  readonly start: Position
  /** As it was given. */
  readonly position: string | undefined
  readonly dryRun: boolean
  readonly publishTimeout: number
  readonly signal: AbortSignal
  readonly onProgress: ((progress: ReplayProgress) => void) | undefined
  readonly runtime: Runtime
  readonly operator: Operator
}

const defaultRate = 100
const defaultPublishTimeout = 10_000

export function replaySettings(options: ReplayPublishedOptions): ReplaySettings {
  const {
    publisher,
    map,
    toDestination,
    newIds,
    rate = defaultRate,
    position,
    dryRun = false,
    publishTimeout = defaultPublishTimeout,
    signal = new AbortController().signal,
    onProgress,
    runtime = systemRuntime,
    destination,
    type,
    orderingKey,
    messageId,
    from,
    until,
    except = [],
    by,
    reason,
    ...unknown
  } = options
  rejectUnknownOptions('replayPublished()', unknown)
  for (const [name, value] of Object.entries({ destination, type, orderingKey, messageId, toDestination, newIds })) {
    if (value !== undefined) checkName(name, value)
  }
  if (map !== undefined) checkFunction('map', map)
  if (onProgress !== undefined) checkFunction('onProgress', onProgress)
  if (typeof rate !== 'number' || !(rate > 0))
    throw new InvalidOptionError('rate', `must be a number of records per second, greater than 0, or Infinity; it is ${String(rate)}.`)
  if (typeof dryRun !== 'boolean') throw new InvalidOptionError('dryRun', `must be true or false; it is ${describeValue(dryRun)}.`)
  if (!Array.isArray(except) || except.some((id) => typeof id !== 'string'))
    throw new InvalidOptionError('except', 'must be an array of ids of records.')
  const range = { from: instantOf('from', from), until: instantOf('until', until) }
  if (range.from !== undefined && range.until !== undefined && range.from > range.until)
    throw new InvalidOptionError('until', 'must not be before from.')
  return {
    filter: { destination, type, orderingKey, messageId },
    ...range,
    except: new Set(except),
    routes: new PublisherRoutes(publisher),
    map,
    toDestination,
    newIds,
    rate: rate === Infinity ? undefined : rate,
    start: position === undefined ? start : readPosition(position),
    position,
    dryRun,
    publishTimeout: checkDuration('publishTimeout', publishTimeout, { min: 1 }),
    signal,
    onProgress,
    runtime,
    operator: { by, reason },
  }
}

function instantOf(option: string, value: Date | undefined): number | undefined {
  if (value === undefined) return undefined
  const instant = value instanceof Date ? value.getTime() : Number.NaN
  if (Number.isNaN(instant)) throw new InvalidOptionError(option, `must be a valid Date; it is ${describeValue(value)}.`)
  return instant
}
