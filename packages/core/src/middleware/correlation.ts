import { enter } from '../context.ts'
import type { Message } from '../message.ts'
import { checkFunction } from '../options.ts'
import { type Middleware, middleware } from '../process.ts'
import { fillAttribute } from './fill-attribute.ts'

export interface CorrelationOptions {
  /** The correlation id for a message that has none; the handler sees it on the message. Default: none is made up. */
  readonly start?: ((message: Message) => string | undefined) | undefined
}

/** Gives outputs without `correlationid` the one of the input. */
export function correlationMiddleware(options: CorrelationOptions = {}): Middleware {
  const { start } = options
  if (start !== undefined) checkFunction('start', start)

  return middleware(
    { role: 'outputs' },
    (next) =>
      async function correlation(message, context) {
        if (message.correlationId) return passOn(await next(message, context), message.correlationId)

        const started = start?.(message)
        if (!started) return await next(message, context)
        const changed = message.withAttributes({ correlationid: started })
        const changedContext = changed.context(context)
        return passOn(await enter(changedContext, () => next(changed, changedContext)), started)
      },
  )
}

function passOn(outputs: readonly Message[], correlationId: string): readonly Message[] {
  return fillAttribute(outputs, 'correlationid', () => correlationId)
}
