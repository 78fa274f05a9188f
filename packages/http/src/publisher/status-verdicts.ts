import { InvalidOptionError } from '@ackord/core'
import { checkChoice } from '@ackord/core/internal'

/**
 * The meaning of an answer for a message. `confirmed`: the receiver has it. `retry`: try this message again. `park`: the same message will be refused again.
 * `destination`: the receiver is at fault, not the message.
 */
export type HttpVerdict = 'confirmed' | 'retry' | 'park' | 'destination'

const verdicts: readonly HttpVerdict[] = ['confirmed', 'retry', 'park', 'destination']

/** About the message: its form, its size, its content type, its headers. */
const parked: ReadonlySet<number> = new Set([400, 406, 411, 413, 414, 415, 422, 431])
/** About the receiver: wrong address, no permission, overloaded, down. */
const faults: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 407, 408, 410, 421, 426, 429, 451, 502, 503, 504, 511])

export type StatusVerdicts = Readonly<Record<number, HttpVerdict>>

export function verdictOf(status: number, statuses: StatusVerdicts): HttpVerdict {
  const chosen = statuses[status]
  if (chosen !== undefined) return chosen
  if (status >= 200 && status < 300) return 'confirmed'
  // Redirects are not followed, so the address is wrong.
  if (status < 400 || faults.has(status)) return 'destination'
  return parked.has(status) ? 'park' : 'retry'
}

export function checkStatuses(statuses: StatusVerdicts): void {
  if (typeof statuses !== 'object' || statuses === null)
    throw new InvalidOptionError('statuses', "must be an object such as { 404: 'park' }.")
  for (const [status, verdict] of Object.entries(statuses)) {
    if (!/^[1-5]\d\d$/.test(status)) throw new InvalidOptionError('statuses', `has '${status}', which is not an HTTP status.`)
    checkChoice(`statuses[${status}]`, verdict, verdicts)
  }
}
