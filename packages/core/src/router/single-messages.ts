import { AsyncLocalStorage } from 'node:async_hooks'
import { linkedController } from '../async/abort.ts'
import { AckordError, toError } from '../errors.ts'
import type { Acking, HandleOneResult } from '../message/acking.ts'
import { inRoot } from '../message/context.ts'
import { describeMessage } from '../message/marshal.ts'
import { ackingOf, type Message } from '../message/message.ts'
import type { Runtime, Timer } from '../ports/runtime.ts'
import type { RunPorts } from './message-processor.ts'

/** How long a message may be handled. */
interface SingleLimits {
  readonly signal: AbortSignal | undefined
  /** Milliseconds. */
  readonly timeout: number
  /** Milliseconds. */
  readonly grace: number
}

/** One message and its own steps around the handling. */
export interface SingleMessage extends Pick<RunPorts, 'decode' | 'deliver'> {
  readonly message: Message
  readonly acking: Acking
  readonly limits: SingleLimits
}

interface OpenMessage extends SingleMessage {
  readonly signal: AbortSignal
  readonly deadline: number | undefined
  /** Calls a function in the async context of the call: its trace and its logger fields are those of the caller's request. */
  readonly inCallerContext: <R>(work: () => R) => R
  abort(reason: unknown): void
}

/**
 * The messages of `handleOne()`, as the dispatcher reads them. Every call ends: with the settlement of its message, or, if the handler ignores the abort of its signal,
 * as nacked after the grace time.
 *
 *     waiting ─ its turn ─▶ handled ─▶ settled
 *             ─ abort, time-out, stop ─▶ nacked, and skipped when its turn comes
 *     handled ─ abort, time-out ─▶ its signal is aborted ─ the handler ends ─▶ settled
 *                                                        └ the grace time has passed ─▶ nacked, while the handler still runs
 */
export class SingleMessages {
  readonly #runtime: Runtime
  readonly #waiting: OpenMessage[] = []
  readonly #open = new Map<Acking, OpenMessage>()
  #onArrival: (() => void) | undefined
  #closed = false

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Whether a call for the message is under way. */
  has({ acking }: Pick<SingleMessage, 'acking'>): boolean {
    return this.#open.has(acking)
  }

