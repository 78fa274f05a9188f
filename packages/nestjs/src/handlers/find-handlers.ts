import { InvalidOptionError } from '@ackord/core'
import type { DiscoveryService, MetadataScanner } from '@nestjs/core'
import { type HandlerMetadata, handlersOf, listDecoratedClasses } from './handler-decorators.ts'

/** A provider or controller as Nest keeps it; `@nestjs/core` does not export the type. */
type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number]

/** A decorated method of a provider of the application. */
export interface FoundHandler {
  readonly metadata: HandlerMetadata
  readonly wrapper: InstanceWrapper
  readonly method: string
  /** For errors: class and method. */
  readonly where: string
}

/** All decorated methods of the application, whichever instance and consumer they belong to. Fails for a method whose guards Nest would not find. */
export function findHandlers(discovery: DiscoveryService, scanner: MetadataScanner): readonly FoundHandler[] {
  const [controller] = discovery.getControllers().flatMap((wrapper) => handlersIn(wrapper, scanner))
  if (controller !== undefined) {
    throw new InvalidOptionError(
      controller.where,
      'is a method of a controller. Move it to a provider: Nest runs the guards of a controller for requests only.',
    )
  }
  const found = discovery.getProviders().flatMap((wrapper) => handlersIn(wrapper, scanner))
  const other = found.find(({ wrapper }) => wrapper.token !== prototypeOf(wrapper)?.constructor)
  if (other === undefined) return found
  throw new InvalidOptionError(
    other.where,
    'belongs to a class that is provided under another token. Provide it under its class: Nest would not run its guards.',
  )
}

function handlersIn(wrapper: InstanceWrapper, scanner: MetadataScanner): readonly FoundHandler[] {
  const prototype = prototypeOf(wrapper)
  if (prototype === undefined) return []
  return scanner.getAllMethodNames(prototype).flatMap((method) => {
    const where = `${prototype.constructor.name}.${method}`
    const found: unknown = (prototype as Record<string, unknown>)[method]
    return typeof found !== 'function' ? [] : handlersOf(found).map((metadata) => ({ metadata, wrapper, method, where }))
  })
}

/** Classes with decorated methods that no module of the application provides, neither themselves nor a class that extends them. */
export function findUnprovided(found: readonly FoundHandler[]): readonly string[] {
  const provided = found.map(({ wrapper }) => prototypeOf(wrapper))
  const isProvided = ({ prototype }: { readonly prototype: object }) =>
    provided.some((one) => one !== undefined && (one === prototype || Object.prototype.isPrototypeOf.call(prototype, one)))
  return listDecoratedClasses()
    .filter((owner) => !isProvided(owner))
    .map(({ name }) => name)
}

/** Fails if a consumer has two handlers for a type: which one should run? */
export function rejectSecondHandler(handlers: ReadonlyMap<string, FoundHandler>, type: string, { where }: FoundHandler): void {
  const other = handlers.get(type)
  if (other === undefined) return
  throw new InvalidOptionError(where, `handles '${type}', which ${other.where} handles already. Each type has one handler per consumer.`)
}

function prototypeOf(wrapper: InstanceWrapper): object | undefined {
  // An alias is another name of a provider that is found anyway.
  if (wrapper.isAlias) return undefined
  const { instance, metatype } = wrapper
  if (typeof instance === 'object' && instance !== null) return Object.getPrototypeOf(instance) ?? undefined
  return wrapper.isDependencyTreeStatic() ? undefined : metatype?.prototype
}
