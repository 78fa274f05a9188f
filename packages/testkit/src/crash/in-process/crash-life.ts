import { AsyncLocalStorage } from 'node:async_hooks'
import { installProbe, type Publisher, type Source } from '@ackord/core'
import type { OutboxAdmin, OutboxStore } from '@ackord/outbox'
import type { PublishedEvent } from '../../helpers/assertions.ts'
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts'

/** One life of the service under test: from its start to its crash, or to its orderly end. */
export interface CrashTestLife {
  /** A way to a server that ends with this life, as the connections of a process end with it. Takes and gives a URL. */
  through(url: string): Promise<string>
  /** For what has no URL: called at the crash, to close a file or a client. What it throws is ignored. */
  onCrash(callback: () => unknown): void
  /** For services that publish by themselves. What the outbox holds is published by the test. */
  readonly publisher: Publisher
}

/** A service that was started. */
export interface CrashTestService {
  /** Handles what the source yields, until it ends: `(source) => router.run(source)`. */
  handle(source: Source): Promise<void>
  /** Drained by the test, in place of a relay. Default: there is none. */
  readonly outbox?: (OutboxStore & Pick<OutboxAdmin, 'stats'>) | undefined
  /** Closes what was opened, at the end of a life that did not crash. */
  close?(): PromiseLike<unknown>
}

/** Where a life ends, and at which time that it gets there, from 1. */
export interface CrashPlace {
  readonly point: string
  readonly hit: number
}

const lives = new AsyncLocalStorage<Life>()

/** Stops whoever awaits it, for good. */
const never: Promise<never> = new Promise(() => {})

/**
 * A life that can end at any probe. What ran in it then waits for ever: nothing is sent, acked or published any more, and the servers see its
 * connections break.
 */
export class Life implements CrashTestLife, AsyncDisposable {
  readonly crashed: Promise<'crashed'>
  readonly publisher: Publisher
  readonly #place: CrashPlace | undefined
  readonly #proxies: FaultProxy[] = []
  readonly #callbacks: (() => unknown)[] = []
  readonly #hits = new Map<string, number>()
  #dead = false
  #resolveCrashed = (_: 'crashed') => {}

  constructor(published: PublishedEvent[], place: CrashPlace | undefined) {
    this.#place = place
    this.crashed = new Promise((resolve) => {
      this.#resolveCrashed = resolve
    })
    this.publisher = {
      publish: async (destination, messages) => {
        await this.unlessDead()
        published.push(...messages.map((message) => ({ destination, message })))
        return messages.map(() => ({ ok: true }))
      },
    }
  }

  /** How often each probe was passed. */
  get hits(): ReadonlyMap<string, number> {
    return this.#hits
  }

  async through(url: string): Promise<string> {
    const proxy = await startFaultProxy(url)
    this.#proxies.push(proxy)
    return proxy.url
  }

  onCrash(callback: () => unknown): void {
    this.#callbacks.push(callback)
  }

  async unlessDead(): Promise<void> {
    if (this.#dead) await never
  }

  /** Does it as a part of this life: its probes are this life's, and it ends with it. */
  async live<T>(work: () => Promise<T>): Promise<T | 'crashed'> {
    return await Promise.race([lives.run(this, work), this.crashed])
  }

  reach(point: string): Promise<void> | undefined {
    if (this.#dead) return never
    const hit = (this.#hits.get(point) ?? 0) + 1
    this.#hits.set(point, hit)
    if (point !== this.#place?.point || hit !== this.#place.hit) return undefined
    this.#dead = true
    return this.#die()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.#proxies) await proxy[Symbol.asyncDispose]()
  }

  async #die(): Promise<void> {
    for (const proxy of this.#proxies) {
      proxy.refuse(true)
      proxy.cut()
    }
    for (const callback of this.#callbacks) {
      try {
        await callback()
      } catch {
        // It was being torn down anyway.
      }
    }
    this.#resolveCrashed('crashed')
    await never
  }
}

/** While it is installed, the probes that a life passes are its own; those of others are nobody's. Gives what removes it. */
export function watchLives(): () => void {
  return installProbe((point) => lives.getStore()?.reach(point))
}