  /** Resolves when the message is settled, or its handler did not end in time. Never rejects. */
  handle(single: SingleMessage): Promise<HandleOneResult> {
    return new Promise((resolve) => {
      const open = this.#add(single, resolve)
      if (this.#closed) nack(open.message, stopped(open.message))
      if (open.message.state !== 'pending') return
      this.#waiting.push(open)
      this.#onArrival?.()
    })
  }

  /** Yields the messages until the signal is aborted; those that still wait are nacked then. */
  async *messages(signal: AbortSignal): AsyncGenerator<Message, void, void> {
    const close = () => {
      this.#closed = true
      for (const { message } of this.#waiting.splice(0)) nack(message, stopped(message))
      this.#onArrival?.()
    }
    if (signal.aborted) close()
    else signal.addEventListener('abort', close, { once: true })
    while (!this.#closed) {
      const next = this.#waiting.shift()
      if (next !== undefined) {
        yield next.message
        continue
      }
      await new Promise<void>((resolve) => {
        this.#onArrival = resolve
      })
      this.#onArrival = undefined
    }
  }

  /** The steps around the handling of these messages. */
  get ports(): RunPorts {
    return {
      decode: (message, signal) => this.#of(message)?.decode?.(message, signal) ?? message,
      deliver: (outputs, input, signal) => this.#of(input)?.deliver(outputs, input, signal),
      abandon: (reason) => {
        for (const open of this.#open.values()) open.abort(reason)
      },
      limitsOf: (message) => this.#of(message),
    }
  }

  /** Runs the work of the dispatcher for a message, in the async context of its call. */
  run(message: Message, work: (done: () => void) => void, done: () => void): void {
    const open = this.#of(message)
    // Its call has given up before its turn came.
    if (open === undefined || message.state !== 'pending') {
      done()
      return
    }
    const ended = () => {
      // Nothing else would settle it: outputs with an acking of their own were not settled, for example.
      if (open.acking.state === 'pending') nack(message, notSettled(message))
      inRoot(done)
    }
    open.inCallerContext(() => work(ended))
  }

  #of(message: Message): OpenMessage | undefined {
    const acking = ackingOf(message)
    return acking === undefined ? undefined : this.#open.get(acking)
  }

  #add(single: SingleMessage, resolve: (result: HandleOneResult) => void): OpenMessage {
    const { message, acking, limits } = single
    const { signal: outer, timeout, grace } = limits
    const runtime = this.#runtime
    const controller = linkedController(outer ?? new AbortController().signal)
    let timer: Timer | undefined
    const end = (result: HandleOneResult) => {
      timer?.cancel()
      controller.signal.removeEventListener('abort', onAbort)
      controller[Symbol.dispose]()
      resolve(result)
    }
    const giveUp = () => {
      const error = abandoned(message, controller.signal.reason)
      nack(message, error)
      // A verdict inside a transaction waits for its end, and makes it roll back. One that the broker has not answered is unknown.
      if (acking.state === 'pending') end({ verdict: 'nacked', error })
      else if (acking.busy) end({ verdict: acking.state, error: acking.error, failure: error })
    }
    const onAbort = () => {
      timer?.cancel()
      const index = this.#waiting.indexOf(open)
      if (index !== -1) {
        this.#waiting.splice(index, 1)
        nack(message, abandoned(message, controller.signal.reason))
      }
      if (grace !== Infinity) timer = runtime.setTimeout(giveUp, grace)
    }
    const open: OpenMessage = {
      ...single,
      signal: controller.signal,
      // biome-ignore lint/plugin: handlers see the deadline as an instant; the time-out itself is measured by its duration.
      deadline: timeout === Infinity ? undefined : runtime.now() + timeout,
      inCallerContext: AsyncLocalStorage.snapshot(),
      abort: (reason) => controller.abort(reason),
    }
    this.#open.set(acking, open)
    void acking.settled.then((settlement) => {
      this.#open.delete(acking)
      const { retryAfter } = acking
      end(settlement.verdict === 'nacked' && retryAfter !== undefined ? { ...settlement, retryAfter } : settlement)
    })
    if (controller.signal.aborted) nack(message, abandoned(message, controller.signal.reason))
    else {
      controller.signal.addEventListener('abort', onAbort, { once: true })
      if (timeout !== Infinity) timer = runtime.setTimeout(() => controller.abort(late(message, timeout)), timeout)
    }
    return open
  }
}

/** The failure of a nack is in the settlement. */
function nack(message: Message, error: AckordError): void {
  message.nack(error).catch(() => {})
}

function late(message: Message, timeout: number): AckordError {
  return new AckordError('ACKORD_PROCESS_TIMEOUT', `Handling ${describeMessage(message)} took longer than ${timeout} ms.`)
}

function abandoned(message: Message, reason: unknown): AckordError {
  const cause = toError(reason)
  const text = `${describeMessage(message)} was not handled before handleOne() had to end. A handler that still runs is not waited for; its message counts as nacked.`
  return new AckordError('ACKORD_PROCESS_TIMEOUT', text[0]?.toUpperCase() + text.slice(1), { cause })
}

function stopped(message: Message): AckordError {
  return new AckordError('ACKORD_SHUTDOWN', `The router was stopped before it handled ${describeMessage(message)}.`)
}

function notSettled(message: Message): AckordError {
  const text = `The handling of ${describeMessage(message)} ended without settling it. handleOne() must end with a verdict, so the message is nacked.`
  return new AckordError('ACKORD_NACKED', text)
}
