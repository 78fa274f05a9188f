// @ts-check
// Each sentence of the promise and the tests that prove it. scripts/test/guarantees.test.ts checks that each of these tests exists.

/**
 * @typedef {object} Shown
 * @property {string} file relative to the root
 * @property {string} title as in the file
 *
 * @typedef {object} Sentence
 * @property {string} text as in README.md and on the page
 * @property {string} meaning the sentence in other words
 * @property {readonly Shown[]} tests
 * @property {readonly string[]} tables that prove it, by their first cell
 */

const crashPoints = 'packages/testkit/src/crash/process/crash-scenarios.ts'
const commit = 'packages/testkit/src/suites/transaction/commit-scenarios.ts'
const inbox = 'packages/testkit/src/suites/transaction/inbox-scenarios.ts'
const append = 'packages/testkit/src/suites/outbox/append-scenarios.ts'
const delivery = 'packages/testkit/src/suites/relay/delivery-scenarios.ts'
const orderOfCommits = 'packages/testkit/src/suites/ordering/commit-scenarios.ts'
const relayOrder = 'packages/testkit/src/suites/ordering/relay-order-scenarios.ts'

/** @type {readonly Sentence[]} */
export const promise = [
  {
    text: 'Atomic enqueue.',
    meaning: 'The events of a handler are stored if and only if its writes are committed.',
    tables: ['crash points', 'faults'],
    tests: [
      { file: commit, title: 'the writes and the outputs of a handler are committed, and the message is acked' },
      { file: commit, title: 'a handler that fails leaves no trace: no write, no event' },
      { file: append, title: 'a record cannot be claimed before its transaction commits' },
      { file: append, title: 'an append that is rolled back leaves no record' },
      { file: append, title: 'an append is stored completely or not at all' },
    ],
  },
  {
    text: 'At-least-once delivery.',
    meaning: 'A message is acked after its commit, and a committed event stays in the outbox until the broker has confirmed it.',
    tables: ['crash points', 'faults', 'simulation'],
    tests: [
      { file: commit, title: 'everything is committed when the broker gets the ack' },
      { file: commit, title: 'a failed commit nacks the message and stores nothing' },
      { file: delivery, title: 'a relay that is killed while it publishes loses nothing' },
      {
        file: 'packages/testkit/src/suites/relay/failure-scenarios.ts',
        title: 'exactly the confirmed records of a batch are settled as published',
      },
      {
        file: 'packages/testkit/src/suites/relay/stall-scenarios.ts',
        title: 'lose nothing, and duplicate no more than the leases they lost',
      },
    ],
  },
  {
    text: '**Exactly-once effects** on the store that holds inbox, state and outbox, inside a stated dedup window.',
    meaning: 'However often a message comes, its writes are there once, as long as the inbox remembers it.',
    tables: ['crash points', 'faults', 'simulation'],
    tests: [
      { file: inbox, title: 'a message is handled once, however often it is delivered' },
      { file: inbox, title: 'one of 50 concurrent duplicates takes effect' },
      { file: inbox, title: 'a message whose handling was rolled back is handled when it is redelivered' },
      { file: crashPoints, title: 'a service that is not killed applies every command once, publishes every event once, and stops' },
      { file: crashPoints, title: 'killed at every point in turn' },
      {
        file: 'packages/sql/test/inbox/inbox-middleware.integration.test.ts',
        title: 'remembers messages for its window and deletes them in bounded batches',
      },
      {
        file: 'packages/redis/test/inbox/inbox-middleware.integration.test.ts',
        title: 'the retention begins with the commit, not with the first delivery',
      },
      { file: 'test/testing/crash-test.integration.test.ts', title: 'takes a right handler through every point' },
    ],
  },
  {
    text: "A crash between publish and settle can put a duplicate on the broker, always with the same message id, so that the next consumer's inbox removes it.",
    meaning: 'The only duplicates are those that a lost lease or a crash between publish and settle leaves.',
    tables: ['crash points'],
    tests: [
      {
        file: delivery,
        title: 'a relay that is killed after publishing, before settling, leaves a duplicate with the same id and loses nothing',
      },
      { file: delivery, title: 'a relay that is killed after settling leaves no duplicate' },
      { file: inbox, title: 'event ids are derived from the message and are the same in each attempt' },
      {
        file: 'packages/core/test/message/deterministic-id.test.ts',
        title: 'are the same for the same consumer, source, id, place and type, in this version and the next',
      },
    ],
  },
  {
    text: "In `perKey` order the first occurrences of a key's events are in commit order; a duplicate may come later.",
    meaning: 'Of each key, the first of every event comes to the broker in the order of the commits.',
    tables: [],
    tests: [
      { file: orderOfCommits, title: 'records of one key are claimed in the order of the commits, not of the inserts' },
      {
        file: 'packages/testkit/src/suites/ordering/run-scenarios.ts',
        title: 'no claim returns more of a key until its whole run is settled or released',
      },
      { file: relayOrder, title: 'a relay that stops hands its keys to the others immediately, without a duplicate' },
      {
        file: 'packages/testkit/src/suites/ordering/member-scenarios.ts',
        title: 'a stale owner cannot settle, renew or release',
      },
    ],
  },
  {
    text: 'External calls made by a handler are not covered.',
    meaning: 'What a handler does outside of its transaction is done again with every attempt. `crashTest()` finds it.',
    tables: [],
    tests: [
      { file: 'packages/testkit/test/crash/crash-test.test.ts', title: 'finds a handler that publishes by itself' },
      { file: 'packages/testkit/test/crash/crash-test.test.ts', title: 'finds a handler that writes past its transaction' },
      { file: 'scripts/test/documents.test.ts', title: 'say that external calls are not covered' },
    ],
  },
]
