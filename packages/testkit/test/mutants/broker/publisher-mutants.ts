import { systemRuntime } from '@ackord/core'
import type { OpenBrokerWorld } from '../../../src/suites/broker/broker-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenBroker, wrongAddresses } from './decorated-broker.ts'

/** Publishers with one defect each, and the scenario that must catch it. */
export const publisherMutants: readonly Mutant<OpenBrokerWorld>[] = [
  ...brokenBroker('returns one result per message, in order, and only messages whose data are not bytes fail permanently', {
    'results come in reverse order': { results: (results) => [...results].reverse() },
    'failures are omitted': { results: (results) => results.filter(({ ok }) => ok) },
    'one failure fails the whole call': { results: (results) => (results.every(({ ok }) => ok) ? results : results.map(() => failure)) },
    'the failure is not permanent': {
      results: (results) => results.map((result) => (result.ok ? result : { ...result, permanent: false })),
    },
  }),
  ...brokenBroker('a publish without messages has no results', {
    'there is always one result': { results: (results) => (results.length === 0 ? [{ ok: true }] : results) },
  }),
  ...brokenBroker('every confirmed message of concurrent calls is stored', {
    'the last message of a call is not stored': { store: (messages) => (messages.length === 10 ? messages.slice(0, 9) : messages) },
  }),
  ...brokenBroker('publishing settles no message', {
    'published messages are acked': { settlesPublished: true },
  }),
  ...brokenBroker('a publish whose signal is already aborted rejects with the reason and sends nothing', {
    'the signal is ignored': { onAbort: 'while publishing' },
  }),
  ...brokenBroker('a publish that is aborted while it runs ends, reports no permanent failure, and confirms only stored messages', {
    'messages that were not sent are confirmed': { onAbort: 'confirms' },
    'the failure is permanent': { onAbort: 'blames messages' },
  }),
  ...brokenBroker('dispose waits for publishes that run, and later publishes are rejected', {
    'dispose does not wait': { publisherWaits: false },
  }),
  ...brokenBroker('a publisher names its system, and its server by a valid host and port if at all', wrongAddresses),
  ...brokenBroker('a missing destination is reported as a failure of the destination, not of the messages', {
    'the destination is created': { refusesMissing: false },
    'the failure is that of the messages': {
      results: (results) => results,
      refusesMissing: false,
      store: () => [],
      isTooLarge: () => true,
    },
  }),
  ...brokenBroker('a message that is too large fails permanently, and the other messages of the call arrive', {
    'the message is accepted': { isTooLarge: () => false },
    'the failure is that of the destination': {
      results: (results) => results.map((result) => (result.ok ? result : { ...result, scope: 'destination' })),
    },
  }),
  ...brokenBroker('drops a message that is published again, but not one of another source with the same id', {
    'repeated messages are kept': { identity: () => systemRuntime.uuid() },
    'messages are identified by the id alone': { identity: ({ id }) => String(id) },
  }),
]

const failure = { ok: false, error: new Error('one of them failed'), permanent: true } as const
