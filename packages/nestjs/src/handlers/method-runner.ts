import { isAckordError, type Logger, type Message, messageKey, toError } from '@ackord/core'
import { type ContextId, ContextIdFactory, type ExternalContextCreator, ModuleRef } from '@nestjs/core'
import type { FoundHandler } from './find-handlers.ts'
import type { HandlerMethod } from './handler-decorators.ts'
import { parametersFactory, parametersKey } from './handler-parameters.ts'
import { verdictOf } from './verdict-of.ts'

export interface MethodRunnerParts {
  readonly creator: ExternalContextCreator
  readonly logger: Logger
}

/** Guards and filters that distinguish transports see messages as RPC: `switchToRpc().getData()` is the data, `getContext()` the `Context`. */
const contextType = 'rpc'

/**
 * Calls a decorated method as Nest calls a controller: guards, interceptors and pipes around it. A provider that depends on the request, or is transient, is created
 * for each message, which is then its request. The filters see a failure, but do not undo it: a message that was not handled must neither be committed nor acked.
 */
export function methodRunner(found: FoundHandler, { creator, logger }: MethodRunnerParts): HandlerMethod {
  const { wrapper, method } = found

  function pipelineOf(target: object, contextId?: ContextId): HandlerMethod {
    const inquirerId = contextId === undefined ? undefined : wrapper.id
    const callback = (target as Record<string, HandlerMethod>)[method] as HandlerMethod
    const options = { guards: true, interceptors: true, filters: false }
    const run = creator.create(
      target,
      callback as never,
      method,
      parametersKey,
      parametersFactory,
      contextId,
      inquirerId,
      options,
      contextType,
    )

    /** Resolves to the error that the message fails with. */
    async function afterFilters(error: unknown, args: readonly unknown[]): Promise<unknown> {
      const rethrow = Object.setPrototypeOf(() => {
        throw error
      }, callback)
      const filtersOnly = { guards: false, interceptors: false, filters: true }
      // Its own name: Nest keeps the parameters of a method by its name, and this one has none.
      const name = `${method}:filters`
      const filter = creator.create(target, rethrow, name, undefined, undefined, contextId, inquirerId, filtersOnly, contextType)
      try {
        await filter(...args)
      } catch (thrown) {
        if (thrown === error) return error
        // A filter may decide what happens to the message, for example by throwing a RejectError.
        if (isAckordError(thrown)) return thrown
        logger.warn({ err: toError(thrown), handler: found.where }, 'An exception filter failed while it handled the error of a message.')
      }
      return error
    }

    return async function runMethod(data, context) {
      try {
        return await run(data, context)
      } catch (error) {
        throw verdictOf(await afterFilters(error, [data, context]))
      }
    }
  }

  if (wrapper.isDependencyTreeStatic() && !wrapper.isTransient) return pipelineOf(wrapper.instance)

  return async function runInRequest(data, context) {
    const message = context.get(messageKey) as Message
    const contextId = ContextIdFactory.getByRequest(message)
    const moduleRef = moduleRefOf(found)
    moduleRef.registerRequestByContextId(message, contextId)
    const target: object = await moduleRef.resolve(wrapper.token as never, contextId, { strict: true })
    return await pipelineOf(target, contextId)(data, context)
  }
}

/** That of the module that provides the handler: another module may have a provider of the same token. */
function moduleRefOf({ wrapper }: FoundHandler): ModuleRef {
  return wrapper.host?.providers.get(ModuleRef)?.instance as ModuleRef
}
