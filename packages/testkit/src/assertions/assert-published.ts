import { AssertionError } from 'node:assert'
import { checkCount } from '@ackord/core/internal'
import { describeEvent, describeExpected, type ExpectedEvent, isExpected } from './expected-event.ts'
import { type EventsIn, type PublishedEvent, readEvents } from './published-events.ts'

export interface AssertPublishedOptions {
  /** How many events it must be. Default: 1. */
  readonly times?: number | undefined
}

/**
 * Fails unless one event is there that is as expected, or as many as `times` says. Gives them back, for a closer look. An outbox in a transaction is
 * looked at before the commit, so that a test can roll back:
 *
 *     await assertPublished({ outbox, transaction }, { type: 'order.placed', data: { orderId: 'o-1' } })
 */
export async function assertPublished<Transaction>(
  events: EventsIn<Transaction>,
  expected: ExpectedEvent,
  options: AssertPublishedOptions = {},
): Promise<readonly PublishedEvent[]> {
  const { times = 1 } = options
  checkCount('times', times)
  const all = await readEvents(events)
  const found = all.filter((event) => isExpected(event, expected))
  if (found.length === times) return found
  const wanted = times === 1 ? `${describeExpected(expected)}` : `${times} times ${describeExpected(expected)}`
  throw failure(`Expected ${wanted}; ${found.length} of ${all.length} are so.`, all, expected)
}

/** Fails if an event is there that is as described; without a description, if any is. */
export async function assertNothingPublished<Transaction>(events: EventsIn<Transaction>, unexpected: ExpectedEvent = {}): Promise<void> {
  const found = (await readEvents(events)).filter((event) => isExpected(event, unexpected))
  if (found.length === 0) return
  throw failure(`Expected no event like this: ${describeExpected(unexpected)}; ${found.length} are there.`, found, [])
}

function failure(text: string, events: readonly PublishedEvent[], expected: unknown): AssertionError {
  const shown = events.slice(0, 20).map((event) => `  ${describeEvent(event)}`)
  const more = events.length > shown.length ? [`  … and ${events.length - shown.length} more`] : []
  const list = shown.length === 0 ? ['There are no events.'] : ['There are:', ...shown, ...more]
  const actual = events.map(describeEvent)
  return new AssertionError({ message: [text, ...list].join('\n'), actual, expected, operator: 'assertPublished' })
}
