import { type Linked, LinkedList } from '../async/collections.ts'
import { AckordError } from '../errors.ts'
import { describeMessage } from '../message/marshal.ts'
import type { Message } from '../message/message.ts'
import type { DescribedMetrics } from '../ports/metric-table.ts'
import type { Logger } from '../ports/observability.ts'
import type { Runtime, Timer } from '../ports/runtime.ts'
import { EarlyReturns } from './early-returns.ts'
import type { FairnessSettings, TenantLimits } from './fairness-options.ts'
import { PermitLease, type PermitOwner, Permits } from './permits.ts'

/** Milliseconds. Messages that would wait for less are not returned: redelivering them takes about as long. */
const shortWait = 1000
/** Milliseconds. The longest delay of a returned message. Sources that hold delayed messages themselves have the same limit. */
const longestReturn = 600_000
/** Milliseconds for which nothing is returned once the broker has ignored delays. A lost connection may look the same, so it is tried again. */
const noReturns = 60_000
/** Milliseconds for which the functions of the user are not asked again for the limits of a tenant that has messages. */
const limitsKept = 1000
/** Tenants without messages are forgotten when there are this many more. */
const sweepEvery = 256
/** The weight of the latest message in the average distance between the messages of a tenant. */
const weight = 0.2

/** A message that waits for its turn. */
export interface Turn {
  readonly message: Message
  /** Whether the message has an ordering key. */
  readonly key: string | undefined
}

export interface FairQueueOptions<Entry extends Turn> {
  readonly settings: FairnessSettings
  /** The number of slots. */
  readonly concurrency: number
  /** Called when messages may begin that `shift()` has refused before. */
  readonly onReady: () => void
  /** Nacks a waiting message, which the queue has removed. */
  readonly onReturn: (entry: Entry, error: AckordError, retryAfter: number) => void
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
}

/**
 * A tenant with messages in the router.
 *
 *     idle ─ a message waits ─▶ in a ring ─ shift() finds it at a limit ─▶ blocked ─ a handler ends, permits arrive ─▶ in a ring
 *                                   └ its last message begins ─▶ idle         └ its last message is returned ─▶ idle
 */
class Tenant<Entry> implements Linked<Tenant<Entry>>, PermitOwner {
  previous: Tenant<Entry> | undefined
  next: Tenant<Entry> | undefined
  readonly entries: Entry[] = []
  readonly lease: PermitLease
  limits: TenantLimits
  /** When the limits were read. */
  limitsAt: number
  running = 0
  place: 'idle' | 'ring' | 'blocked' = 'idle'
  blockedBy: 'rate' | 'concurrency' = 'rate'
  /** When its latest message began, or when its first one began to wait. */
  startedAt: number
  /** The average number of milliseconds from one message to the next, while messages wait. */
  distance = 0
  /** When the last of the returned messages is delivered again. */
  returnedUntil = 0

  constructor(name: string, limits: TenantLimits, now: number) {
    this.lease = new PermitLease(name)
    this.limits = limits
    this.limitsAt = now
    this.startedAt = now
  }

  get rate(): TenantLimits['rate'] {
    return this.limits.rate
  }

  get waiting(): number {
    return this.entries.length
  }
}

/**
 * The messages that wait for a slot, with the turns of their tenants: of the tenants that may begin a message, the one with the fewest running messages is next, and of several
 * the one that has waited longest. Has the methods of an array that the dispatcher uses, so that a router without fairness has an array in its place.
 */
