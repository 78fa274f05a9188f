import { InvalidOptionError, idle, type Logger, type Runtime } from '@ackord/core'
import {
  checkCount,
  checkDuration,
  checkFunction,
  checkName,
  describeValue,
  rejectUnknownOptions,
  settledWithin,
  withTimeLimit,
} from '@ackord/core/internal'
import { type RelayDiscoveryOptions, relayDefaults } from '../options/relay-options.ts'
import type { OutboxAdmin } from '../store/outbox-admin.ts'
import type { OutboxStore } from '../store/outbox-store.ts'

/** The group of relays, whose stores the discovery adds and removes. */
interface DiscoveredGroup {
  /** Throws if the store is invalid. */
  add(name: string, store: OutboxStore & Partial<OutboxAdmin>): void
  /** Resolves when the relay has stopped. */
  remove(name: string): Promise<unknown>
  /** Whether the store was added by the user. */
  has(name: string): boolean
}

interface StoreDiscoveryPorts {
  readonly group: DiscoveredGroup
  readonly runtime: Runtime
  readonly logger: Logger
}

type DiscoverySettings = { readonly [Option in keyof RelayDiscoveryOptions]-?: Exclude<RelayDiscoveryOptions[Option], undefined> }

interface Member {
  state: 'opening' | 'open' | 'leaving'
  /** When its relay was started. */
  since: number
  close: (() => unknown) | undefined
  ended: Promise<void>
}

interface Failure {
  count: number
  until: number
}

/** Milliseconds between two tries to open a store: the interval of the discovery, doubled with each failure up to this. */
const maxRetryDelay = 60_000

/**
 * Finds the stores of a `RelayGroup` while it runs: opens those that are new, and releases those that are gone. If there are more than `maxOpen`, they take turns: those that have
 * been served for an interval leave, and those that have waited longest take their places.
 *
 *     (found) ─ there is a place ─▶ opening ─ open() resolves ─▶ open: it has a relay ─ gone, its turn is over, or stop ─▶ leaving ─ relay stopped, store closed ─▶ (none)
 *        ▲                            └ open() fails ─▶ tried again after a delay
 */
export class StoreDiscovery {
  readonly #options: DiscoverySettings
  readonly #ports: StoreDiscoveryPorts
  readonly #members = new Map<string, Member>()
  readonly #failures = new Map<string, Failure>()
  /** When a store left. */
  readonly #left = new Map<string, number>()
  /** The names of the stores that wait for a place, the next one first. */
  #waiting: string[] = []
  #signal: AbortSignal = AbortSignal.abort()
  #isFailing = false
  #takesTurns = false

