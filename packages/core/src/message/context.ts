import { AsyncLocalStorage } from 'node:async_hooks'
import { setMaxListeners } from 'node:events'
import type { Attributes } from './attributes.ts'
import type { Message } from './message.ts'

declare const valueType: unique symbol

/** Identifies a value in a context and carries its type. Two keys of the same name are different keys. */
export interface ContextKey<V> {
  readonly name: string
  /** Whether the value belongs to one call, like a transaction: a message refuses to carry it. */
  readonly callScoped: boolean
  readonly [valueType]?: (value: V) => V
}

/** Immutable. The environment of a handler: cancellation, deadline and values under typed keys. It never crosses a broker. */
export interface Context {
  /** Aborted when the work should end: time-out, deadline, forced shutdown. Settling the message does not abort it. */
  readonly signal: AbortSignal
  /** Milliseconds since the epoch. Only informative; `deadlineMiddleware()` enforces it. */
  readonly deadline?: number | undefined
  /** Searches the values set by `with`, then the message's (live), then the parent. */
  get<V>(key: ContextKey<V>): V | undefined
  with<V>(key: ContextKey<V>, value: V): Context
}

export function contextKey<V>(name: string, options: { readonly callScoped?: boolean } = {}): ContextKey<V> {
  return { name, callScoped: options.callScoped ?? false }
}

/** The message a context was created for. */
export const messageKey: ContextKey<Message> = contextKey('ackord.message', { callScoped: true })

/** Its attributes. */
export const attributesKey: ContextKey<Attributes> = contextKey('ackord.attributes', { callScoped: true })

export interface RootContextOptions {
  /** Default: a signal that is never aborted. */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds since the epoch. Default: none. */
  readonly deadline?: number | undefined
  /** Whether `enter()` puts contexts derived from this one into the ambient storage. Default: true. */
  readonly ambient?: boolean | undefined
}

/** A context without parent, for code that starts outside of a router. */
export function rootContext(options: RootContextOptions = {}): Context {
  const { signal = neverAborted, deadline, ambient = true } = options
  return new ContextNode(undefined, { signal, deadline, ambient })
}

/** The same context with another signal. The caller links the signal to the old one where both should apply. */
export function withSignal(context: Context, signal: AbortSignal): Context {
  return new ContextNode(context, { signal, deadline: undefined, ambient: isAmbient(context) })
}

/** The same context with this deadline, or its own if that is earlier. */
export function withDeadline(context: Context, deadline: number): Context {
  return new ContextNode(context, { signal: undefined, deadline, ambient: isAmbient(context) })
}

/** Used by `message.context(parent)`. */
export function messageContext(parent: Context, message: Message): Context {
  return new ContextNode(parent, undefined, message)
}

const attemptKey: ContextKey<true> = contextKey('ackord.attempt', { callScoped: true })

/** For middleware that calls `next` repeatedly on purpose: each call gets a context of its own from here. */
export function beginAttempt(context: Context): Context {
  return context.with(attemptKey, true)
}

/** Called by the router at the handler: whether this is the first arrival of the attempt. A second one means that a middleware called `next` twice. */
export function arrive(context: Context): boolean {
  return context instanceof ContextNode ? context.arrive() : true
}

/** Called by the router when the handler has ended, with any result. */
export function leave(context: Context): void {
  if (context instanceof ContextNode) context.leave()
}

/** Whether a handler is still running in this context: if the middleware around it has ended, it did not await `next()`. */
export function isBusy(context: Context): boolean {
  return context instanceof ContextNode && context.busy
}

const neverAborted = new AbortController().signal
// Everything without a signal of its own may listen to it. Avoids Node's MaxListenersExceededWarning.
setMaxListeners(0, neverAborted)

interface Own {
  readonly signal: AbortSignal | undefined
  readonly deadline: number | undefined
  readonly ambient: boolean
}

