import { eventHandler, type Handler, InvalidOptionError, isAckordError, type Message, messageKey } from '@ackord/core'
import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { Service } from '@ackord/outbox/service'
import { type CustomTransportStrategy, type MessageHandler, Server } from '@nestjs/microservices'
import { isObservable, lastValueFrom } from 'rxjs'
import { verdictOf } from '../handlers/verdict-of.ts'
import { AckordRpcContext } from './ackord-rpc-context.ts'

export interface AckordTransportOptions {
  /** Needed beside other transports: only handlers with this transport, or with none, are registered. Default: all handlers are. */
  readonly transportId?: symbol | undefined
}

/** The part of a `Service` that is used. */
type RunningService = Pick<Service, 'start' | 'close'>

/**
 * A transport for Nest microservices. Each message is handled once, in a transaction: the `@EventPattern()` handlers of its type run one after the other in the transaction of
 * the message, together with inbox and outbox. A failed message is retried; one that can never be handled is rejected, see `HandlerErrorInterceptor`.
 *
 *     const strategy = new AckordTransport((handlers) =>
 *       createService({ database, consumer: 'orders', source, handlers, publisher, destination: 'order-events' }),
 *     )
 *     const app = await NestFactory.createMicroservice(AppModule, { strategy })
 */
export class AckordTransport extends Server implements CustomTransportStrategy {
  // Read by Nest 12, which otherwise logs errors that the service logs too.
  override readonly propagatesEventHandlerErrors: boolean = true
  readonly #createService: (handlers: readonly Handler[]) => RunningService
  readonly #eventHandlers = new Map<string, MessageHandler[]>()
  #service: RunningService | undefined

  /** The function is called by `listen()`, with a handler for each pattern. Closing the application closes the service. */
  constructor(createService: (handlers: readonly Handler[]) => RunningService, options: AckordTransportOptions = {}) {
    const { transportId, ...unknown } = options
    rejectUnknownOptions('AckordTransport', unknown)
    checkFunction('The first argument of AckordTransport', createService)
    super()
    this.#createService = createService
    if (transportId !== undefined) this.transportId = transportId
  }

  /** Keeps several event handlers of one pattern apart. Nest would run them concurrently, and end them all when one of them completes without a value. */
  override addHandler(pattern: unknown, callback: MessageHandler, isEventHandler = false, extras: Record<string, unknown> = {}): void {
    const type = this.normalizePattern(pattern as string)
    const others = isEventHandler ? this.#eventHandlers.get(type) : undefined
    if (others !== undefined) {
      others.push(Object.assign(callback, { isEventHandler, extras }))
      return
    }
    super.addHandler(pattern, callback, isEventHandler, extras)
    if (isEventHandler) this.#eventHandlers.set(type, [callback])
  }

  listen(callback: (error?: unknown) => void): void {
    try {
      for (const [pattern, { isEventHandler }] of this.getHandlers()) if (isEventHandler !== true) throw expectsAnswer(pattern)
      const handlers = [...this.#eventHandlers].map(([type, callbacks]) => handlerOf(type, callbacks))
      this.#service ??= this.#createService(handlers)
      this.#service.start()
    } catch (error) {
      callback(error)
      return
    }
    callback()
  }

  /** Lets running handlers finish. Events that are not published yet stay in the outbox. */
  async close(): Promise<void> {
    await this.#service?.close()
  }

  on(): never {
    throw new InvalidOptionError(
      'on()',
      'is not supported: AckordTransport emits no events. Pass a logger to the service, or ask unwrap() for its health().',
    )
  }

  /** The service; `undefined` before `listen()`. */
  unwrap<T>(): T {
    return this.#service as T
  }
}

function handlerOf(type: string, callbacks: readonly MessageHandler[]): Handler {
  return eventHandler({ type }, async (data, context) => {
    // Present: a router has put it there.
    const message = context.get(messageKey) as Message
    for (const callback of callbacks) await run(callback, data, new AckordRpcContext([message, context]))
  })
}

/** Waits for the end of the handler, also of one that returns an observable. Rejects if it failed, even if an exception filter has answered in its place. */
async function run(callback: MessageHandler, data: unknown, context: AckordRpcContext): Promise<void> {
  try {
    const result: unknown = await callback(data, context)
    if (isObservable(result)) await lastValueFrom(result, { defaultValue: undefined })
  } catch (thrown) {
    // An exception filter may decide what happens to the message, for example by throwing a RejectError.
    if (isAckordError(thrown)) throw thrown
    throw context.failure === undefined ? hiddenError(thrown) : verdictOf(context.failure.error)
  }
  if (context.failure !== undefined) throw verdictOf(context.failure.error)
}

/** Nest's exception filter throws an object in place of every error but a `RpcException`, whose content it throws. */
function hiddenError(thrown: unknown): Error {
  if (thrown instanceof Error) return verdictOf(thrown)
  const { message } = (thrown ?? {}) as { readonly message?: unknown }
  const text = `The handler failed: ${String(message)}. Register HandlerErrorInterceptor to see its error instead of the answer of an exception filter.`
  return new Error(text, { cause: thrown })
}

function expectsAnswer(pattern: string): InvalidOptionError {
  return new InvalidOptionError(
    `@MessagePattern('${pattern}')`,
    'expects an answer, and AckordTransport delivers events only. Use @EventPattern(), or name the transport of the handler and give AckordTransport a `transportId`.',
  )
}
