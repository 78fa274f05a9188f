import { isDeepStrictEqual } from 'node:util'
import { type PublishedEvent, readData } from '../../helpers/assertions.ts'
import { crashPoints } from '../crash-points.ts'
import type { CrashPlace } from './crash-life.ts'
import type { CrashOutcome } from './crash-test.ts'

/** How a test tells what an event says. */
export type EventOf = (event: PublishedEvent) => unknown

/** Type, destination and data: what does not differ from run to run, unless the data does. */
export function eventOf({ destination, message }: PublishedEvent): unknown {
  return { type: message.type, destination, data: readData(message) }
}

/** What is wrong with a run in which nothing crashed: then nothing can be learned from the others. */
export function problemsUnharmed({ stateBefore, state }: CrashOutcome): string[] {
  return isDeepStrictEqual(stateBefore, state)
    ? [`handling the message changes nothing that state() sees: ${shown(state)}. Let it read what the handler writes`]
    : []
}

/** What is other than in the run without a crash. */
export function problemsAfter(place: CrashPlace, outcome: CrashOutcome, unharmed: CrashOutcome, describe: EventOf): string[] {
  const { state, published, publishedAtCrash, crashed } = outcome
  if (!crashed) return [`the point was not reached ${place.hit === 1 ? '' : `${place.hit} times `}in this run`]
  const expected = [...distinct(unharmed.published)].map((event) => shown(describe(event))).sort()
  const found = [...distinct(published)].map((event) => shown(describe(event))).sort()
  return [
    ...(isDeepStrictEqual(state, unharmed.state)
      ? []
      : [`the effect is ${shown(state)}, and without a crash it is ${shown(unharmed.state)}`]),
    ...list('events are lost', without(expected, found)),
    ...list('events came more often, under other ids', without(found, expected)),
    ...(publishedAtCrash > 0 && isBeforeCommit(place)
      ? [`${publishedAtCrash} events were published before the transaction had committed`]
      : []),
  ]
}

/** How many came again, under the same id. */
export function duplicatesIn({ published }: CrashOutcome): number {
  return published.length - [...distinct(published)].length
}

function isBeforeCommit({ point }: CrashPlace): boolean {
  const names = crashPoints.map(({ name }) => name)
  return names.includes(point) && names.indexOf(point) < names.indexOf('transaction.afterCommit')
}

/** The first of each id. An event without one is told apart by nothing. */
function distinct(events: readonly PublishedEvent[]): Iterable<PublishedEvent> {
  const first = new Map<unknown, PublishedEvent>()
  for (const event of events) {
    const id: unknown = event.message.id ?? event
    if (!first.has(id)) first.set(id, event)
  }
  return first.values()
}

/** Those of the one list that the other has fewer of. */
function without(some: readonly string[], others: readonly string[]): string[] {
  const left = [...others]
  return some.filter((one) => {
    const place = left.indexOf(one)
    if (place === -1) return true
    left.splice(place, 1)
    return false
  })
}

function list(what: string, events: readonly string[]): string[] {
  return events.length === 0 ? [] : [`${what}: ${events.slice(0, 3).join(', ')}${events.length > 3 ? ', …' : ''}`]
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}
