/** The invariants of every history, by name. */
export const invariants = {
  appliedOnce: 'every command is applied exactly once by every service; one that is rejected, never',
  recordedWithEffect: 'the inbox has recorded what was applied, and nothing else',
  ackedAfterCommit: 'a command is acked when what it does is committed, or the dead letter has it, not before',
  publishedAll: 'every committed event is published',
  publishedCommitted: 'no event is published that is not committed, and none under another id',
  keyOrder: 'where the store keeps order, the events of a key are first published in the order of their commits',
  duplicatesExplained: 'an event is published once more only where a fault hit the holder of the record',
  leaseKept: 'a leased record is not claimed by another relay, and a relay that lost its lease changes nothing',
  parkedWithReason: 'a record is parked only if the broker refuses it for good',
  cleanedInTime: 'the cleanup deletes only what was published long enough ago',
  noHotLoop: 'whatever fails is tried again less and less often',
  drains: 'when the faults are over, everything is settled before long',
  cleanStop: 'after a stop in good order nothing is leased, in flight, or waiting for a timer',
  alive: 'nothing ends a router but a stop',
} as const

/** The name of an invariant. */
export type Invariant = keyof typeof invariants

/** A violation of an invariant by a history. */
export interface Violation {
  readonly invariant: Invariant
  /** Milliseconds since the start. */
  readonly at: number
  readonly text: string
}
