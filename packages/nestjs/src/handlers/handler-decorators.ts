import 'reflect-metadata'
import {
  type Context,
  type EventDefinition,
  type HandlerOutputOptions,
  type HandlerResult,
  InvalidOptionError,
  type MessageClass,
  type StandardSchema,
} from '@ackord/core'
import { rejectUnknownOptions } from '@ackord/core/internal'
import type { Observable } from 'rxjs'
import { addHandlerParameters } from './handler-parameters.ts'

/** The event or command of a handler: an event or command made by `defineEvent()`, or its type. */
export type HandledType<Data> = EventDefinition<Data> | string

/** The same or a class, without the type of the data. */
type AnyType = Pick<EventDefinition, 'type' | 'schema'> | MessageClass | string

export interface HandlerDecoratorOptions extends HandlerOutputOptions {
  /** The consumer that the handler belongs to. Default: that of `AckordModule.forFeature()`, or the only one of the instance. */
  readonly consumer?: string | undefined
  /** The instance that the handler belongs to. Default: that of `AckordModule.forFeature()`, or the one without a name, or the only one. */
  readonly instance?: string | undefined
  /** Any Standard Schema. A message that it rejects is rejected, not retried. Default: that of the definition. */
  readonly schema?: StandardSchema | undefined
}

/** A class, as the constructor of its instances. */
type Class = object['constructor']

type Result = HandlerResult | Promise<HandlerResult> | Observable<HandlerResult>

/** Decorates a method whose first parameter accepts the data. The second parameter is the `Context`. */
export type HandlerDecorator<Data> = <Method extends (data: Data, ...others: never[]) => Result>(
  target: object,
  property: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void

/** One decorator of a method. */
export interface HandlerMetadata {
  readonly kind: 'command' | 'event'
  readonly type: AnyType
  readonly options: HandlerDecoratorOptions
}

/** A method as a handler calls it. */
export type HandlerMethod = (data: unknown, context: Context) => unknown

/**
 * Handles the commands of one type, in the transaction of the message. The events that it returns are stored in the outbox. Events without a source have that of
 * `options.source`, or the `eventSource` of the instance; one of the two is required.
 *
 *     @OnCommand(placeOrder)
 *     async place(order: Order) {
 *       await this.orders.save(order)
 *       return [orderPlaced({ orderId: order.id })]
 *     }
 */
export function OnCommand<Data = unknown>(type: HandledType<Data>, options?: HandlerDecoratorOptions): HandlerDecorator<Data>
export function OnCommand<Data extends object>(type: MessageClass<Data>, options?: HandlerDecoratorOptions): HandlerDecorator<Data>
export function OnCommand(type: AnyType, options: HandlerDecoratorOptions = {}): HandlerDecorator<never> {
  return decorator('command', type, options)
}

/** Handles the events of one type, in the transaction of the message. It may return events of its own, which are stored in the outbox. */
export function OnEvent<Data = unknown>(type: HandledType<Data>, options?: HandlerDecoratorOptions): HandlerDecorator<Data>
export function OnEvent<Data extends object>(type: MessageClass<Data>, options?: HandlerDecoratorOptions): HandlerDecorator<Data>
export function OnEvent(type: AnyType, options: HandlerDecoratorOptions = {}): HandlerDecorator<never> {
  return decorator('event', type, options)
}

const handlersKey = 'ackord:handlers'
const decoratedClasses = new Set<WeakRef<Class>>()

/** The handler decorators of a method. */
export function handlersOf(method: object): readonly HandlerMetadata[] {
  return Reflect.getOwnMetadata(handlersKey, method) ?? []
}

/** The classes with a decorated method that this process has loaded. */
export function listDecoratedClasses(): readonly Class[] {
  const found = [...decoratedClasses].map((reference) => reference.deref())
  return [...new Set(found)].filter((owner) => owner !== undefined)
}

function decorator(kind: HandlerMetadata['kind'], type: AnyType, options: HandlerDecoratorOptions): HandlerDecorator<never> {
  const name = kind === 'command' ? '@OnCommand()' : '@OnEvent()'
  const { consumer, instance, schema, source, attributes, naming, ...unknown } = options
  rejectUnknownOptions(name, unknown)

  return (target, property, descriptor) => {
    const isStatic = typeof target === 'function'
    const owner = isStatic ? target : target.constructor
    const where = `${owner.name}.${String(property)}`
    if (isStatic) throw new InvalidOptionError(name, `decorates the static method ${where}. Decorate a method of a provider's instance.`)
    const method: unknown = descriptor?.value
    if (typeof method !== 'function') throw new InvalidOptionError(name, `decorates ${where}, which is not a method.`)
    if (type === undefined) {
      throw new InvalidOptionError(name, `on ${where} has no type. If it is imported, check for a cycle of imports.`)
    }
    const metadata: HandlerMetadata = { kind, type, options }
    Reflect.defineMetadata(handlersKey, [...handlersOf(method), metadata], method)
    addHandlerParameters(owner, property)
    // Nest looks for request-scoped guards, pipes, interceptors and filters of such providers.
    Reflect.defineMetadata('__entryProvider__', true, owner)
    decoratedClasses.add(new WeakRef(owner))
  }
}
