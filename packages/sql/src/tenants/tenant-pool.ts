import { AckordError, type Logger, type Runtime, type Timer } from '@ackord/core'
import { abortable, settledWithin, withTimeLimit } from '@ackord/core/internal'
import { TenantUnknownError } from '../errors.ts'

interface Closable {
  close?(): unknown
}

interface Entry<Opened> {
  readonly tenant: string
  readonly openedAt: number
  /** Resolves when it is open. */
  ready: Promise<Opened>
  opened: Opened | undefined
  /** The number of calls that use it, or wait until it is open. */
  uses: number
  lastUse: number
  /** Whether it accepts no further calls, because another tenant waits for its place. */
  draining: boolean
  closing: boolean
  timer: Timer | undefined
}

/** A call that waits for a place. */
interface Waiter {
  readonly tenant: string
  /** Opens the database if there is a place now. */
  readonly serve: () => void
}

/** One use of an open database. */
export interface TenantLease<Opened> {
  readonly opened: Opened
  /** Another use of the database while this one lasts, also if another tenant waits for its place. */
  share(): TenantLease<Opened>
  /** Must be called once. */
  release(): void
}

interface TenantPoolOptions<Opened> {
  /** Resolves to `undefined` if there is no such tenant. */
  readonly open: (tenant: string) => Opened | undefined | Promise<Opened | undefined>
  readonly maxOpen: number
  readonly idleTimeout: number
  readonly openTimeout: number
  readonly runtime: Runtime
  readonly logger: () => Logger
  readonly onChange: (open: number) => void
}

/** All places were in use for too long. */
export class NoPlaceError extends Error {}

/**
 * The open databases of tenants, at most `maxOpen` of them. Those in use are never closed; of the others the least recently used one is closed when another tenant needs its place.
 *
 *     opening ─ open() resolves ─▶ open ─ unused, and idle or its place is needed ─▶ closing ─ close() has ended ─▶ (removed)
 *        └ open() fails or takes too long ─▶ (removed)
 *
 * If all of them are in use all the time, the one that was opened first accepts no further calls until it is unused, closed and opened again, so that waiting tenants get a place.
 */
export class TenantPool<Opened extends Closable> {
  readonly #options: TenantPoolOptions<Opened>
  readonly #entries = new Map<string, Entry<Opened>>()
  /** In the order in which they began to wait. */
  readonly #waiting = new Set<Waiter>()
  #whenEmpty: (() => void)[] = []
  #uses = 0
  #closed = false

  constructor(options: TenantPoolOptions<Opened>) {
    this.#options = options
  }

  /** Databases that are open, being opened or being closed. */
  get size(): number {
    return this.#entries.size
  }

