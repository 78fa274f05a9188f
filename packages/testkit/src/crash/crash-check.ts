import type { CrashObservation } from './crash-world.ts'

/** What must be there in the end. */
export interface CrashExpectation {
  /** Each command that was sent, once. */
  readonly commands: ReadonlySet<string>
  readonly eventOf: (command: string) => string
  /** How many events may, and must, have come to the broker more often than once. */
  readonly duplicates: { readonly least: number; readonly most: number }
}

/** How many events came to the broker beyond the first of their id. */
export function duplicatesOf({ published }: CrashObservation): number {
  return published.length - new Set(published).size
}

/** What is not there, and may still come. */
export function missingOf(expected: CrashExpectation, seen: CrashObservation): string[] {
  const left = (['ready', 'waiting', 'leased', 'parked'] as const).filter((state) => seen.outbox[state] > 0)
  return [
    ...list('commands lost', without(expected.commands, seen.applied)),
    ...list('commands not in the inbox', without(expected.commands, seen.inbox)),
    ...list('events lost', without(eventsOf(expected), seen.published)),
    ...(seen.waiting > 0 ? [`commands left at the broker: ${seen.waiting}`] : []),
    ...(left.length > 0 ? [`left in the outbox: ${left.map((state) => `${seen.outbox[state]} ${state}`).join(', ')}`] : []),
  ]
}

/** What is there, and should not be. Nothing mends it. */
export function faultsOf(expected: CrashExpectation, seen: CrashObservation): string[] {
  const { most } = expected.duplicates
  const duplicates = duplicatesOf(seen)
  return [
    ...list('commands applied more than once', repeated(seen.applied)),
    ...list('applied and never sent', without(seen.applied, expected.commands)),
    ...list('in the inbox more than once', repeated(seen.inbox)),
    ...list('in the inbox and never sent', without(seen.inbox, expected.commands)),
    ...list('events that no command has', without(seen.published, eventsOf(expected))),
    ...(duplicates > most ? [`duplicates at the broker: ${duplicates}, and at most ${most} are allowed`] : []),
  ]
}

/** Everything that is wrong in the end. */
export function problemsOf(expected: CrashExpectation, seen: CrashObservation): string[] {
  const { least } = expected.duplicates
  const duplicates = duplicatesOf(seen)
  return [
    ...missingOf(expected, seen),
    ...faultsOf(expected, seen),
    ...(duplicates < least
      ? [`duplicates at the broker: ${duplicates}, and a kill between publish and settle leaves at least ${least}`]
      : []),
  ]
}

function eventsOf({ commands, eventOf }: CrashExpectation): string[] {
  return [...commands].map(eventOf)
}

function list(what: string, ids: readonly string[]): string[] {
  if (ids.length === 0) return []
  const shown = ids.slice(0, 5).join(', ')
  return [`${what}: ${ids.length} (${ids.length > 5 ? `${shown}, …` : shown})`]
}

function without(ids: Iterable<string>, others: Iterable<string>): string[] {
  const known = new Set(others)
  return [...new Set(ids)].filter((id) => !known.has(id))
}

function repeated(ids: readonly string[]): string[] {
  return [...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))]
}
