import { Message } from '@ackord/core'
import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld } from '../suites/outbox/outbox-world.ts'
import { brokenOutbox } from './ruled-outbox-world.ts'

/** Stores that lose, mix up or keep too early what is appended. */
export const appendMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...brokenOutbox('the fixture is what it says it is', {
    'the second store has its own data': { sharesData: false },
  }),
  ...brokenOutbox('a committed record can be claimed, as it was given', {
    'nothing is stored': { storeAll: () => [] },
    'the destination is fixed': { store: (record) => ({ ...record, destination: 'orders' }) },
    'the store gives its own message ids': {
      store: ({ message, ...record }) => ({ ...record, message: new Message(message.data, { ...message.attributes, id: 'own' }) }),
    },
  }),
  ...brokenOutbox('a record cannot be claimed before its transaction commits', {
    'append does not wait for the commit': { appendsInTransaction: false },
  }),
  ...brokenOutbox('an append that is rolled back leaves nothing', {
    'append is outside of the transaction': { appendsInTransaction: false },
  }),
  ...brokenOutbox('append refuses a transaction that has ended', {
    'a late append is stored by itself': { refusesEndedTransactions: false },
  }),
  ...brokenOutbox('appending nothing is allowed and stores nothing', {
    'an empty list is an error': { refusesEmptyLists: true },
  }),
  ...brokenOutbox('an append is stored whole or not at all', {
    'records are stored one by one': { appendsWhole: false },
  }),
  ...brokenOutbox('records of a destination are claimed in the order they were appended', {
    'the newest comes first': { scan: (rows) => rows.toReversed() },
    'an append is stored back to front': { storeAll: (records) => records.toReversed() },
  }),
  ...brokenOutbox('what was appended in a savepoint that is rolled back is gone, the rest stays', {
    'savepoints are ignored': { honoursSavepoints: false },
  }),
  ...brokenOutbox('what was appended in a savepoint that is released commits with the transaction', {
    'a released savepoint commits by itself': { honoursSavepoints: false },
  }),
  ...brokenOutbox('a delayed record waits for its time, and others do not wait for it', {
    'the delay is ignored': { store: (record) => ({ ...record, delay: 0 }) },
    'the head of the table holds up the rest': { scan: (rows) => rows.slice(0, 1) },
  }),
]
