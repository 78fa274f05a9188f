/** What the parts of the simulated system must do, one by one. All true is right; a mutant turns one off, or more. */
export interface SimulationRules {
  // Transaction
  /** Off: the message is acked before its transaction is begun. */
  readonly acksAfterCommit: boolean
  /** What the handler says of its message waits for the commit. */
  readonly holdsVerdicts: boolean
  /** A commit that fails is an error. Off: it counts as one that worked. */
  readonly reportsCommitFailure: boolean
  /** A commit that answers with a rollback is an error. */
  readonly reportsAbortedCommit: boolean
  /** A failure rolls back. Off: it commits what there is, and then fails. */
  readonly rollsBack: boolean
  /** Off: a second attempt is made in the transaction of the first. */
  readonly retriesOutside: boolean
  /** The handler's writes are in the transaction. Off: each commits by itself. */
  readonly writesInTransaction: boolean
  // Inbox
  /** The message is recorded in the transaction. Off: at once, for good. */
  readonly recordsInTransaction: boolean
  /** Off: recorded by a call of its own before the transaction, and removed again when that fails, as with Redis' SET NX. */
  readonly recordsByCommit: boolean
  /** Looking and recording are one step. Off: there is a gap between them. */
  readonly recordsAtOnce: boolean
  /** Off: when a commit was not answered, the record is removed so that the message is handled again. */
  readonly keepsRecordOfUnknown: boolean
  /** A duplicate is acked. Off: it is an error, and nacked. */
  readonly acksDuplicates: boolean
  readonly keyHasConsumer: boolean
  readonly keyHasSource: boolean
  /** Records outlast everything that the broker may deliver again. */
  readonly keepsWindow: boolean
  // Outbox
  /** Events are stored in the transaction. Off: by a call of their own, before the commit. */
  readonly storesInTransaction: boolean
  /** Off: events are published by the handler, before the commit. */
  readonly publishesAfterCommit: boolean
  // Router
  /** A source that loses its connection makes another. Off: it ends with an error. */
  readonly reconnects: boolean
  /** A nack asks for a delay. */
  readonly delaysRedelivery: boolean
  /** A rejected message is sent to the dead letter. Off: it is acked, and gone. */
  readonly sendsLetters: boolean
  /** Off: a rejected message is acked before the dead letter has confirmed. */
  readonly awaitsLetters: boolean
  // Store of the relays
  /** What is handed over after its commit is leased by that commit. Off: relays find it, too. */
  readonly preLeases: boolean
  /** What is leased to one relay is given to no other. */
  readonly leases: boolean
  /** A lease ends. */
  readonly expires: boolean
  /** Settling takes the token of the claim. Off: the id alone. */
  readonly fences: boolean
  /** Instants are by the store's clock. Off: by the relay's. */
  readonly usesOwnClock: boolean
  /** What is given back has not used up an attempt. */
  readonly sparesAttempts: boolean
  /** A store that says it keeps order does. */
  readonly keepsOrder: boolean
  /** The cleanup goes by when a record was published. Off: by when it was stored. */
  readonly cleansByPublished: boolean
  /** The cleanup leaves alone what is not published. */
  readonly cleansPublishedOnly: boolean
  // Relay
  /** Off: records are settled when they are claimed. */
  readonly publishesFirst: boolean
  /** Off: a publish that was not answered counts as one that worked. */
  readonly awaitsConfirms: boolean
  /** Off: when one message of a batch is confirmed, all of them are. */
  readonly looksAtEachResult: boolean
  /** A publish that fails as a whole is the destination's fault. Off: each record loses an attempt. */
  readonly blamesDestination: boolean
  /** Off: a destination that fails is tried again at once. */
  readonly pauses: boolean
  /** Off: a store that fails is asked again at once. */
  readonly waitsForStore: boolean
  /** What is published has the id that was committed. Off: a new one each time. */
  readonly keepsIds: boolean
  /** The relay looks into the store by itself. Off: only when it is told of a commit. */
  readonly polls: boolean
  /** A stop waits for what is on its way. Off: the process just ends. */
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
