import type { Mutant } from '../run/scenario.ts'
import type { OpenTransactionWorld } from '../suites/transaction/transaction-world.ts'
import type { MemoryRules } from './memory-rules.ts'
import { memoryTransactionWorld } from './memory-transaction-world.ts'

/** Broken transactions, by the scenario that must notice. */
export const transactionMutants: readonly Mutant<OpenTransactionWorld>[] = [
  { name: 'all worlds are one', caughtBy: 'the fixture is what it says it is', open: sharedWorld() },
  ...broken('what a handler wrote and returned is committed, and the message acked', {
    'nothing is ever committed': { commits: false },
    'events lose their order': { keepsOrder: false },
  }),
  ...broken('a handler that fails leaves no trace: no write, no event', {
    'a failure commits what there is': { rollsBack: false },
  }),
  ...broken('each attempt of a retry has a transaction of its own', {
    'a rollback leaves the changes for the next attempt': { separatesTransactions: false },
  }),
  ...broken('everything is committed when the broker gets the ack', {
    'the ack does not wait for the commit': { commitsFirst: false },
  }),
  ...broken('an ack inside the handler waits for the commit', {
    'verdicts are not held': { holdsVerdicts: false },
  }),
  ...broken('an ack inside a handler that fails is forgotten', {
    'verdicts are not held': { holdsVerdicts: false },
    'a rollback carries acks out': { tellsOutcome: false },
  }),
  ...broken('code that asks for the ambient context is inside of the transaction too', {
    'the ambient context is the one outside': { entersContext: false },
  }),
  ...broken('messages that are handled at once have transactions of their own', {
    'all transactions are one': { separatesTransactions: false },
  }),
  ...broken('a commit that fails is a nack, and nothing is there', {
    'the failure of a commit is swallowed': { reportsCommitFailure: false },
    'events are stored outside of the transaction': { storesInTransaction: false },
    'the message is recorded outside of the transaction': { recordsInTransaction: false },
  }),
  ...broken('a nack inside the handler rolls back', {
    'rollback-only is ignored': { honoursRefusals: false },
    'events are stored outside of the transaction': { storesInTransaction: false },
  }),
  ...broken('a reject inside the handler rolls back, and stays a reject', {
    'rollback-only is ignored': { honoursRefusals: false },
  }),
  ...broken('a handler that exceeds its time is rolled back, even if it then succeeds', {
    'the signal is ignored': { honoursSignal: false },
  }),
  ...broken('a handler that is aborted by a forced stop is rolled back', {
    'the signal is ignored': { honoursSignal: false },
  }),
  ...broken('after a failed write that the handler hides, everything is committed or nothing is', {
    'a COMMIT that answers ROLLBACK is taken for a commit': { reportsAbortedCommit: false },
  }),
  ...broken('a write after the transaction has ended is refused, whether it was committed or rolled back', {
    'the handle outlives its transaction': { revokesHandle: false },
  }),
  ...broken('a write that nobody awaits is part of the commit, or refused', {
    'the commit does not wait for writes': { awaitsWrites: false },
  }),
  ...broken('a write that nobody awaits is rolled back with the rest', {
    'the rollback does not wait for writes': { awaitsWrites: false },
  }),
  ...broken('afterCommit runs after the commit, outside of the transaction, and before the ack', {
    'callbacks run before the commit': { commitsFirst: false },
    'the ack does not wait for them': { holdsVerdicts: false },
  }),
  ...broken('afterRollback runs after a rollback, and afterCommit does not', {
    'callbacks are told of a commit': { tellsOutcome: false },
  }),
  ...broken('a transaction inside of a transaction that fails is undone alone', {
    'the inner one is a part of the outer one': { hasSavepoints: false },
  }),
  ...broken('a transaction inside of a transaction commits with it, and not before', {
    'the inner one commits by itself': { savepointsWait: false },
  }),
  ...broken('transactions inside of a transaction that run at once are kept or undone each by itself', {
    'one that is rolled back takes others along': { savepointsTakeTurns: false },
  }),
  ...broken('a handler that commits by hand and then fails leaves no trace, and its message is handled when it comes again', {
    'a handler can commit': { refusesControl: false },
  }),
]

/** Broken inboxes, by the scenario that must notice. */
export const inboxMutants: readonly Mutant<OpenTransactionWorld>[] = [
  ...broken('a message is handled once, however often it comes', {
    'there is no inbox': { remembers: false },
  }),
  ...broken('of 50 duplicates at once one takes effect', {
    'there is a gap between looking and recording': { recordsAtOnce: false },
  }),
  ...broken('a message whose handling was rolled back is handled when it comes again', {
    'the message is recorded outside of the transaction': { recordsInTransaction: false },
    'a nack does not roll the record back': { honoursRefusals: false },
  }),
  ...broken('a message that is still being handled is not done: its duplicate is not acked before, and counts if it fails', {
    'a message that was begun counts as done': { recordsInTransaction: false },
  }),
  ...broken('another consumer handles the same message too', {
    'the key has no consumer': { inboxKey: (_, source, id) => JSON.stringify([source, id]) },
  }),
  ...broken('the same id from another source is another message', {
    'the key has no source': { inboxKey: (consumer, _, id) => JSON.stringify([consumer, id]) },
  }),
  ...broken('ids that differ in case are different', {
    'ids are compared without case': { inboxKey: (...parts) => JSON.stringify(parts).toLowerCase() },
  }),
  ...broken('ids that differ in a trailing blank are different', {
    'ids are padded': { inboxKey: (consumer, source, id) => JSON.stringify([consumer, source, id.trimEnd()]) },
  }),
  ...broken('ids that differ in their bytes and look the same are different', {
    'ids are normalised': { inboxKey: (...parts) => JSON.stringify(parts).normalize('NFC') },
  }),
  ...broken('source and id are told apart, wherever one ends and the other begins', {
    'the key is joined by colons': { inboxKey: (...parts) => parts.join(':') },
  }),
  ...broken("a duplicate is acked under 'onSuccess'", {
    'a duplicate is an error': { acceptsDuplicates: false },
  }),
  ...broken("a duplicate is acked under 'manual'", {
    'a duplicate is left to the router': { acksDuplicates: false },
  }),
  ...broken("a duplicate is acked under 'forward'", {
    'a duplicate is an error': { acceptsDuplicates: false },
  }),
  ...broken('a message without an id is refused for good, before its handler', {
    'it is handled as if it were new': { refusesMissingId: false },
  }),
  ...broken('an odd id is handled once or refused for good: never lost, never handled twice', {
    'ids are cut at 255': { inboxKey: (consumer, source, id) => JSON.stringify([consumer, source, id.slice(0, 255)]) },
    'ids are encoded, and half characters become one': { inboxKey: (...parts) => Buffer.from(parts.join('\n')).toString() },
  }),
  ...broken('events have ids that follow from the message, the same in each attempt', {
    'ids are random': { givesIds: false },
  }),
  ...broken('events are complete: with type, source, time and what correlates them', {
    'attributes are lost': { keepsAttributes: false },
  }),
]

function broken(caughtBy: string, mutants: Readonly<Record<string, Partial<MemoryRules>>>): Mutant<OpenTransactionWorld>[] {
  return Object.entries(mutants).map(([name, rules]) => ({ name, caughtBy, open: memoryTransactionWorld(rules) }))
}

function sharedWorld(): OpenTransactionWorld {
  let only: ReturnType<OpenTransactionWorld> | undefined
  return () => {
    only ??= memoryTransactionWorld()()
    return only
  }
}
