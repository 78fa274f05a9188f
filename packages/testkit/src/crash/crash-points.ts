/** A probe between two steps of the way of a message, and what a kill there may leave behind. */
export interface CrashPoint {
  /** As the sources call it: `probe('relay.published')`. */
  readonly name: string
  /**
   * Whether events come to the broker a second time. The relay has one batch on its way at a time, so its own points leave `none` or
   * `certain`ly some; at the points of the router nobody knows where the relay is, and there `perhaps` some are.
   */
  readonly duplicates: 'none' | 'perhaps' | 'certain'
}

/** All probes between receive and ack, and between claim and settle, in the order of the way. A test compares them with the sources. */
export const crashPoints: readonly CrashPoint[] = [
  { name: 'message.received', duplicates: 'perhaps' },
  { name: 'transaction.begun', duplicates: 'perhaps' },
  { name: 'inbox.recorded', duplicates: 'perhaps' },
  { name: 'message.handled', duplicates: 'perhaps' },
  { name: 'outbox.appended', duplicates: 'perhaps' },
  { name: 'transaction.beforeCommit', duplicates: 'perhaps' },
  { name: 'transaction.afterCommit', duplicates: 'perhaps' },
  { name: 'message.beforeAck', duplicates: 'perhaps' },
  { name: 'message.afterAck', duplicates: 'perhaps' },
  { name: 'relay.claimed', duplicates: 'none' },
  { name: 'relay.published', duplicates: 'certain' },
  { name: 'relay.beforeSettle', duplicates: 'certain' },
  { name: 'relay.afterSettle', duplicates: 'none' },
]

/** Where a service is killed, and which time that it gets there, from 1. */
export interface Kill {
  readonly point: CrashPoint
  readonly hit: number
}