// One class for all kinds of nodes, because one is created per message and per middleware: call sites stay monomorphic.
class ContextNode implements Context {
  readonly #parent: Context | undefined
  readonly #own: Own | undefined
  readonly #message: Message | undefined
  readonly #key: ContextKey<unknown> | undefined
  readonly #value: unknown
  readonly ambient: boolean
  // The node of the message that the router started with; middleware may have added a changed one below it.
  readonly #top: ContextNode | undefined
  #arrived = false
  // On the top node: the number of handlers running below it.
  #working = 0

  constructor(
    parent: Context | undefined,
    own?: Own | undefined,
    message?: Message | undefined,
    key?: ContextKey<unknown> | undefined,
    value?: unknown,
  ) {
    this.#parent = parent
    this.#own = own
    this.#message = message
    this.#key = key
    this.#value = value
    const above = parent instanceof ContextNode ? parent : undefined
    this.ambient = own === undefined ? (above?.ambient ?? true) : own.ambient
    const top = above === undefined ? undefined : above.#top
    this.#top = top ?? (message === undefined ? undefined : this)
  }

  get signal(): AbortSignal {
    return this.#own?.signal ?? this.#parent?.signal ?? neverAborted
  }

  get deadline(): number | undefined {
    const inherited = this.#parent?.deadline
    const own = this.#message === undefined ? this.#own?.deadline : this.#message.expiryTime?.getTime()
    if (own === undefined) return inherited
    return inherited === undefined ? own : Math.min(own, inherited)
  }

  get<V>(key: ContextKey<V>): V | undefined {
    // The cast is safe because `with` stores a value only under a key of its type.
    if (this.#key === key) return this.#value as V
    const message = this.#message
    if (message !== undefined) {
      // The same for the two keys that are answered from the message.
      if ((key as ContextKey<unknown>) === messageKey) return message as V
      if ((key as ContextKey<unknown>) === attributesKey) return message.attributes as V
      const value = message.value(key)
      if (value !== undefined) return value
    }
    return this.#parent?.get(key)
  }

  /** Marks the nearest attempt, of which the router's context for the message is the first; `false` if it was marked before. */
  arrive(): boolean {
    const top = this.#top
    if (top === undefined) return true
    let attempt: ContextNode = this
    while (attempt !== top && attempt.#key !== attemptKey && attempt.#parent instanceof ContextNode) attempt = attempt.#parent
    if (attempt.#arrived) return false
    attempt.#arrived = true
    top.#working += 1
    return true
  }

  leave(): void {
    if (this.#top !== undefined) this.#top.#working -= 1
  }

  get busy(): boolean {
    return this.#top !== undefined && this.#top.#working > 0
  }

  with<V>(key: ContextKey<V>, value: V): Context {
    return new ContextNode(this, undefined, undefined, key as ContextKey<unknown>, value)
  }
}

const storage = new AsyncLocalStorage<Context | undefined>()

/** The context of the message that is being handled; `undefined` outside of a handler and with `ambient: false`. */
export function currentContext(): Context | undefined {
  return storage.getStore()
}

/**
 * Runs `work` with this context as the ambient one. Middleware that passes a changed context to `next` must use it: `enter(changed, () =>
 * next(message, changed))`; otherwise inner code sees the old one.
 */
export function enter<R>(context: Context, work: () => R): R {
  return isAmbient(context) ? storage.run(context, work) : work()
}

/** The variant for the router's innermost loop: no closure per message. */
export function enterWith<M, R>(context: Context, work: (message: M, context: Context) => R, message: M): R {
  return isAmbient(context) ? storage.run(context, work, message, context) : work(message, context)
}

/** Runs `work` without an ambient context. Background loops must start here; otherwise they would keep one message's context alive for ever. */
export function outside<R>(work: () => R): R {
  return storage.getStore() === undefined ? work() : storage.run(undefined, work)
}

/** Runs `work` outside of every async context, also of those of other libraries: a relay must not belong to the request or trace that happened to start it. */
export const inRoot: <R>(work: () => R) => R = AsyncLocalStorage.snapshot()

function isAmbient(context: Context | undefined): boolean {
  return context instanceof ContextNode ? context.ambient : true
}
