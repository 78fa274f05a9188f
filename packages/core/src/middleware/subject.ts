import { checkFunction } from '../options.ts'
import { type Middleware, middleware } from '../process.ts'
import { fillAttribute } from './fill-attribute.ts'

/** Gives outputs without `subject` the one of their data: what `subjectOf` answers, by default the data's own `subject`, a text or a method. */
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
