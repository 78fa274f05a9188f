import { enter } from '../message/context.ts'
import { attributeInheritance } from '../message/inherited-attributes.ts'
import type { Message } from '../message/message.ts'
import { checkFunction } from '../options.ts'
import { type Middleware, middleware } from './middleware.ts'
import { fillAttribute } from './subject.ts'

export interface CorrelationOptions {
  /** Creates the correlation id for a message that has none; the handler sees it on the message. Default: none is created. */
  readonly start?: ((message: Message) => string | undefined) | undefined
}

/** Copies `correlationid` from the input to outputs that have none, unless it is longer than 1,024 characters. */
export function correlationMiddleware(options: CorrelationOptions = {}): Middleware {
  const { start } = options
  if (start !== undefined) checkFunction('start', start)
  // The router logs values that are too long.
  const inherit = attributeInheritance()

  return middleware(
    { role: 'outputs' },
    (next) =>
      async function correlation(message, context) {
        if (message.correlationId) {
          const outputs = await next(message, context)
          const inherited = inherit(message, 'correlationid')
          return inherited === undefined ? outputs : passOn(outputs, inherited)
        }

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
