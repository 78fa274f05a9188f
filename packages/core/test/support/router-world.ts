import { type Deferred, deferred } from '../../../testkit/src/helpers/tracked-message.ts'
import type { Publisher, PublishResult } from '../../src/broker/publisher.ts'
import type { Source } from '../../src/broker/source.ts'
import { type AckordError, type ErrorCode, isAckordError } from '../../src/errors.ts'
import type { Handler } from '../../src/handler/handler.ts'
import type { Attributes } from '../../src/message/attributes.ts'
import type { Context } from '../../src/message/context.ts'
import { Message, type RawMessage } from '../../src/message/message.ts'
import { Router } from '../../src/router/router.ts'
import type { RouterOptions } from '../../src/router/router-options.ts'
import { recordingLogger } from './recording-logger.ts'
import { type AckRecord, trackedMessage } from './tracked-message.ts'
import { VirtualRuntime } from './virtual-runtime.ts'

export type { Deferred } from '../../../testkit/src/helpers/tracked-message.ts'
export { deferred } from '../../../testkit/src/helpers/tracked-message.ts'

/** A router with a virtual clock and a recorded log. */
export function openWorld(options: RouterOptions = {}): {
  readonly runtime: VirtualRuntime
  readonly logger: ReturnType<typeof recordingLogger>
  readonly router: Router
} {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  return { runtime, logger, router: new Router({ runtime, logger, source: '/orders', ...options }) }
}

export interface Tracked {
  readonly message: RawMessage
  readonly calls: AckRecord[]
}

export interface TrackedOptions {
  readonly type?: string | undefined
  readonly data?: unknown
  readonly attributes?: Attributes
  readonly deliveryCount?: number
  /** The broker's answer to a verdict. */
  readonly answer?: () => void | Promise<void>
}

/** A message of type `order.place` as a source yields it. */
export function tracked(id: string, options: TrackedOptions = {}): Tracked {
  const { type = 'order.place', data = { id }, attributes = {}, ...rest } = options
  const bytes = new TextEncoder().encode(JSON.stringify(data))
  return trackedMessage(bytes, { id, type, source: '/shop', specversion: '1.0', ...attributes }, rest)
}

/** Several messages, with ids that start with the prefix and end with the position, from 1. */
export function trackedSome(count: number, options: TrackedOptions = {}, prefix = 'm'): Tracked[] {
  return Array.from({ length: count }, (_, index) => tracked(`${prefix}${index + 1}`, options))
}

export function verdicts({ calls }: { readonly calls: readonly AckRecord[] }): string[] {
  return calls.map((call) => call.verdict)
}

/** A handler of `order.place` by default. It may break the rules, as one written in JavaScript may. */
export function handling(handle: (message: Message, context: Context) => unknown, type = 'order.place'): Handler {
  return { type, handle: handle as Handler['handle'] }
}

/** An output with the attributes that only a handler can set. */
export function placed(data: unknown = 'placed', attributes: Attributes = {}): Message {
  return new Message(data, { type: 'order.placed', ...attributes })
}

type Pull = Deferred<IteratorResult<RawMessage, undefined>>

/** A source that the test feeds. It ends when its signal is aborted, unless it is configured to ignore that. */
export class FedSource implements Source, AsyncIterableIterator<RawMessage> {
  readonly #queue: RawMessage[] = []
  readonly #heedsSignal: boolean
  #pull: Pull | undefined
  #end: 'done' | { readonly error: unknown } | undefined
  /** How often the reader left the iteration. */
  returned = 0
  /** How often a message was requested. */
  pulls = 0
  signal: AbortSignal | undefined

  constructor(messages: readonly { readonly message: RawMessage }[] = [], options: { readonly heedsSignal?: boolean } = {}) {
    this.#heedsSignal = options.heedsSignal ?? true
    this.push(...messages)
  }

  messages({ signal }: { readonly signal: AbortSignal }): this {
    this.signal = signal
    if (this.#heedsSignal) signal.addEventListener('abort', () => this.end(), { once: true })
    return this
  }

  push(...added: readonly { readonly message: RawMessage }[]): void {
    this.#queue.push(...added.map(({ message }) => message))
    this.#serve()
  }

  end(): void {
    this.#end ??= 'done'
    this.#serve()
  }

  fail(error: unknown): void {
    this.#end ??= { error }
    this.#serve()
  }

  next(): Promise<IteratorResult<RawMessage, undefined>> {
    this.pulls += 1
    this.#pull = deferred()
    const { promise } = this.#pull
    this.#serve()
    return promise
  }

  return(): Promise<IteratorResult<RawMessage, undefined>> {
    this.returned += 1
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #serve(): void {
    const pull = this.#pull
    if (pull === undefined) return
    const value = this.#queue.shift()
    if (value === undefined && this.#end === undefined) return
    this.#pull = undefined
    if (value !== undefined) pull.resolve({ done: false, value })
    else if (this.#end === 'done') pull.resolve({ done: true, value: undefined })
    else pull.reject(this.#end?.error)
  }
}

/** A source of exactly these messages. */
export function sourceOf(...messages: readonly { readonly message: RawMessage }[]): FedSource {
  const source = new FedSource(messages)
  source.end()
  return source
}

export interface PublishCall {
  readonly destination: string
  readonly messages: readonly RawMessage[]
  readonly signal: AbortSignal
}

/** A publisher that records its calls. */
export function recordingPublisher(
  answer: (call: PublishCall) => Promise<readonly PublishResult[]> = async ({ messages }) => messages.map(() => ({ ok: true })),
): Publisher & { readonly calls: PublishCall[] } {
  const calls: PublishCall[] = []
  return {
    calls,
    publish(destination, messages, { signal }) {
      const call = { destination, messages, signal }
      calls.push(call)
      return answer(call)
    },
  }
}

export async function collect<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const one of iterable) all.push(one)
  return all
}

/** The error of the work; the test fails if there is none, or one with another code. */
export async function failureOf(work: Promise<unknown> | (() => unknown), code: ErrorCode): Promise<AckordError> {
  let thrown: unknown
  try {
    await (typeof work === 'function' ? work() : work)
  } catch (error) {
    thrown = error
  }
  if (!isAckordError(thrown, code)) throw new Error(`expected ${code}`, { cause: thrown })
  return thrown
}
