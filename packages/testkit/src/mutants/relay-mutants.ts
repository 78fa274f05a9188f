import type { Mutant } from '../run/scenario.ts'
import { openMemoryOutboxWorld } from '../suites/outbox/outbox-world.ts'
import type { RelayPorts } from '../suites/relay/relay-world.ts'
import { type RelayRules, relayRules } from './relay-rules.ts'
import { RuledRelay } from './ruled-relay.ts'

/** Broken relays, by the scenario that must notice. */
export const relayMutants: readonly Mutant<RelayPorts>[] = [
  ...broken('every committed record is published once, where it belongs', {
    'every batch is sent twice': { sendsOnce: false },
    'there is one destination for all': { heedsDestination: false },
  }),
  ...broken('a relay that is killed while it publishes loses nothing', {
    'records are settled before they are published': { publishesFirst: false },
  }),
  ...broken('a relay that is killed after publishing, before settling, leaves a duplicate with the same id and loses nothing', {
    'records are settled before they are published': { publishesFirst: false },
  }),
  ...broken('a relay that is killed after settling leaves no duplicate', {
    'published records are not settled': { settles: false },
  }),
  ...broken('a slow publish keeps its lease: no other relay sends the same', {
    'leases are not renewed': { renews: false },
  }),
  ...broken('two relays that stall at random past their lease lose nothing, and duplicate no more than the leases they lost', {
    'every batch is sent twice': { sendsOnce: false },
  }),
  ...broken('four relays that stall at random past their lease lose nothing, and duplicate no more than the leases they lost', {
    'records are settled before they are published': { publishesFirst: false },
  }),
  ...broken('a stop is over when its time is, although a publish hangs, and what has no outcome is given back', {
    'a stop waits for a publish': { stopsInTime: false },
    'what has no outcome stays leased': { givesBack: false },
  }),
  ...broken('a stop is over although publisher and store hang, and nothing is lost', {
    'a stop waits for the store': { leavesStore: false },
  }),
  ...broken('a record that is parked has a copy in the dead letter, with its id, its bytes and the reason', {
    'nothing is sent to the dead letter': { sendsLetters: false },
    'the copy has an id of its own': { lettersKeepId: false },
  }),
  ...broken('a relay that is killed before the dead letter has the copy leaves the record to the next one, which sends it', {
    'records are parked before the copy is sent': { lettersFirst: false },
  }),
  ...broken('a record is parked all the same when the dead letter does not take the copy, and says so', {
    'without a copy it is tried again': { parksWithoutLetter: false },
    'it does not say that there is no copy': { tellsMissingLetter: false },
  }),
  ...broken('a dead letter that never answers is given up, and holds up nobody else', {
    'a dead letter may take for ever': { limitsLetter: false },
    'everything waits for the dead letter': { settlesBesideLetter: false },
  }),
  ...broken('with a publisher per destination each record goes to its own, and what has none is left for other relays', {
    'one publisher gets everything': { routes: false },
    'what has no publisher is claimed and parked': { claimsOwn: false },
  }),
  ...broken('a record whose expirytime has passed is not published: it is parked, and says so', {
    'what has expired is published': { heedsExpiry: false },
    'what has expired is gone without a word': { parksExpired: false },
  }),
  ...broken('a graceful stop settles what is on its way and leaves nothing leased', {
    'stop does not wait': { stopsGracefully: false },
  }),
  ...broken('stop may come before start, twice, and while idle; start twice is one run', {
    'a second start is a second run': { startsOnce: false },
    'stop before start waits for ever': { stopsIdle: false },
  }),
  ...broken('a record that can never be published is parked at once, and the others flow', {
    'permanent failures are tried again': { parks: false },
    'one that is confirmed stands for all': { looksAtEachResult: false },
  }),
  ...broken('a record that fails again and again backs off, then is parked with its error', {
    'a record is tried for ever': { limitsAttempts: false },
    'a failed record is tried again at once': { backsOff: false },
  }),
  ...broken('of a batch exactly what was confirmed is settled as published', {
    'one that is confirmed stands for all': { looksAtEachResult: false },
  }),
  ...broken('while a broker is down it is left alone more and more, and no record loses an attempt', {
    'an outage costs attempts': { sparesAttempts: false },
    'there is no pause': { pauses: false },
    'every failure is logged': { logsChanges: false },
  }),
  ...broken('a destination that is down does not hold up the others', {
    'a pause of one is a pause of all': { pausesAlone: false },
  }),
  ...['answers', 'breaks the connection'].flatMap((how) =>
    broken(`a record for which its destination ${how} as if it were down loses attempts and is parked, and the others flow`, {
      'its failures are those of the destination': { tellsRecords: false },
    }),
  ),
  ...broken('a slow destination does not hold up the others', {
    'the next claim waits for all destinations of a batch': { servesApart: false },
  }),
  ...broken('a publisher that throws loses nothing', {
    'the relay ends at the first error': { survivesThrow: false },
  }),
  ...broken('a publish that never answers is given up, with its signal aborted, and tried again', {
    'a publish may take for ever': { limitsPublish: false },
  }),
]

/** A relay that breaks these rules, on the in-memory store; with none it is right. */
export function ruledRelayPorts(broken: Partial<RelayRules> = {}): RelayPorts {
  const rules = { ...relayRules, ...broken }
  return { openStore: openMemoryOutboxWorld, createRelay: (store, setup) => new RuledRelay(store, setup, rules) }
}

function broken(caughtBy: string, mutants: Readonly<Record<string, Partial<RelayRules>>>): Mutant<RelayPorts>[] {
  return Object.entries(mutants).map(([name, rules]) => ({ name, caughtBy, open: ruledRelayPorts(rules) }))
}
