import type { Message } from '../message/message.ts'
import { checkFunction } from '../options.ts'
import { type Middleware, middleware } from './middleware.ts'

/** Sets `subject` on outputs that have none, from their data: the result of `subjectOf`, by default the data's own `subject`, a string or a method. */
export function subjectMiddleware(subjectOf: (data: unknown) => string | undefined = ownSubject): Middleware {
  checkFunction('subjectOf', subjectOf)

  return middleware(
    { role: 'outputs' },
    (next) =>
      async function subject(message, context) {
        return fillAttribute(await next(message, context), 'subject', (output) => subjectOf(output.data))
      },
  )
}

function ownSubject(data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null || !('subject' in data)) return undefined
  const value: unknown = typeof data.subject === 'function' ? data.subject() : data.subject
  return typeof value === 'string' ? value : undefined
}

/** The outputs, with those that lack the attribute replaced by copies that have it. An empty string counts as missing, as in `missingAttributes()`. */
export function fillAttribute(
  outputs: readonly Message[],
  name: 'correlationid' | 'subject',
  valueFor: (output: Message) => string | undefined,
): readonly Message[] {
  return outputs.map((output) => {
    const present = output.attributes[name]
    if (present !== undefined && present !== '') return output
    const value = valueFor(output)
    return value === undefined || value === '' ? output : output.withAttributes({ [name]: value })
  })
}
