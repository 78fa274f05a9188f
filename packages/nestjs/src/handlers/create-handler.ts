import { commandHandler, eventHandler, type Handler, InvalidOptionError } from '@ackord/core'
import type { FoundHandler } from './find-handlers.ts'
import type { HandlerMethod } from './handler-decorators.ts'

/** Makes a handler of a decorated method. Its errors name the method. */
export function createHandler(found: FoundHandler, run: HandlerMethod, eventSource: string | undefined): Handler {
  const { kind, type, options } = found.metadata
  const { consumer: _consumer, instance: _instance, source = eventSource, ...others } = options
  // The decorator has checked the data against the parameter of the method.
  const input = { type, source, ...others } as { readonly type: string; readonly source?: string | undefined }
  const work = run as () => undefined
  if (kind === 'event') return named(found, () => eventHandler(input, work))
  if (source === undefined) {
    throw new InvalidOptionError(
      found.where,
      "needs a source for its events: @OnCommand(…, { source: '/orders' }), or `eventSource` of the module.",
    )
  }
  return named(found, () => commandHandler({ ...input, source }, work))
}

function named(found: FoundHandler, create: () => Handler): Handler {
  try {
    return create()
  } catch (error) {
    throw error instanceof InvalidOptionError ? new InvalidOptionError(`${found.where}:`, error.message, { cause: error }) : error
  }
}
