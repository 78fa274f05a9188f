import { idle, type Runtime } from '../ports/runtime.ts'
import { createSource, type SourceSession } from './create-source.ts'
import type { Delivery, Receiver } from './receiver.ts'
import type { ReconnectOptions } from './reconnect.ts'
import { leaseLostError, sourceDisposedError } from './settlement-errors.ts'
import type { BrokerAddress, Closable, Source } from './source.ts'

/**
 * The broker-specific half of a source that claims messages with a lease, as from SQS or from a table. A driver belongs to one iteration. Its calls may reject: then the
 * iteration reconnects, or the message comes again when its lease expires. `system`, `serverAddress` and `serverPort` become those of the source.
 */
export interface PolledSourceDriver<Item extends object> extends Omit<ReconnectOptions, 'logger'>, BrokerAddress {
  /** The most messages that an iteration holds. */
  readonly prefetch: number
  /** Milliseconds between two claims, if the first one returned nothing. */
  readonly pollInterval: number
  /** Milliseconds after which a message that is not renewed can be claimed again. Leases are renewed after a third of it. */
  readonly leaseTime: number
  /** Claims up to `limit` messages, for `leaseTime`. */
  claim(limit: number): Promise<readonly Item[]>
  renew(items: readonly Item[]): Promise<unknown>
  /** Makes messages available to other consumers at once. `seen`: whether they were handed out, so that this delivery counts. */
  release(items: readonly Item[], options: { readonly seen: boolean }): Promise<unknown>
  /** Deletes the message. Resolves `false` if its lease has expired and another consumer may have it. */
  ack(item: Item): Promise<boolean>
  /** Makes the message available again after so many milliseconds. Resolves `false` as `ack` does. */
  nack(item: Item, delay: number): Promise<boolean>
  /** The content of a message. Must not throw: the attributes must report that a message cannot be read. */
  read(item: Item): Pick<Delivery, 'data' | 'attributes' | 'deliveryCount' | 'origin'>
}

/** A source that polls. It claims, renews and releases messages; the driver has the calls of the broker, and the receiver the logger. */
export function createPolledSource<Item extends object>(
  createDriver: () => PolledSourceDriver<Item>,
  receive: Receiver,
): Source & Closable {
  return createSource<HeldItem<Item>>(() => {
    const driver = createDriver()
    const { backoff, runtime, fields, lost, restored } = driver
    return {
      ...{ backoff, runtime, logger: receive.logger, fields, lost, restored },
      get system() {
        return driver.system
      },
      get serverAddress() {
        return driver.serverAddress
      },
      get serverPort() {
        return driver.serverPort
      },
      fatalError: (reason, state) => driver.fatalError?.(reason, state),
      open: (push) => new PolledSession(driver, push),
      messageOf(held) {
        if (!held.session.handOut(held)) return undefined
        const { item, session } = held
        return receive({
          ...driver.read(item),
          ack: () => session.settle(held, () => driver.ack(item)),
          nack: (_error, { retryAfter = 0 }) => session.settle(held, () => driver.nack(item, retryAfter)),
        })
      },
    }
  }, receive)
}

interface HeldItem<Item extends object> {
  readonly item: Item
  readonly session: PolledSession<Item>
  /** Whether it was handed out, so that its handler settles it. */
  yielded: boolean
}

class PolledSession<Item extends object> implements SourceSession {
  readonly ended: Promise<unknown>
  readonly closed: Promise<void>
  readonly #driver: PolledSourceDriver<Item>
  readonly #runtime: Runtime
  readonly #push: (held: HeldItem<Item>) => void
  readonly #held = new Set<HeldItem<Item>>()
  readonly #leaving = new AbortController()
  #polling: Promise<void> = Promise.resolve()
  #state: 'open' | 'left' | 'closed' = 'open'
  #onEnded: (reason: unknown) => void = () => {}
  #onClosed: () => void = () => {}

  constructor(driver: PolledSourceDriver<Item>, push: (held: HeldItem<Item>) => void) {
    this.#driver = driver
    this.#runtime = driver.runtime
    this.#push = push
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
  }

  async start(): Promise<void> {
    try {
      await this.#claim()
    } catch (error) {
      await this.close()
      throw error
    }
    this.#polling = this.#poll().catch((error: unknown) => this.#onEnded(error))
  }

  /** `false` if the message is not held any more. */
  handOut(held: HeldItem<Item>): boolean {
    held.yielded = this.#held.has(held)
    return held.yielded
  }

  /** Without an answer the message comes again when its lease expires. */
  async settle(held: HeldItem<Item>, send: () => Promise<boolean>): Promise<void> {
    if (this.#state === 'closed') throw sourceDisposedError('the message')
    try {
      if (!(await send())) throw leaseLostError('The lease of the message expired before it was settled')
    } finally {
      this.#held.delete(held)
      this.#closeIfDone()
    }
  }

  async leave(): Promise<void> {
    this.#leaving.abort()
    this.#onEnded(undefined)
    // A claim that is under way may bring more messages.
    await this.#polling
    await this.#release([...this.#held].filter(({ yielded }) => !yielded))
    if (this.#state === 'open') this.#state = 'left'
    this.#closeIfDone()
  }

  async close(): Promise<void> {
    this.#state = 'closed'
    await this.leave()
    await this.#release([...this.#held])
    this.#closeIfDone()
  }

  async #poll(): Promise<void> {
    const { pollInterval, leaseTime } = this.#driver
    let renewedAt = this.#runtime.monotonic()
    while (await idle(this.#runtime, pollInterval, this.#leaving.signal)) {
      if (this.#runtime.monotonic() - renewedAt >= leaseTime / 3) {
        renewedAt = this.#runtime.monotonic()
        if (this.#held.size > 0) await this.#driver.renew(Array.from(this.#held, ({ item }) => item))
      }
      while (await this.#claim());
    }
  }

  /** Whether there may be more. */
  async #claim(): Promise<boolean> {
    const free = this.#driver.prefetch - this.#held.size
    if (free <= 0 || this.#leaving.signal.aborted) return false
    const items = await this.#driver.claim(free)
    for (const item of items) {
      const held: HeldItem<Item> = { item, session: this, yielded: false }
      this.#held.add(held)
      this.#push(held)
    }
    return items.length > 0
  }

  /** Never rejects: leases that cannot be released expire. */
  async #release(released: readonly HeldItem<Item>[]): Promise<void> {
    for (const held of released) this.#held.delete(held)
    for (const seen of [true, false]) {
      const items = released.filter(({ yielded }) => yielded === seen).map(({ item }) => item)
      if (items.length > 0) await this.#driver.release(items, { seen }).catch(() => {})
    }
  }

  #closeIfDone(): void {
    if (this.#state !== 'open' && this.#held.size === 0) this.#onClosed()
  }
}
