import { systemRuntime } from '@ackord/core'
import type { Mutant } from '../run/scenario.ts'
import type { OpenBrokerWorld } from '../suites/broker/broker-world.ts'
import { brokenBroker } from './ruled-broker-world.ts'

/** Publishers that break their word to whoever has something to say, each with the scenario that must notice. */
export const publisherMutants: readonly Mutant<OpenBrokerWorld>[] = [
  ...brokenBroker('there is one result per message, in their order, and what is no bytes fails for good and alone', {
    'results come the other way round': { results: (results) => [...results].reverse() },
    'failures are left out': { results: (results) => results.filter(({ ok }) => ok) },
    'one that fails fails all': { results: (results) => (results.every(({ ok }) => ok) ? results : results.map(() => failure)) },
    'it may be tried again': { results: (results) => results.map((result) => (result.ok ? result : { ...result, permanent: false })) },
  }),
  ...brokenBroker('a call without messages has no results', {
    'there is always one': { results: (results) => (results.length === 0 ? [{ ok: true }] : results) },
  }),
  ...brokenBroker('what is confirmed is there, from many calls at once', {
    'the last one of a call is not there': { store: (messages) => (messages.length === 10 ? messages.slice(0, 9) : messages) },
  }),
  ...brokenBroker('publishing settles no message', {
    'what is published is acked': { settlesPublished: true },
  }),
  ...brokenBroker('a call whose signal was aborted before rejects with its reason and sends nothing', {
    'the signal is ignored': { heedsAbort: 'on the way' },
  }),
  ...brokenBroker('a call that is aborted on its way ends, blames no message, and confirms only what is there', {
    'what was not sent is confirmed': { heedsAbort: 'confirms' },
    'it counts as the fault of the messages': { heedsAbort: 'blames messages' },
  }),
  ...brokenBroker('disposing waits for what is being published, and afterwards publishing is refused', {
    'it does not wait': { publisherWaits: false },
  }),
  ...brokenBroker('a destination that is missing is the fault of the destination, not of the messages', {
    'it is made': { refusesMissing: false },
    'it is the fault of the messages': { results: (results) => results, refusesMissing: false, store: () => [], isTooLarge: () => true },
  }),
  ...brokenBroker('a message that is too large fails for good, and those beside it arrive', {
    'it is taken': { isTooLarge: () => false },
    'it is the fault of the destination': {
      results: (results) => results.map((result) => (result.ok ? result : { ...result, scope: 'destination' })),
    },
  }),
  ...brokenBroker('a message that is published again is dropped, and one of another source with its id is not', {
    'repeats are kept': { identity: () => systemRuntime.uuid() },
    'the id is enough': { identity: ({ id }) => String(id) },
  }),
]

const failure = { ok: false, error: new Error('one of them failed'), permanent: true } as const
