import { InvalidOptionError } from '@ackord/core'

/** A subject that can be published to: tokens with dots between them, no wildcards. */
export function checkSubject(option: string, subject: unknown): string {
  if (typeof subject === 'string' && /^[^\s.*>]+(\.[^\s.*>]+)*$/.test(subject)) return subject
  throw new InvalidOptionError(
    option,
    `must be a subject such as 'orders.placed', without spaces and wildcards; it is ${JSON.stringify(subject)}.`,
  )
}

/** The name of a stream or consumer, which is a token of a subject. */
export function checkToken(option: string, name: unknown): string {
  if (typeof name === 'string' && /^[^\s.*>/\\]+$/.test(name)) return name
  throw new InvalidOptionError(option, `must be a name without dots, spaces, wildcards and slashes; it is ${JSON.stringify(name)}.`)
}