  get inUse(): number {
    return [...this.#entries.values()].filter(({ uses }) => uses > 0).length
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** The database, if it is open and accepts calls. */
  tryAcquire(tenant: string): TenantLease<Opened> | undefined {
    const entry = this.#entries.get(tenant)
    if (entry?.opened === undefined || entry.draining || entry.closing || this.#closed) return undefined
    return this.#lease(entry, entry.opened)
  }

  /** Opens the database if necessary. Concurrent calls for one tenant share it. Rejects with the error of `open`, or with a `NoPlaceError`. */
  async acquire(tenant: string, signal: AbortSignal): Promise<TenantLease<Opened>> {
    const open = this.tryAcquire(tenant)
    if (open !== undefined) return open
    signal.throwIfAborted()
    const entry = this.#enter(tenant) ?? (await this.#wait(tenant, signal))
    try {
      const opened = await abortable(entry.ready, signal)
      return this.#lease(entry, opened)
    } finally {
      // After the lease has counted itself, so that the database is not closed in between.
      this.#leave(entry)
    }
  }

  /** Waits until no database is in use, and closes all. Further calls are rejected. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true
    this.#changed()
    for (const entry of this.#entries.values()) this.#closeIfUnused(entry)
    if (this.#entries.size > 0) await new Promise<void>((resolve) => void this.#whenEmpty.push(resolve))
  }

  /** The entry of the tenant, with one more use; `undefined` if there is no place for it now. */
  #enter(tenant: string): Entry<Opened> | undefined {
    if (this.#closed) throw new AckordError('ACKORD_SHUTDOWN', 'The databases of the tenants are closed.')
    let entry = this.#entries.get(tenant)
    if (entry === undefined && this.#entries.size < this.#options.maxOpen) entry = this.#open(tenant)
    if (entry === undefined || entry.draining || entry.closing) return undefined
    entry.uses += 1
    return entry
  }

  #wait(tenant: string, signal: AbortSignal): Promise<Entry<Opened>> {
    const { runtime, openTimeout, maxOpen } = this.#options
    return new Promise((resolve, reject) => {
      const end = () => {
        this.#waiting.delete(waiter)
        timer.cancel()
        signal.removeEventListener('abort', onAbort)
      }
      const fail = (error: unknown) => {
        end()
        reject(error)
        this.#balance()
      }
      const onAbort = () => fail(signal.reason)
      const late = () => fail(new NoPlaceError(`could not be opened within ${openTimeout} ms: maxOpen (${maxOpen}) others are in use.`))
      const timer = runtime.setTimeout(late, openTimeout)
      const waiter: Waiter = {
        tenant,
        serve: () => {
          try {
            const entry = this.#enter(tenant)
            if (entry === undefined) return
            end()
            resolve(entry)
          } catch (error) {
            fail(error)
          }
        },
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting.add(waiter)
      this.#balance()
    })
  }

  /** A place may be free, or a database may have become unused. */
  #changed(): void {
    for (const waiter of [...this.#waiting]) waiter.serve()
    this.#balance()
  }

  /** Frees as many places as tenants wait for: of unused databases, otherwise of those that were opened first. */
  #balance(): void {
    const entries = [...this.#entries.values()]
    const isClosing = ({ closing }: Entry<Opened>) => closing
    // A tenant whose own database is draining does not need another place.
    const needPlace = [...this.#waiting].filter(({ tenant }) => this.#entries.get(tenant)?.closing !== false)
    const wanted = new Set(needPlace.map(({ tenant }) => tenant)).size
    const needed = wanted - (this.#options.maxOpen - entries.length) - entries.filter(isClosing).length
    const open = entries.filter(({ opened, closing }) => opened !== undefined && !closing)
    const unused = open.filter(({ uses }) => uses === 0).sort((a, b) => a.lastUse - b.lastUse)
    const used = open.filter(({ uses }) => uses > 0).sort((a, b) => a.openedAt - b.openedAt)
    for (const entry of unused.slice(0, Math.max(0, needed))) this.#close(entry)
    const more = needed - unused.length
    let accepts = false
    used.forEach((entry, index) => {
      accepts ||= entry.draining && index >= more
      entry.draining = index < more
    })
    if (accepts) for (const waiter of [...this.#waiting]) waiter.serve()
  }

  #open(tenant: string): Entry<Opened> {
    const { open, openTimeout, runtime, logger } = this.#options
    const openedAt = this.#nextUse()
    const entry: Entry<Opened> = {
      tenant,
      openedAt,
      ready: undefined as never,
      opened: undefined,
      uses: 0,
      lastUse: openedAt,
      draining: false,
      closing: false,
      timer: undefined,
    }
    const late = () => new Error(`open() has not resolved within ${openTimeout} ms.`)
    let isLate = false
    const opening = async () => {
      const opened = await open(tenant)
      if (isLate && opened !== undefined) await this.#closeOne(tenant, opened)
      return opened
    }
    const run = async () => {
      try {
        const opened = await withTimeLimit(runtime, openTimeout, late, opening)
        if (opened === undefined) throw new TenantUnknownError(`There is no database for the tenant '${tenant}'.`, tenant)
        entry.opened = opened
        return opened
      } catch (error) {
        isLate = true
        this.#remove(entry)
        throw error
      }
    }
    this.#entries.set(tenant, entry)
    entry.ready = run()
    // Also reported if all calls have stopped waiting for it.
    entry.ready.then(
      () => {
        if (entry.uses === 0) this.#unused(entry)
        // While it was being opened its place could not be given to others.
        else this.#balance()
      },
      (err: unknown) => logger().debug({ err, tenant }, 'The database of a tenant could not be opened.'),
    )
    this.#options.onChange(this.#entries.size)
    return entry
  }

  #lease(entry: Entry<Opened>, opened: Opened): TenantLease<Opened> {
    entry.uses += 1
    let released = false
    return {
      opened,
      share: () => this.#lease(entry, opened),
      release: () => {
        if (released) return
        released = true
        this.#leave(entry)
      },
    }
  }

  #leave(entry: Entry<Opened>): void {
    entry.uses -= 1
    entry.lastUse = this.#nextUse()
    if (entry.uses === 0 && entry.opened !== undefined) this.#unused(entry)
  }

  #nextUse(): number {
    this.#uses += 1
    return this.#uses
  }

  /** Nothing uses the database: it is closed if its place is needed, otherwise its idle time begins. */
  #unused(entry: Entry<Opened>): void {
    if (this.#closed) this.#closeIfUnused(entry)
    else if (this.#waiting.size > 0) this.#changed()
    if (entry.uses === 0 && !entry.closing) this.#watchIdle(entry)
  }

  #closeIfUnused(entry: Entry<Opened>): void {
    if (entry.uses === 0 && entry.opened !== undefined && !entry.closing) this.#close(entry)
  }

  #close(entry: Entry<Opened>): void {
    if (entry.opened === undefined) return
    entry.closing = true
    entry.timer?.cancel()
    void this.#closeOne(entry.tenant, entry.opened).then(() => this.#remove(entry))
  }

  /** One timer per open database, not one per use. */
  #watchIdle(entry: Entry<Opened>): void {
    const { idleTimeout, runtime } = this.#options
    if (entry.timer !== undefined || idleTimeout === Infinity) return
    const seen = entry.lastUse
    entry.timer = runtime.setTimeout(
      () => {
        entry.timer = undefined
        if (entry.uses > 0 || entry.closing) return
        // Used in between: it has been unused for less than the timeout.
        if (entry.lastUse === seen) this.#closeIfUnused(entry)
        else this.#watchIdle(entry)
      },
      idleTimeout,
      { keepAlive: false },
    )
  }

  /** Never rejects. A close that hangs does not keep the place for ever. */
  async #closeOne(tenant: string, opened: Opened): Promise<void> {
    const { runtime, openTimeout, logger } = this.#options
    const closing = (async () => await opened.close?.())()
    closing.catch((err: unknown) => logger().warn({ err, tenant }, 'Closing the database of a tenant failed.'))
    await settledWithin(runtime, openTimeout, closing)
  }

  #remove(entry: Entry<Opened>): void {
    if (this.#entries.get(entry.tenant) !== entry) return
    this.#entries.delete(entry.tenant)
    this.#options.onChange(this.#entries.size)
    this.#changed()
    if (this.#entries.size > 0) return
    for (const resolve of this.#whenEmpty.splice(0)) resolve()
  }
}
