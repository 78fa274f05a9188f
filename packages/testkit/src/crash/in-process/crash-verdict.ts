import { isDeepStrictEqual } from 'node:util'
import { type PublishedEvent, readData } from '../../helpers/assertions.ts'
import { crashPoints } from '../crash-points.ts'
import type { CrashTarget } from './crash-life.ts'

/** The state when everything is done. */
export interface CrashOutcome {
  readonly stateBefore: unknown
  readonly state: unknown
  readonly published: readonly PublishedEvent[]
  /** Those of them that existed when the service crashed. */
  readonly publishedAtCrash: number
  /** How often each probe was reached before the crash. */
  readonly hits: ReadonlyMap<string, number>
  readonly crashed: boolean
}

/** Returns the part of an event that a test compares. */
export type EventOf = (event: PublishedEvent) => unknown

/** Type, destination and data, which do not differ from run to run, unless the data does. */
export function eventOf({ destination, message }: PublishedEvent): unknown {
  return { type: message.type, destination, data: readData(message) }
}

/** The failures of a run without a crash. If there are any, the other runs prove nothing. */
export function problemsUnharmed({ stateBefore, state }: CrashOutcome): string[] {
  return isDeepStrictEqual(stateBefore, state)
    ? [`handling the message does not change the result of state(): ${shown(state)}. state() must read what the handler writes`]
    : []
}

/** The differences from the run without a crash. */
export function problemsAfter(target: CrashTarget, outcome: CrashOutcome, unharmed: CrashOutcome, describe: EventOf): string[] {
  const { state, published, publishedAtCrash, crashed } = outcome
  if (!crashed) return [`the point was not reached ${target.hit === 1 ? '' : `${target.hit} times `}in this run`]
  const expected = [...distinct(unharmed.published)].map((event) => shown(describe(event))).sort()
  const found = [...distinct(published)].map((event) => shown(describe(event))).sort()
  return [
    ...(isDeepStrictEqual(state, unharmed.state)
      ? []
      : [`the effect is ${shown(state)}, and without a crash it is ${shown(unharmed.state)}`]),
    ...list('events are lost', without(expected, found)),
    ...list('events were published again under other ids', without(found, expected)),
    ...(publishedAtCrash > 0 && isBeforeCommit(target)
      ? [`${publishedAtCrash} events were published before the transaction had committed`]
      : []),
  ]
}

/** The number of events that were published again with the same id. */
export function duplicatesIn({ published }: CrashOutcome): number {
  return published.length - [...distinct(published)].length
}

function isBeforeCommit({ point }: CrashTarget): boolean {
  const names = crashPoints.map(({ name }) => name)
  return names.includes(point) && names.indexOf(point) < names.indexOf('transaction.afterCommit')
}

/** The first event of each id. Events without an id are all kept, because they cannot be identified. */
function distinct(events: readonly PublishedEvent[]): Iterable<PublishedEvent> {
  const first = new Map<unknown, PublishedEvent>()
  for (const event of events) {
    const id: unknown = event.message.id ?? event
    if (!first.has(id)) first.set(id, event)
  }
  return first.values()
}

/** The elements of the first list that the second has fewer of. */
function without(some: readonly string[], others: readonly string[]): string[] {
  const left = [...others]
  return some.filter((one) => {
    const target = left.indexOf(one)
    if (target === -1) return true
    left.splice(target, 1)
    return false
  })
}

function list(what: string, events: readonly string[]): string[] {
  return events.length === 0 ? [] : [`${what}: ${events.slice(0, 3).join(', ')}${events.length > 3 ? ', …' : ''}`]
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}