export class FairQueue<Entry extends Turn> {
  readonly #options: FairQueueOptions<Entry>
  readonly #permits: Permits
  readonly #tenants = new Map<string | undefined, Tenant<Entry>>()
  /** The tenant of a message from when it is read until it ends. Weak, because the dispatcher nacks some of them itself. */
  readonly #assigned = new WeakMap<Message, { readonly name: string | undefined; readonly limits: TenantLimits }>()
  /** Tenants that have waiting messages and may begin them, by the number of their running messages. */
  readonly #rings: LinkedList<Tenant<Entry>>[] = []
  readonly #blocked = new Set<Tenant<Entry>>()
  readonly #early: EarlyReturns
  /** Waiting messages, and those of them whose tenants are at a limit. */
  #size = 0
  #throttled = 0
  #returns: boolean
  /** Nothing is returned before. */
  #returnsFrom = 0
  #returnTimer: Timer | undefined
  #sweepAt = sweepEvery
  #stopped = false

  constructor(options: FairQueueOptions<Entry>) {
    const { settings, concurrency, runtime, logger, metrics } = options
    this.#options = options
    this.#returns = settings.excess === 'return'
    this.#early = new EarlyReturns(runtime, ({ isFirst }) => {
      this.#returnsFrom = runtime.monotonic() + noReturns
      if (isFirst) logger.warn({}, delaysIgnored)
    })
    this.#permits = new Permits({
      ...settings,
      concurrency,
      runtime,
      logger,
      metrics,
      // The owners are those that take() was called with.
      onGranted: (owners) => this.#granted(owners as readonly Tenant<Entry>[]),
    })
  }

  /** The number of waiting messages. */
  get length(): number {
    return this.#size
  }

  /** The number of tenants that have waiting messages. */
  get waitingTenants(): number {
    let count = 0
    for (const tenant of this.#tenants.values()) if (tenant.entries.length > 0) count += 1
    return count
  }

  /** Determines the tenant of a message that was read. Throws if a function of the user does, or returns something invalid. */
  assign(message: Message): void {
    const { settings, runtime } = this.#options
    const name = tenantOf(settings, message)
    const tenant = this.#tenants.get(name)
    const now = runtime.monotonic()
    const isKnown = tenant !== undefined && now - tenant.limitsAt < limitsKept
    const limits = isKnown ? tenant.limits : settings.limitsOf(name)
    if (tenant !== undefined && !isKnown) {
      tenant.limits = limits
      tenant.limitsAt = now
    }
    this.#assigned.set(message, { name, limits })
    this.#early.received(message)
  }

  /** Adds an assigned message, and may return this one or others to the broker. */
  push(entry: Entry): void {
    const tenant = this.#tenantFor(entry.message)
    if (tenant.entries.length === 0) tenant.startedAt = this.#options.runtime.monotonic()
    tenant.entries.push(entry)
    this.#size += 1
    if (tenant.place === 'idle') this.#enterRing(tenant)
    else if (tenant.place === 'blocked') {
      this.#throttled += 1
      this.#returnExcess()
    }
    this.#report()
  }

  /** Removes the next message that may begin, which counts as running from then on; `undefined` if none may. */
  shift(): Entry | undefined {
    for (let tenant = this.#first(); tenant !== undefined; tenant = this.#first()) {
      this.#leaveRing(tenant)
      if (this.#mayBegin(tenant)) return this.#begin(tenant)
      this.#block(tenant)
    }
    return undefined
  }

  /** Removes all messages, oldest first for each tenant. For a stop. */
  splice(_start: 0): Entry[] {
    const entries = [...this.#tenants.values()].flatMap((tenant) => tenant.entries.splice(0))
    this.#tenants.clear()
    this.#rings.length = 0
    this.#blocked.clear()
    this.#size = 0
    this.#throttled = 0
    this.#report()
    return entries
  }

  /** A message that `shift()` returned is settled. */
  finished(message: Message): void {
    const assigned = this.#assigned.get(message)
    const tenant = assigned === undefined ? undefined : this.#tenants.get(assigned.name)
    // After a stop.
    if (tenant === undefined || tenant.running === 0) return
    if (tenant.place === 'ring') this.#leaveRing(tenant)
    tenant.running -= 1
    if (tenant.place === 'blocked') {
      if (tenant.blockedBy === 'concurrency') this.#unblock(tenant)
    } else if (tenant.entries.length > 0) this.#enterRing(tenant)
  }

  /** The source has ended: there are no messages behind the waiting ones, so none is returned any more. */
  sourceEnded(): void {
    this.#returns = false
    this.#returnTimer?.cancel()
    this.#returnTimer = undefined
  }

  /** Idempotent. Ends timers and calls of the limiter. */
  stop(): void {
    this.#stopped = true
    this.sourceEnded()
    this.#permits.stop()
  }

  #tenantFor(message: Message): Tenant<Entry> {
    const { settings, runtime } = this.#options
    const { name, limits } = this.#assigned.get(message) ?? { name: undefined, limits: settings.limitsOf(undefined) }
    let tenant = this.#tenants.get(name)
    if (tenant === undefined) {
      this.#sweep()
      tenant = new Tenant(name ?? '', limits, runtime.monotonic())
      this.#tenants.set(name, tenant)
    }
    return tenant
  }

  #sweep(): void {
    if (this.#tenants.size < this.#sweepAt) return
    const now = this.#options.runtime.monotonic()
    for (const [name, tenant] of this.#tenants) {
      const isIdle = tenant.running === 0 && tenant.entries.length === 0 && tenant.returnedUntil <= now && this.#permits.isIdle(tenant)
      if (isIdle) this.#tenants.delete(name)
    }
    this.#sweepAt = this.#tenants.size + sweepEvery
  }

  #first(): Tenant<Entry> | undefined {
    for (const ring of this.#rings) if (ring?.first !== undefined) return ring.first
    return undefined
  }

  #enterRing(tenant: Tenant<Entry>): void {
    const { running } = tenant
    while (this.#rings.length <= running) this.#rings.push(new LinkedList())
    this.#rings[running]?.push(tenant)
    tenant.place = 'ring'
  }

  #leaveRing(tenant: Tenant<Entry>): void {
    this.#rings[tenant.running]?.remove(tenant)
    tenant.place = 'idle'
  }

  #mayBegin(tenant: Tenant<Entry>): boolean {
    return tenant.running < tenant.limits.concurrency && this.#permits.take(tenant)
  }

  #begin(tenant: Tenant<Entry>): Entry | undefined {
    const now = this.#options.runtime.monotonic()
    tenant.distance += weight * (now - tenant.startedAt - tenant.distance)
    tenant.startedAt = now
    tenant.running += 1
    this.#size -= 1
    const entry = tenant.entries.shift()
    if (tenant.entries.length > 0) this.#enterRing(tenant)
    this.#report()
    return entry
  }

  #block(tenant: Tenant<Entry>): void {
    const limit = tenant.running < tenant.limits.concurrency ? 'rate' : 'concurrency'
    tenant.place = 'blocked'
    tenant.blockedBy = limit
    this.#blocked.add(tenant)
    this.#throttled += tenant.entries.length
    this.#options.metrics?.count('ackord.fairness.limited', 1, { limit })
    this.#returnExcess()
    this.#report()
  }

  #granted(tenants: readonly Tenant<Entry>[]): void {
    if (this.#stopped) return
    for (const tenant of tenants) if (tenant.place === 'blocked') this.#unblock(tenant)
    this.#options.onReady()
  }

  #unblock(tenant: Tenant<Entry>): void {
    this.#blocked.delete(tenant)
    this.#throttled -= tenant.entries.length
    tenant.place = 'idle'
    if (tenant.entries.length > 0) this.#enterRing(tenant)
  }

  /** While too many messages wait because of limits, returns the latest one of the tenant that has most. */
  #returnExcess(): void {
    const { settings, runtime } = this.#options
    while (this.#returns && this.#throttled > settings.maxWaiting) {
      const later = this.#returnsFrom - runtime.monotonic()
      const found = later > 0 ? undefined : this.#excess()
      if (found === undefined) {
        // Which messages would wait for long may only show later.
        this.#returnTimer ??= runtime.setTimeout(
          () => {
            this.#returnTimer = undefined
            this.#returnExcess()
          },
          Math.max(shortWait, later),
        )
        return
      }
      this.#return(found.tenant, found.index)
    }
  }

  #excess(): { readonly tenant: Tenant<Entry>; readonly index: number } | undefined {
    let found: { readonly tenant: Tenant<Entry>; readonly index: number } | undefined
    for (const tenant of this.#blocked) {
      if (found !== undefined && tenant.entries.length <= found.tenant.entries.length) continue
      if (this.#distanceOf(tenant) * tenant.entries.length < shortWait) continue
      const index = tenant.entries.findLastIndex((entry) => this.#mayReturn(entry))
      if (index !== -1) found = { tenant, index }
    }
    return found
  }

  /** A broker that counts deliveries may drop a message that was delivered too often. Without an id it would not be noticed that the broker has no delays. */
  #mayReturn({ message: { id, deliveryCount } }: Entry): boolean {
    return id !== undefined && (deliveryCount === undefined || deliveryCount <= this.#options.settings.maxReturns)
  }

  /** The expected number of milliseconds between messages of a tenant that is at a limit. */
  #distanceOf({ limits: { rate }, distance, startedAt }: Tenant<Entry>): number {
    const byRate = rate === undefined ? 0 : rate.interval / rate.limit
    const sinceLast = this.#options.runtime.monotonic() - startedAt
    return Math.max(byRate, distance, sinceLast < shortWait ? 0 : sinceLast)
  }

  /** The message is nacked until about its turn: behind those of its tenant that wait here, and behind those that were returned before. */
  #return(tenant: Tenant<Entry>, index: number): void {
    const { runtime, metrics, onReturn } = this.#options
    const [entry] = tenant.entries.splice(index, 1)
    // `#excess` has found it.
    if (entry === undefined) return
    this.#size -= 1
    this.#throttled -= 1
    const now = runtime.monotonic()
    const distance = this.#distanceOf(tenant)
    const due = Math.max(now + tenant.entries.length * distance, tenant.returnedUntil) + distance
    tenant.returnedUntil = Math.min(due, now + longestReturn)
    // Those that would be delayed for longer are spread, so that they do not all come back at once.
    const delay = due <= now + longestReturn ? due - now : longestReturn * (0.5 + runtime.random() / 2)
    const retryAfter = Math.max(shortWait, Math.round(delay))
    if (tenant.entries.length === 0) {
      this.#blocked.delete(tenant)
      tenant.place = 'idle'
    }
    metrics?.count('ackord.fairness.returned', 1, {})
    this.#early.returned(entry.message, retryAfter)
    onReturn(entry, returnedError(entry.message), retryAfter)
  }

  #report(): void {
    const { metrics } = this.#options
    if (metrics === undefined) return
    metrics.gauge('ackord.fairness.waiting', this.#size, {})
    metrics.gauge('ackord.fairness.throttled', this.#throttled, {})
  }
}

const delaysIgnored =
  "Messages that were nacked with a delay because of their tenant's limits come back at once: the broker has no delays, or the connection was lost. For a minute they wait in the router, which reads no more when its buffer is full of them. If this is logged although no connection was lost, set fairness.excess to 'wait'."

function tenantOf({ by }: FairnessSettings, message: Message): string | undefined {
  const name: unknown = by(message)
  if (name === undefined || (typeof name === 'string' && name !== '' && name.isWellFormed())) return name
  throw new TypeError(
    `fairness.by must return a non-empty string or undefined; for ${describeMessage(message)} it returned ${typeof name}.`,
  )
}

function returnedError(message: Message): AckordError {
  return new AckordError(
    'ACKORD_TENANT_LIMITED',
    `${describeMessage(message)} was returned to the broker, because its tenant is at a limit and too many of its messages wait.`,
  )
}
