import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import { checkDuration } from '../options.ts'
import { describeMessage } from './marshal.ts'
import { type Due, dueOf, isMessage, type Message } from './message.ts'

/** When an outbox may publish an event. At most one of the two. */
export interface DelayOptions {
  /** Milliseconds after the event is stored, by the store's clock. */
  readonly delay?: number | undefined
  /** An instant. Becomes a delay when the event is stored, by the clock of this process; an instant in the past means immediately. */
  readonly at?: Date | undefined
}

/** Throws if an option is invalid. `caller` is for error texts: what was given the options. `undefined` without a delay. */
export function dueFrom({ delay, at }: DelayOptions, caller: string): Due | undefined {
  if (delay !== undefined && at !== undefined)
    throw new InvalidOptionError('at', `cannot be combined with 'delay'. Give ${caller} one of them.`)
  if (delay !== undefined) return { delay: checkDuration('delay', delay) }
  if (at === undefined) return undefined
  if (at instanceof Date && !Number.isNaN(at.getTime())) return { at: at.getTime() }
  const found = at instanceof Date ? 'an invalid date' : describeValue(at)
  throw new InvalidOptionError('at', `must be a Date; it is ${found}. For milliseconds from now, use 'delay'.`)
}

/** The milliseconds for which an outbox that stores the message at `now` waits before it may be published; `undefined` without a delay. */
export function delayOf(message: Message, now: () => number): number | undefined {
  // A message of another copy of the package has none that could be read here.
  const due = isMessage(message) ? dueOf(message) : undefined
  if (due === undefined) return undefined
  return 'delay' in due ? due.delay : Math.max(0, due.at - now())
}

/** Only an outbox can wait: an output that would be published now, or passed on in this process, must not have a delay. */
export function refuseDelay(output: Message, input: Message): void {
  if (dueOf(output) === undefined) return
  throw new AckordError(
    'ACKORD_INVALID_OUTPUT',
    `The handler of ${describeMessage(input)} returned ${describeMessage(output)} with a delay, and no outbox stores it. Only an outbox can wait: add one, such as transactional(), or remove 'delay' and 'at' from the event.`,
    { retryable: false },
  )
}
