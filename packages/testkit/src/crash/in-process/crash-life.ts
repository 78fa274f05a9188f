import { AsyncLocalStorage } from 'node:async_hooks'
import type { Publisher, Source } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import type { OutboxAdmin, OutboxStore } from '@ackord/outbox'
import type { PublishedEvent } from '../../helpers/assertions.ts'
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts'

/** One life of the service under test: from its start to its crash, or to its orderly end. */
export interface CrashTestLife {
  /** Takes the URL of a server and returns one whose connections break when this life ends, as those of a process do. */
  through(url: string): Promise<string>
  /** For resources without a URL: called at the crash, to close a file or a client. Its errors are ignored. */
  onCrash(callback: () => unknown): void
  /** For services that publish directly. Events in the outbox are published by the test. */
  readonly publisher: Publisher
}

/** A started service. */
export interface CrashTestService {
  /** Handles the messages of the source until it ends: `(source) => router.run(source)`. */
  handle(source: Source): Promise<void>
  /** Drained by the test instead of a relay. Default: none. */
  readonly outbox?: (OutboxStore & Pick<OutboxAdmin, 'stats'>) | undefined
  /** Closes the resources at the end of a life that did not crash. */
  close?(): PromiseLike<unknown>
}

/** The point at which a life ends, and at which hit of that point, from 1. */
export interface CrashTarget {
  readonly point: string
  readonly hit: number
}

const lives = new AsyncLocalStorage<Life>()

/** Never settles: code that awaits it stops for ever. */
const never: Promise<never> = new Promise(() => {})

/**
 * A life that can end at any probe. Its code then waits for ever: nothing is sent, acked or published any more, and the servers see its
 * connections break.
 */
export class Life implements CrashTestLife, AsyncDisposable {
  readonly crashed: Promise<'crashed'>
  readonly publisher: Publisher
  readonly #target: CrashTarget | undefined
  readonly #proxies: FaultProxy[] = []
  readonly #callbacks: (() => unknown)[] = []
  readonly #hits = new Map<string, number>()
  #dead = false
  #resolveCrashed = (_: 'crashed') => {}

  constructor(published: PublishedEvent[], target: CrashTarget | undefined) {
    this.#target = target
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

  /** How often each probe was reached. */
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

  /** Runs the work as a part of this life: its probes count for this life, and it ends with it. */
  async live<T>(work: () => Promise<T>): Promise<T | 'crashed'> {
    return await Promise.race([lives.run(this, work), this.crashed])
  }

  reach(point: string): Promise<void> | undefined {
    if (this.#dead) return never
    const hit = (this.#hits.get(point) ?? 0) + 1
    this.#hits.set(point, hit)
    if (point !== this.#target?.point || hit !== this.#target.hit) return undefined
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
        // The life has ended anyway.
      }
    }
    this.#resolveCrashed('crashed')
    await never
  }
}

/** Assigns each probe to the life that reaches it, and ignores probes outside of any life. Returns a function that removes it. */
export function watchLives(): () => void {
  return installProbe((point) => lives.getStore()?.reach(point))
}
