import { limiter } from '../async/limiter.ts'
import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import type { BatchSettings } from '../handler/batch.ts'
import { directOf, type Handler } from '../handler/handler.ts'
import { arrive, type Context, leave } from '../message/context.ts'
import { describeMessage } from '../message/marshal.ts'
import type { Matcher } from '../message/match.ts'
import { isMessage, type Message } from '../message/message.ts'
import { compose, type Middleware, type Process, passPorts } from '../middleware/middleware.ts'
import { checkCount, checkFunction, checkName, rejectUnknownOptions } from '../options.ts'
import type { SharedPorts } from '../ports/part-ports.ts'
import { probe } from '../ports/probe.ts'
import { checkBatchHandler } from './batch-check.ts'
import type { OutputCompleter } from './complete-outputs.ts'
import { checkMiddlewareOrder, wantedConcurrency } from './middleware-order.ts'
import type { RouterSettings } from './router-options.ts'

export interface HandlerOptions {
  /** Names the handler in errors. Default: the type it handles. */
  readonly name?: string | undefined
  /** A message it does not match is an error, as if there were no handler. Default: all messages of its type match. */
  readonly match?: Matcher | undefined
  /** Middleware around this handler only, inside the router's; the first is the outermost. */
  readonly use?: readonly Middleware[] | undefined
  /** The maximum number of messages this handler handles concurrently, within the router's `concurrency`. Default: that of the router. */
  readonly concurrency?: number | undefined
}

interface Entry {
  readonly name: string
  readonly handler: Handler
  readonly match: Matcher | undefined
  readonly use: readonly Middleware[]
  readonly concurrency: number
}

/** The handlers of a router, one per type. */
export class HandlerTable {
  readonly #entries = new Map<string, Entry>()

  add(handler: Handler, options: HandlerOptions): void {
    checkFunction('handle(handler).handle', handler?.handle)
    const type = checkName('handle(handler).type', handler.type)
    if ('handle' in options) {
      throw new InvalidOptionError('handle(handler, options)', 'got a second handler instead of options. Add several with handleAll(a, b).')
    }
    const { name = type, match, use = [], concurrency = Infinity, ...unknown } = options
    rejectUnknownOptions('handle()', unknown)
    if (!Array.isArray(use)) throw new InvalidOptionError('use', 'must be an array of middleware.')
    checkName('name', name)
    checkCount('concurrency', concurrency, { infinite: true })
    if (handler.batch !== undefined && concurrency < handler.batch.size) {
      const problem = `counts messages: it must be at least the size of the batch handler '${name}', ${handler.batch.size}; it is ${concurrency}.`
      throw new InvalidOptionError('concurrency', problem)
    }
    if (match !== undefined) checkFunction('match', match)
    for (const [index, part] of use.entries()) checkFunction(`use[${index}]`, part)

    const before = this.#entries.get(type)
    if (before !== undefined) {
      throw new AckordError(
        'ACKORD_HANDLER_EXISTS',
        `Type '${type}' already has the handler '${before.name}'; '${name}' cannot be added. A second reader of an event is a second consumer, with a router and a name of its own.`,
      )
    }
    this.#entries.set(type, { name, handler, match, use, concurrency })
  }

  check(outer: readonly Middleware[], settings: Pick<RouterSettings, 'ackStrategy' | 'concurrency'>): void {
    if (this.#entries.size === 0) {
      throw new InvalidOptionError('router', 'has no handlers. Call router.handle(…) before it starts.')
    }
    for (const { name, use, handler } of this.#entries.values()) {
      checkMiddlewareOrder([...outer, ...use], name, settings.ackStrategy)
      if (handler.batch !== undefined) checkBatchHandler([...outer, ...use], name, handler.batch, settings)
    }
  }

  /** The batch handlers, by type. */
  batches(): ReadonlyMap<string, BatchSettings> {
    const batches = new Map<string, BatchSettings>()
    for (const [type, { handler }] of this.#entries) if (handler.batch !== undefined) batches.set(type, handler.batch)
    return batches
  }

  /** The number of concurrent messages that the middleware around these handlers needs. */
  wantedConcurrency(outer: readonly Middleware[]): number {
    return wantedConcurrency([...outer, ...[...this.#entries.values()].flatMap(({ use }) => use)])
  }

  passPorts(outer: readonly Middleware[], ports: SharedPorts): void {
    passPorts(outer, ports)
    for (const { use } of this.#entries.values()) passPorts(use, ports)
  }

  /**
   * The outermost step: a message waits here for its handler's turn, outside of all middleware, so that it holds no transaction and no time-out runs
   * meanwhile.
   */
  limited(chain: Process): Process {
    const limits = new Map<string, ReturnType<typeof limiter>>()
    for (const [type, { concurrency }] of this.#entries) if (concurrency !== Infinity) limits.set(type, limiter(concurrency))
    if (limits.size === 0) return chain

    return function inTurn(message, context) {
      const limit = message.type === undefined ? undefined : limits.get(message.type)
      return limit === undefined ? chain(message, context) : limit(() => chain(message, context), context.signal)
    }
  }

  /** The innermost step: finds the handler, calls it through its own middleware, completes its outputs. */
  process(complete: OutputCompleter): Process {
    const table = new Map([...this.#entries].map(([type, entry]) => [type, compile(entry, complete)]))

    return function process(message, context) {
      if (!isMessage(message)) return Promise.reject(nextWithout(message))
      const { type } = message
      const entry = type === undefined ? undefined : table.get(type)
      if (entry === undefined) return Promise.reject(noHandler(message))
      if (entry.match !== undefined && !entry.match(message.attributes)) return Promise.reject(refused(message, entry.name))
      return entry.run(message, context)
    }
  }
}

function compile(
  { name, handler, match, use }: Entry,
  complete: OutputCompleter,
): { name: string; match: Matcher | undefined; run: Process } {
  const direct = directOf(handler)

  // Not async, for the reason given at MessageProcessor.handle.
  function call(message: Message, context: Context): Promise<readonly Message[]> {
    if (!arrive(context)) return Promise.reject(nextCalledTwice(message))
    try {
      return direct.run(message, context).then(
        (result) => {
          leave(context)
          const completed = complete(direct.outputs(result, message), message, context)
          const paused = probe('message.handled')
          return paused === undefined ? completed : paused.then(() => completed)
        },
        (error: unknown) => {
          leave(context)
          throw error
        },
      )
    } catch (error) {
      leave(context)
      return Promise.reject(error)
    }
  }

  return { name, match, run: use.length === 0 ? call : compose(...use)(call) }
}

function noHandler(message: Message): AckordError {
  return new AckordError('ACKORD_NO_HANDLER', `No handler is registered for ${describeMessage(message)}.`, { retryable: false })
}

function refused(message: Message, name: string): AckordError {
  return new AckordError('ACKORD_HANDLER_REFUSED', `The matcher of handler '${name}' rejected ${describeMessage(message)}.`, {
    retryable: false,
  })
}

function nextWithout(given: unknown): AckordError {
  return new AckordError('ACKORD_INVALID_MESSAGE', `A middleware called next() with ${describeValue(given)}. Call next(message, context).`)
}

function nextCalledTwice(message: Message): AckordError {
  return new AckordError(
    'ACKORD_NEXT_CALLED_TWICE',
    `A middleware called next() twice for ${describeMessage(message)}. A middleware that repeats on purpose must call beginAttempt(context) for each try.`,
  )
}
