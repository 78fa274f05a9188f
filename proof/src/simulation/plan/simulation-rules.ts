/** The rules that the parts of the simulated system follow. A correct system has all of them on; a mutant turns one or more off. */
export interface SimulationRules {
  // Transaction
  /** Off: the message is acked before its transaction begins. */
  readonly acksAfterCommit: boolean
  /** The handler's ack or nack is held until the commit. */
  readonly holdsVerdicts: boolean
  /** A failed commit is an error. Off: it counts as successful. */
  readonly reportsCommitFailure: boolean
  /** A commit that is answered with ROLLBACK is an error. */
  readonly reportsAbortedCommit: boolean
  /** A failure rolls back. Off: the transaction commits its writes so far, and then fails. */
  readonly rollsBack: boolean
  /** Off: a second attempt runs in the transaction of the first. */
  readonly retriesOutside: boolean
  /** The handler's writes are in the transaction. Off: each write commits on its own. */
  readonly writesInTransaction: boolean
  // Inbox
  /** The message is recorded in the transaction. Off: it is recorded immediately and permanently. */
  readonly recordsInTransaction: boolean
  /** Off: the message is recorded by a separate call before the transaction, and the record is removed if that fails, as with Redis' SET NX. */
  readonly recordsByCommit: boolean
  /** The lookup and the recording are one step. Off: there is a gap between them. */
  readonly recordsAtOnce: boolean
  /** Off: after an unanswered commit, the record is removed so that the message is handled again. */
  readonly keepsRecordOfUnknown: boolean
  /** A duplicate is acked. Off: it is an error and is nacked. */
  readonly acksDuplicates: boolean
  readonly keyHasConsumer: boolean
  readonly keyHasSource: boolean
  /** Inbox records are kept for longer than the broker may redeliver a message. */
  readonly keepsWindow: boolean
  // Outbox
  /** Events are stored in the transaction. Off: they are stored by a separate call before the commit. */
  readonly storesInTransaction: boolean
  /** Off: the handler publishes events before the commit. */
  readonly publishesAfterCommit: boolean
  // Router
  /** A source that loses its connection reconnects. Off: it ends with an error. */
  readonly reconnects: boolean
  /** A nack asks for a delay. */
  readonly delaysRedelivery: boolean
  /** A rejected message is sent to the dead letter. Off: it is acked and lost. */
  readonly sendsLetters: boolean
  /** Off: a rejected message is acked before the dead letter has confirmed. */
  readonly awaitsLetters: boolean
  // Store of the relays
  /** Records that a commit hands over are leased by that commit. Off: relays can claim them too. */
  readonly preLeases: boolean
  /** A record that is leased to one relay cannot be claimed by another. */
  readonly leases: boolean
  /** A lease expires. */
  readonly expires: boolean
  /** Settling requires the token of the claim. Off: only the id. */
  readonly fences: boolean
  /** Timestamps come from the store's clock. Off: from the relay's. */
  readonly usesOwnClock: boolean
  /** A released record does not count an attempt. */
  readonly sparesAttempts: boolean
  /** A store that declares order per key keeps it. */
  readonly keepsOrder: boolean
  /** The cleanup uses the time of publishing. Off: the time of storing. */
  readonly cleansByPublished: boolean
  /** The cleanup deletes only published records. */
  readonly cleansPublishedOnly: boolean
  // Relay
  /** Off: records are settled when they are claimed. */
  readonly publishesFirst: boolean
  /** Off: an unanswered publish counts as successful. */
  readonly awaitsConfirms: boolean
  /** Off: when one message of a batch is confirmed, all of them count as confirmed. */
  readonly looksAtEachResult: boolean
  /** A publish that fails as a whole is the destination's fault. Off: each record counts an attempt. */
  readonly blamesDestination: boolean
  /** Off: a failed destination is retried immediately. */
  readonly pauses: boolean
  /** Off: a call to a failed store is retried immediately. */
  readonly waitsForStore: boolean
  /** An event is published with its committed id. Off: with a new id each time. */
  readonly keepsIds: boolean
  /** The relay polls the store. Off: it claims only when it is notified of a commit. */
  readonly polls: boolean
  /** A stop waits for work in flight. Off: the process just ends. */
  readonly stopsGracefully: boolean
}

export const simulationRules: SimulationRules = {
  acksAfterCommit: true,
  holdsVerdicts: true,
  reportsCommitFailure: true,
  reportsAbortedCommit: true,
  rollsBack: true,
  retriesOutside: true,
  writesInTransaction: true,
  recordsInTransaction: true,
  recordsByCommit: true,
  recordsAtOnce: true,
  keepsRecordOfUnknown: true,
  acksDuplicates: true,
  keyHasConsumer: true,
  keyHasSource: true,
  keepsWindow: true,
  storesInTransaction: true,
  publishesAfterCommit: true,
  reconnects: true,
  delaysRedelivery: true,
  sendsLetters: true,
  awaitsLetters: true,
  preLeases: true,
  leases: true,
  expires: true,
  fences: true,
  usesOwnClock: true,
  sparesAttempts: true,
  keepsOrder: true,
  cleansByPublished: true,
  cleansPublishedOnly: true,
  publishesFirst: true,
  awaitsConfirms: true,
  looksAtEachResult: true,
  blamesDestination: true,
  pauses: true,
  waitsForStore: true,
  keepsIds: true,
  polls: true,
  stopsGracefully: true,
}