  constructor(options: RelayDiscoveryOptions, ports: StoreDiscoveryPorts) {
    const defaults = relayDefaults.discovery
    const {
      names,
      open,
      interval = defaults.interval,
      maxOpen = defaults.maxOpen,
      openTimeout = defaults.openTimeout,
      ...unknown
    } = options
    rejectUnknownOptions('discover', unknown)
    this.#options = {
      names: checkFunction('discover.names', names),
      open: checkFunction('discover.open', open),
      interval: checkDuration('discover.interval', interval, { min: 1 }),
      maxOpen: checkCount('discover.maxOpen', maxOpen),
      openTimeout: checkDuration('discover.openTimeout', openTimeout, { min: 1 }),
    }
    this.#ports = ports
  }

  /** Runs until the signal is aborted, and then until all its stores are closed. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { runtime } = this.#ports
    this.#signal = signal
    do {
      await this.#round(signal)
    } while (await idle(runtime, this.#options.interval, signal))
    this.#waiting = []
    for (const [name, member] of this.#members) this.#leave(name, member)
    await Promise.all([...this.#members.values()].map(({ ended }) => ended))
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { runtime, logger } = this.#ports
    const { names, openTimeout } = this.#options
    let wanted: ReadonlySet<string>
    try {
      const late = () => new Error(`discover.names() has not resolved within ${openTimeout} ms.`)
      const found = await withTimeLimit(
        runtime,
        openTimeout,
        late,
        async (timeout) => await names({ signal: AbortSignal.any([signal, timeout]) }),
      )
      wanted = checkNames(found)
    } catch (err) {
      // A directory that cannot be read says nothing about the stores.
      if (!this.#isFailing && !signal.aborted)
        logger.warn({ err }, 'The names of the stores could not be read. The group keeps its stores and tries again.')
      this.#isFailing = true
      return
    }
    if (this.#isFailing) logger.info({}, 'The names of the stores can be read again.')
    this.#isFailing = false
    if (signal.aborted) return
    this.#reconcile(wanted)
  }

  #reconcile(wanted: ReadonlySet<string>): void {
    const { group, runtime, logger } = this.#ports
    const { maxOpen, interval } = this.#options
    const now = runtime.monotonic()
    for (const known of [this.#failures, this.#left]) for (const name of known.keys()) if (!wanted.has(name)) known.delete(name)
    for (const [name, member] of this.#members) {
      // The user may have removed one from the group.
      if (!wanted.has(name) || (member.state === 'open' && !group.has(name))) this.#leave(name, member)
    }
    const isDue = (name: string) => now >= (this.#failures.get(name)?.until ?? 0)
    const leftAt = (name: string) => this.#left.get(name) ?? Number.NEGATIVE_INFINITY
    this.#waiting = [...wanted]
      .filter((name) => !this.#members.has(name) && !group.has(name) && isDue(name))
      .sort((a, b) => (leftAt(a) === leftAt(b) ? 0 : leftAt(a) - leftAt(b)))
    this.#fill()
    if (this.#waiting.length > 0 && !this.#takesTurns) {
      this.#takesTurns = true
      logger.warn(
        { stores: wanted.size, maxOpen },
        'There are more stores than discover.maxOpen: they take turns, and records wait for the turn of their store.',
      )
    }
    const leaving = [...this.#members.values()].filter(({ state }) => state === 'leaving').length
    const served = [...this.#members].filter(([, { state, since }]) => state === 'open' && now - since >= interval)
    served.sort(([, a], [, b]) => a.since - b.since)
    for (const [name, member] of served.slice(0, Math.max(0, this.#waiting.length - leaving))) this.#leave(name, member)
  }

  /** Opens the stores that wait, as far as there are places. */
  #fill(): void {
    while (!this.#signal.aborted && this.#members.size < this.#options.maxOpen) {
      const name = this.#waiting.shift()
      if (name === undefined) return
      const member: Member = { state: 'opening', since: 0, close: undefined, ended: Promise.resolve() }
      this.#members.set(name, member)
      member.ended = this.#serve(name, member)
    }
  }

  /** The life of a store until it is open. */
  async #serve(name: string, member: Member): Promise<void> {
    const { group, runtime, logger } = this.#ports
    const { openTimeout, open } = this.#options
    try {
      const late = () => new Error(`discover.open() has not resolved within ${openTimeout} ms.`)
      let isLate = false
      const opening = async () => {
        const opened = await open(name)
        if (isLate) await this.#close(name, opened?.close?.bind(opened))
        return opened
      }
      const opened = await withTimeLimit(runtime, openTimeout, late, opening).catch((error: unknown) => {
        isLate = true
        throw error
      })
      member.close = opened?.close?.bind(opened)
      if (isLeaving(member)) {
        await this.#close(name, member.close)
      } else {
        if (opened?.store === undefined)
          throw new InvalidOptionError(
            'discover.open()',
            `must resolve to an object with a store; for '${name}' it resolved to ${describeValue(opened)}.`,
          )
        group.add(name, opened.store)
        member.state = 'open'
        member.since = runtime.monotonic()
        if (this.#failures.delete(name)) logger.info({ store: name }, 'A store could be opened again.')
        return
      }
    } catch (err) {
      if (member.close !== undefined) await this.#close(name, member.close)
      this.#failed(name, err)
    }
    this.#gone(name, member)
  }

  #leave(name: string, member: Member): void {
    const { state } = member
    if (state === 'leaving') return
    member.state = 'leaving'
    // One that is being opened notices it then.
    if (state === 'open') member.ended = this.#release(name, member)
  }

  async #release(name: string, member: Member): Promise<void> {
    const { group, logger } = this.#ports
    try {
      await group.remove(name)
    } catch (err) {
      logger.error({ err, store: name }, 'The relay of a store could not be stopped.')
    }
    await this.#close(name, member.close)
    this.#gone(name, member)
  }

  #gone(name: string, member: Member): void {
    if (this.#members.get(name) !== member) return
    this.#members.delete(name)
    this.#left.set(name, this.#ports.runtime.monotonic())
    this.#fill()
  }

  /** Never rejects, and does not wait for ever. */
  async #close(name: string, close: (() => unknown) | undefined): Promise<void> {
    const { runtime, logger } = this.#ports
    const closing = (async () => await close?.())()
    closing.catch((err: unknown) => logger.warn({ err, store: name }, 'Closing a store failed.'))
    await settledWithin(runtime, this.#options.openTimeout, closing)
  }

  #failed(name: string, err: unknown): void {
    const { runtime, logger } = this.#ports
    const count = (this.#failures.get(name)?.count ?? 0) + 1
    const delay = Math.min(maxRetryDelay, this.#options.interval * 2 ** (count - 1))
    this.#failures.set(name, { count, until: runtime.monotonic() + delay })
    if (count === 1)
      logger.error({ err, store: name }, 'A store could not be opened; it is tried again. The other stores are not affected.')
  }
}

function isLeaving({ state }: Member): boolean {
  return state === 'leaving'
}

function checkNames(found: Iterable<string>): ReadonlySet<string> {
  if (typeof found === 'string' || typeof found?.[Symbol.iterator] !== 'function') {
    throw new InvalidOptionError('discover.names()', `must resolve to a list of names; it resolved to ${describeValue(found)}.`)
  }
  const names = new Set(found)
  for (const name of names) checkName('discover.names(), a name,', name)
  return names
}
