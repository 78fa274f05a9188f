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
  logsChanges: true,
  survivesThrow: true,
  limitsPublish: true,
  stopsGracefully: true,
  stopsIdle: true,
  startsOnce: true,
}
