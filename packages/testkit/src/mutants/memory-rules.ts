/** What a store and its middleware must do, one by one. All true is right; a mutant turns one off. */
export interface MemoryRules {
  /** A commit keeps what was written. */
  readonly commits: boolean
  /** A failure rolls back. Off: it commits what there is. */
  readonly rollsBack: boolean
  /** Each transaction has its own changes. Off: they share them, and a rollback leaves them there. */
  readonly separatesTransactions: boolean
  /** The commit is done before anybody is told. Off: it comes a moment later. */
  readonly commitsFirst: boolean
  /** Verdicts wait for the end of the transaction. */
  readonly holdsVerdicts: boolean
  /** A nack or reject inside makes it roll back. */
  readonly honoursRefusals: boolean
  /** An abort makes it roll back. */
  readonly honoursSignal: boolean
  /** A commit that fails is an error. Off: nothing is committed, and nobody is told. */
  readonly reportsCommitFailure: boolean
  /** A commit that turns into a rollback, because a write had failed, is an error. */
  readonly reportsAbortedCommit: boolean
  /** The ambient context has the transaction too. */
  readonly entersContext: boolean
  /** What is used after the end refuses. Off: it writes by itself. */
  readonly revokesHandle: boolean
  /** Writes that run are awaited before the end. */
  readonly awaitsWrites: boolean
  /** A transaction inside of one is a savepoint. Off: it is a part of the outer one. */
  readonly hasSavepoints: boolean
  /** A savepoint that succeeds waits for the transaction. Off: it commits by itself. */
  readonly savepointsWait: boolean
  /** Savepoints of one transaction take turns. Off: one that is rolled back takes others with it that were made later. */
  readonly savepointsTakeTurns: boolean
  /** A statement that would end the transaction is refused. Off: it commits what there is, and the handler goes on. */
  readonly refusesControl: boolean
  /** Callbacks are told the real outcome. Off: always a commit. */
  readonly tellsOutcome: boolean
  /** There is an inbox at all. */
  readonly remembers: boolean
  /** The message is recorded in the transaction. Off: at once, for good. */
  readonly recordsInTransaction: boolean
  /** Looking and recording are one step. Off: there is a gap between them. */
  readonly recordsAtOnce: boolean
  /** What makes a message the same one. */
  readonly inboxKey: (consumer: string, source: string, id: string) => string
  /** Off: a message without an id is handled as if it were new. */
  readonly refusesMissingId: boolean
  /** The inbox acks a duplicate itself. Off: it leaves that to the router. */
  readonly acksDuplicates: boolean
  /** A duplicate is a success. Off: it is an error. */
  readonly acceptsDuplicates: boolean
  /** Outputs get ids that follow from the message. */
  readonly givesIds: boolean
  /** Events are stored in the transaction. Off: at once. */
  readonly storesInTransaction: boolean
  /** Events are stored in the order they were returned. */
  readonly keepsOrder: boolean
  /** Events keep their attributes. Off: only id and type. */
  readonly keepsAttributes: boolean
}

export const memoryRules: MemoryRules = {
  commits: true,
  rollsBack: true,
  separatesTransactions: true,
  commitsFirst: true,
  holdsVerdicts: true,
  honoursRefusals: true,
  honoursSignal: true,
  reportsCommitFailure: true,
  reportsAbortedCommit: true,
  entersContext: true,
  revokesHandle: true,
  awaitsWrites: true,
  hasSavepoints: true,
  savepointsWait: true,
  savepointsTakeTurns: true,
  refusesControl: true,
  tellsOutcome: true,
  remembers: true,
  recordsInTransaction: true,
  recordsAtOnce: true,
  inboxKey: (...parts) => JSON.stringify(parts),
  refusesMissingId: true,
  acksDuplicates: true,
  acceptsDuplicates: true,
  givesIds: true,
  storesInTransaction: true,
  keepsOrder: true,
  keepsAttributes: true,
}
