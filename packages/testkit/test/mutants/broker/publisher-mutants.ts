import { systemRuntime } from '@ackord/core'
import type { OpenBrokerWorld } from '../../../src/suites/broker/broker-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { brokenBroker } from './decorated-broker.ts'

/** Publishers with one defect each, and the scenario that must catch it. */
export const publisherMutants: readonly Mutant<OpenBrokerWorld>[] = [
  ...brokenBroker('there is one result per message, in their order, and what is no bytes fails for good and alone', {
    'results come in reverse order': { results: (results) => [...results].reverse() },
    'failures are omitted': { results: (results) => results.filter(({ ok }) => ok) },
    'one failure fails the whole call': { results: (results) => (results.every(({ ok }) => ok) ? results : results.map(() => failure)) },
    'the failure is not permanent': {
      results: (results) => results.map((result) => (result.ok ? result : { ...result, permanent: false })),
    },
  }),
  ...brokenBroker('a call without messages has no results', {
    'there is always one result': { results: (results) => (results.length === 0 ? [{ ok: true }] : results) },
  }),
  ...brokenBroker('what is confirmed is there, from many calls at once', {
    'the last message of a call is not stored': { store: (messages) => (messages.length === 10 ? messages.slice(0, 9) : messages) },
  }),
  ...brokenBroker('publishing settles no message', {
    'published messages are acked': { settlesPublished: true },
  }),
  ...brokenBroker('a call whose signal was aborted before rejects with its reason and sends nothing', {
    'the signal is ignored': { onAbort: 'while publishing' },
  }),
  ...brokenBroker('a call that is aborted on its way ends, blames no message, and confirms only what is there', {
    'messages that were not sent are confirmed': { onAbort: 'confirms' },
    'the failure is permanent': { onAbort: 'blames messages' },
  }),
  ...brokenBroker('disposing waits for what is being published, and afterwards publishing is refused', {
    'dispose does not wait': { publisherWaits: false },
  }),
  ...brokenBroker('a destination that is missing is the fault of the destination, not of the messages', {
    'the destination is created': { refusesMissing: false },
    'the failure is that of the messages': {
      results: (results) => results,
      refusesMissing: false,
      store: () => [],
      isTooLarge: () => true,
    },
  }),
  ...brokenBroker('a message that is too large fails for good, and those beside it arrive', {
    'the message is accepted': { isTooLarge: () => false },
    'the failure is that of the destination': {
      results: (results) => results.map((result) => (result.ok ? result : { ...result, scope: 'destination' })),
    },
  }),
  ...brokenBroker('a message that is published again is dropped, and one of another source with its id is not', {
    'repeated messages are kept': { identity: () => systemRuntime.uuid() },
    'messages are identified by the id alone': { identity: ({ id }) => String(id) },
  }),
]

const failure = { ok: false, error: new Error('one of them failed'), permanent: true } as const
