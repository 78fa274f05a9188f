import { pinnedSeeds } from './pinned-seeds.ts'
import type { Invariant } from './plan/invariants.ts'
import type { SimulationRules } from './plan/simulation-rules.ts'

/** A system with one defect. */
export interface SimulationMutant {
  /** The defect; unique in the list. */
  readonly name: string
  /** The number and short name of the pitfall in which such a defect was found. */
  readonly pitfall: string
  readonly broken: Partial<SimulationRules>
  /** The invariant that it violates. */
  readonly breaks: Invariant
  /** The first seed, counted from 1, whose history detects it, which is also the number of histories needed. */
  readonly seed: number
}

const defects: readonly Omit<SimulationMutant, 'seed'>[] = [
  {
    name: 'acks before the commit',
    pitfall: 'A7 early ack',
    broken: { acksAfterCommit: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'lets the handler ack before the commit',
    pitfall: 'A7 early ack',
    broken: { holdsVerdicts: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'records the message outside of the transaction',
    pitfall: 'B1 inbox gap',
    broken: { recordsInTransaction: false },
    breaks: 'recordedWithEffect',
  },
  {
    name: 'records the message first and removes it on failure (SET NX)',
    pitfall: 'B4 removed record',
    broken: { recordsByCommit: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'looks into the inbox first and records later',
    pitfall: '§5.20 parallel duplicates',
    broken: { recordsAtOnce: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'forgets the message when the commit was not answered',
    pitfall: 'A4 commit ambiguity',
    broken: { keepsRecordOfUnknown: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'nacks duplicates',
    pitfall: 'A1 duplicate loop',
    broken: { acksDuplicates: false },
    breaks: 'drains',
  },
  {
    name: 'has an inbox key without the consumer',
    pitfall: '§5.18 inbox scope',
    broken: { keyHasConsumer: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'has an inbox key without the source',
    pitfall: 'A5 id without source',
    broken: { keyHasSource: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'cleans the inbox before the broker is done with redeliveries',
    pitfall: '§5.19 inbox window',
    broken: { keepsWindow: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'takes a failed commit for a success',
    pitfall: 'A4 commit ambiguity',
    broken: { reportsCommitFailure: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'does not notice that COMMIT answered ROLLBACK',
    pitfall: 'A2 silent rollback',
    broken: { reportsAbortedCommit: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'commits what a failed handler wrote',
    pitfall: 'A11 no rollback',
    broken: { rollsBack: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'retries inside of the transaction',
    pitfall: 'C5 retry placement',
    broken: { retriesOutside: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'writes outside of the transaction',
    pitfall: 'A14 escaped query',
    broken: { writesInTransaction: false },
    breaks: 'appliedOnce',
  },
  {
    name: 'stores events outside of the transaction',
    pitfall: '§5.29 rollback hides enqueue',
    broken: { storesInTransaction: false },
    breaks: 'publishedCommitted',
  },
  {
    name: 'publishes before the commit',
    pitfall: '§5.29 sent too early',
    broken: { publishesAfterCommit: false },
    breaks: 'publishedCommitted',
  },
  {
    name: 'ends with the connection to the broker',
    pitfall: '§5.24 connection stability',
    broken: { reconnects: false },
    breaks: 'alive',
  },
  {
    name: 'nacks without a delay',
    pitfall: '§5.1 hot loop',
    broken: { delaysRedelivery: false },
    breaks: 'noHotLoop',
  },
  {
    name: 'acks rejected messages and keeps no copy',
    pitfall: 'P8 no dead letter',
    broken: { sendsLetters: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'does not wait until the dead letter confirms',
    pitfall: 'C3 lost reject',
    broken: { awaitsLetters: false },
    breaks: 'ackedAfterCommit',
  },
  {
    name: 'claims without a lock',
    pitfall: 'A20 no lock',
    broken: { leases: false },
    breaks: 'leaseKept',
  },
  {
    name: 'hands records over without leasing them',
    pitfall: '§5.6 hot path against poller',
    broken: { preLeases: false },
    breaks: 'duplicatesExplained',
  },
  {
    name: 'has leases that never end',
    pitfall: '§5.22 stuck rows',
    broken: { expires: false },
    breaks: 'drains',
  },
  {
    name: 'settles without looking at the token',
    pitfall: 'A19 no fencing token',
    broken: { fences: false },
    breaks: 'leaseKept',
  },
  {
    name: 'counts leases by the clock of the process',
    pitfall: '§5.9 clock skew',
    broken: { usesOwnClock: false },
    breaks: 'duplicatesExplained',
  },
  {
    name: 'counts an attempt when a record is given back',
    pitfall: '§5.1 attempts consumed by an outage',
    broken: { sparesAttempts: false },
    breaks: 'parkedWithReason',
  },
  {
    name: 'blames the records for an outage of the broker',
    pitfall: '§5.1 attempts consumed by an outage',
    broken: { blamesDestination: false },
    breaks: 'parkedWithReason',
  },
  {
    name: 'lets later records of a key overtake',
    pitfall: 'A25 order per key',
    broken: { keepsOrder: false },
    breaks: 'keyOrder',
  },
  {
    name: 'cleans the outbox by created_at',
    pitfall: 'A28 cleanup by created_at',
    broken: { cleansByPublished: false },
    breaks: 'cleanedInTime',
  },
  {
    name: 'cleans unpublished records, too',
    pitfall: 'A28 cleanup of unpublished',
    broken: { cleansPublishedOnly: false },
    breaks: 'cleanedInTime',
  },
  {
    name: 'settles records before they are published',
    pitfall: 'A31 marked too early',
    broken: { publishesFirst: false },
    breaks: 'publishedAll',
  },
  {
    name: 'takes a lost confirm for a success',
    pitfall: '§5.28 silent drop',
    broken: { awaitsConfirms: false },
    breaks: 'publishedAll',
  },
  {
    name: 'settles a whole batch by one confirm',
    pitfall: '§6.1 batch acked as one',
    broken: { looksAtEachResult: false },
    breaks: 'publishedAll',
  },
  {
    name: 'has no pause while the broker is down',
    pitfall: '§5.1 hot loop',
    broken: { pauses: false },
    breaks: 'noHotLoop',
  },
  {
    name: 'asks a store that fails again at once',
    pitfall: '§5.2 store outage storm',
    broken: { waitsForStore: false },
    breaks: 'noHotLoop',
  },
  {
    name: 'publishes under a new id each time',
    pitfall: 'A32 new ids',
    broken: { keepsIds: false },
    breaks: 'publishedCommitted',
  },
  {
    name: 'relies on wake-ups alone',
    pitfall: '§5.15 lost notifications',
    broken: { polls: false },
    breaks: 'drains',
  },
  {
    name: 'stops without waiting for what is on its way',
    pitfall: 'A23 stop abandons work',
    broken: { stopsGracefully: false },
    breaks: 'cleanStop',
  },
]

/** Defects that similar systems have had. A simulation that misses one of them proves little. */
export const simulationMutants: readonly SimulationMutant[] = defects.map((defect) => ({ ...defect, seed: seedOf(defect.name) }))

function seedOf(name: string): number {
  const seed = pinnedSeeds[name]
  if (seed === undefined)
    throw new Error(`The mutant that ${name} has no pinned seed. Search for one with ACKORD_PROOF=1, and add it to pinned-seeds.ts.`)
  return seed
}
