/** What a relay must do, one by one. All true is right; a mutant turns one off. */
export interface RelayRules {
  /** Off: records are settled before they are published. */
  readonly publishesFirst: boolean
  /** Off: published records are left leased. */
  readonly settles: boolean
  /** Off: every batch is sent twice. */
  readonly sendsOnce: boolean
  /** Off: everything goes to one destination. */
  readonly heedsDestination: boolean
  /** Leases are renewed while publishing. */
  readonly renews: boolean
  /** Permanent failures are parked at once. */
  readonly parks: boolean
  /** Off: a record is tried for ever. */
  readonly limitsAttempts: boolean
  /** Off: a failed record is tried again at once. */
  readonly backsOff: boolean
  /** Off: a batch of which anything was confirmed counts as published. */
  readonly looksAtEachResult: boolean
  /** A failure of the destination costs no attempt. */
  readonly sparesAttempts: boolean
  /** A destination that failed is left alone for a while. */
  readonly pauses: boolean
  /** Off: a pause of one destination is a pause of all. */
  readonly pausesAlone: boolean
  /** Off: a record that fails while others of its destination pass is taken for a failure of the destination, for ever. */
  readonly tellsRecords: boolean
  /** Off: the next claim waits until all destinations of a batch have answered. */
  readonly servesApart: boolean
  /** Off: every failure of a destination is logged. */
  readonly logsChanges: boolean
  /** Off: what the publisher throws ends the relay. */
  readonly survivesThrow: boolean
  /** Off: a publish may take for ever. */
  readonly limitsPublish: boolean
  /** Off: a stop does not wait. */
  readonly stopsGracefully: boolean
  /** Off: a stop before the start waits for ever. */
  readonly stopsIdle: boolean
  /** Off: a second start is a second run. */
  readonly startsOnce: boolean
  /** Off: a stop waits for a publish for as long as it takes. */
  readonly stopsInTime: boolean
  /** Off: what has no outcome stays leased after a stop. */
  readonly givesBack: boolean
  /** Off: a stop waits for the store for as long as it takes. */
  readonly leavesStore: boolean
  /** Off: nothing is sent to the dead letter. */
  readonly sendsLetters: boolean
  /** Off: the copy has an id of its own. */
  readonly lettersKeepId: boolean
  /** Off: records are parked before the dead letter has the copy. */
  readonly lettersFirst: boolean
  /** Off: without a copy a record is tried again. */
  readonly parksWithoutLetter: boolean
  /** Off: a parked record does not say that there is no copy of it. */
  readonly tellsMissingLetter: boolean
  /** Off: a dead letter may take for ever. */
  readonly limitsLetter: boolean
  /** Off: all that is published waits to be settled until the dead letter has answered. */
  readonly settlesBesideLetter: boolean
  /** Off: one publisher gets everything. */
  readonly routes: boolean
  /** Off: it claims what it has no publisher for, and parks it. */
  readonly claimsOwn: boolean
  /** Off: what has expired is published. */
  readonly heedsExpiry: boolean
  /** Off: what has expired is gone without a word. */
  readonly parksExpired: boolean
}

export const relayRules: RelayRules = {
  publishesFirst: true,
  settles: true,
  sendsOnce: true,
  heedsDestination: true,
  renews: true,
  parks: true,
  limitsAttempts: true,
  backsOff: true,
  looksAtEachResult: true,
  sparesAttempts: true,
  pauses: true,
  pausesAlone: true,
  tellsRecords: true,
  servesApart: true,
  logsChanges: true,
  survivesThrow: true,
  limitsPublish: true,
  stopsGracefully: true,
  stopsIdle: true,
  startsOnce: true,
  stopsInTime: true,
  givesBack: true,
  leavesStore: true,
  sendsLetters: true,
  lettersKeepId: true,
  lettersFirst: true,
  parksWithoutLetter: true,
  tellsMissingLetter: true,
  limitsLetter: true,
  settlesBesideLetter: true,
  routes: true,
  claimsOwn: true,
  heedsExpiry: true,
  parksExpired: true,
}
