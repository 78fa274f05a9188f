import type { MetricLabels } from './metrics.ts'

/** The description of a metric, for registries that need kind, unit, buckets and description of each before its first value. */
export interface MetricDescription {
  /** By the method of `Metrics` that receives it: `count()`, `gauge()` or `observe()`. */
  readonly kind: 'counter' | 'gauge' | 'histogram'
  /** `milliseconds`: the port receives milliseconds; registries export seconds. Default: a number without a unit. */
  readonly unit?: 'milliseconds' | undefined
  /** One sentence. */
  readonly help: string
  /** The names of its labels, with their values; `any` if these are names of the user. */
  readonly labels: Readonly<Record<string, readonly string[] | 'any'>>
  /** The upper bounds of a histogram, in the unit that is exported: seconds for durations. */
  readonly buckets?: readonly number[] | undefined
  /** Who emits it. */
  readonly from: MetricOrigin
}

type MetricOrigin = 'router' | 'inbox' | 'relay' | 'store' | 'tenants' | 'luaOutbox' | 'process'

/** Seconds. From a statement on a local database to a publish that waits for a slow broker. */
const callBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const
/** Seconds. From a wake-up that comes at once to an outage of a day. */
const delayBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 86_400] as const
const sizeBuckets = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000] as const

const none = {} as const
const byDestination = { destination: 'any' } as const
const byConsumer = { consumer: 'any' } as const
const states = ['ready', 'waiting', 'leased', 'parked', 'published'] as const
const parkReasons = ['permanent', 'attempts', 'unsettled', 'expired', 'unmapped', 'behind'] as const
const verdicts = ['acked', 'nacked', 'rejected'] as const

type CounterName =
  | 'ackord.messages'
  | 'ackord.outputs'
  | 'ackord.settled'
  | 'ackord.settle_failed'
  | 'ackord.store.pauses'
  | 'ackord.fairness.limited'
  | 'ackord.fairness.returned'
  | 'ackord.fairness.limiter_failures'
  | 'ackord.tenants.failures'
  | 'ackord.inbox.handled'
  | 'ackord.inbox.duplicates'
  | 'ackord.inbox.busy'
  | 'ackord.transaction.retries'
  | 'ackord.group.dissolved'
  | 'ackord.batch.rolled_back'
  | 'ackord.cleanup.deleted'
  | 'ackord.outbox.published'
  | 'ackord.outbox.failed'
  | 'ackord.outbox.parked'
  | 'ackord.outbox.released'
  | 'ackord.outbox.lease_lost'
  | 'ackord.outbox.dead_letters'
  | 'ackord.outbox.dead_letters_failed'
  | 'ackord.outbox.attempts'
  | 'ackord.outbox.unreadable'
  | 'ackord.outbox.trimmed'
  | 'ackord.outbox.enqueued'
  | 'ackord.outbox.script_reloads'
  | 'ackord.outbox.cancelled'
  | 'ackord.outbox.rearmed'
  | 'ackord.outbox.discarded'
  | 'ackord.outbox.retention'
  | 'ackord.outbox.quarantined'
  | 'ackord.outbox.orphans'
  | 'ackord.outbox.repaired'
  | 'ackord.outbox.expiry'
  | 'ackord.outbox.revoked'
  | 'ackord.outbox.durability_violations'

type GaugeName =
  | 'ackord.in_flight'
  | 'ackord.fairness.waiting'
  | 'ackord.fairness.throttled'
  | 'ackord.tenants.open'
  | 'ackord.outbox.destination_down'
  | 'ackord.outbox.store_down'
  | 'ackord.outbox.lag'
  | 'ackord.outbox.destination_lag'
  | 'ackord.outbox.records'
  | 'ackord.outbox.expiry_lag'
  | 'ackord.build_info'

type HistogramName =
  | 'ackord.duration'
  | 'ackord.group.size'
  | 'ackord.batch.size'
  | 'ackord.outbox.batch_size'
  | 'ackord.outbox.claim_duration'
  | 'ackord.outbox.settle_duration'
  | 'ackord.outbox.publish_duration'
  | 'ackord.outbox.delivery_delay'
  | 'ackord.outbox.delivery_duration'
  | 'ackord.outbox.script_duration'

export type MetricName = CounterName | GaugeName | HistogramName

/** Every metric of Ackord, by its name at the port. A metric that is missing here does not compile where it is emitted. */
export const metricTable: Readonly<Record<MetricName, MetricDescription>> = {
  'ackord.messages': {
    kind: 'counter',
    help: 'Messages that the handlers have processed.',
    labels: { type: 'any', outcome: ['handled', 'failed'] },
    from: 'router',
  },
  'ackord.duration': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Duration of processing a message, from the outermost middleware on.',
    labels: { type: 'any', outcome: ['handled', 'failed'] },
    buckets: callBuckets,
    from: 'router',
  },
  'ackord.outputs': {
    kind: 'counter',
    help: 'Messages that handlers returned, by the type of the input.',
    labels: { type: 'any' },
    from: 'router',
  },
  'ackord.in_flight': { kind: 'gauge', help: 'Messages that are being processed.', labels: none, from: 'router' },
  'ackord.settled': {
    kind: 'counter',
    help: 'Messages that were acked, nacked or rejected.',
    labels: { verdict: verdicts },
    from: 'router',
  },
  'ackord.settle_failed': {
    kind: 'counter',
    help: 'Verdicts that the broker did not accept; it redelivers the messages.',
    labels: { verdict: [...verdicts, 'none'] },
    from: 'router',
  },
  'ackord.store.pauses': {
    kind: 'counter',
    help: 'Times that a router stopped reading because its store refused writes.',
    labels: none,
    from: 'router',
  },
  'ackord.fairness.waiting': {
    kind: 'gauge',
    help: 'Messages that wait in a router with fairness for a slot or for the limits of their tenants.',
    labels: none,
    from: 'router',
  },
  'ackord.fairness.throttled': {
    kind: 'gauge',
    help: 'Those of them whose tenants are at a limit.',
    labels: none,
    from: 'router',
  },
  'ackord.fairness.limited': {
    kind: 'counter',
    help: 'Times that the next message of a tenant had to wait for the limit.',
    labels: { limit: ['rate', 'concurrency'] },
    from: 'router',
  },
  'ackord.fairness.returned': {
    kind: 'counter',
    help: 'Messages that were nacked with a delay because too many waited for the limits of their tenants.',
    labels: none,
    from: 'router',
  },
  'ackord.fairness.limiter_failures': {
    kind: 'counter',
    help: 'Calls of the rate limiter that failed or were not answered in time.',
    labels: none,
    from: 'router',
  },
  'ackord.tenants.open': {
    kind: 'gauge',
    help: 'Databases of tenants that are open, being opened or being closed.',
    labels: none,
    from: 'tenants',
  },
  'ackord.tenants.failures': {
    kind: 'counter',
    help: 'Messages and requests that failed because the database of their tenant could not be used. Those that were refused during a back-off are not counted.',
    labels: none,
    from: 'tenants',
  },
  'ackord.inbox.handled': {
    kind: 'counter',
    help: 'Messages that were handled, counted when their transaction has committed.',
    labels: byConsumer,
    from: 'inbox',
  },
  'ackord.inbox.duplicates': {
    kind: 'counter',
    help: 'Messages that were acked without being handled, because they had been handled before.',
    labels: byConsumer,
    from: 'inbox',
  },
  'ackord.inbox.busy': {
    kind: 'counter',
    help: 'Messages that were postponed because another worker was handling them.',
    labels: byConsumer,
    from: 'inbox',
  },
  'ackord.transaction.retries': {
    kind: 'counter',
    help: 'Transactions that were repeated after a conflict with another one.',
    labels: none,
    from: 'store',
  },
  'ackord.group.size': { kind: 'histogram', help: 'Messages per group commit.', labels: none, buckets: sizeBuckets, from: 'store' },
  'ackord.group.dissolved': {
    kind: 'counter',
    help: 'Groups of which a message failed, so that each message was handled in a transaction of its own.',
    labels: none,
    from: 'store',
  },
  'ackord.batch.size': {
    kind: 'histogram',
    help: 'Messages per committed batch of a batch handler.',
    labels: { type: 'any' },
    buckets: sizeBuckets,
    from: 'store',
  },
  'ackord.batch.rolled_back': {
    kind: 'counter',
    help: 'Batches that were rolled back, and whose messages were handled in smaller parts.',
    labels: { type: 'any' },
    from: 'store',
  },
  'ackord.cleanup.deleted': {
    kind: 'counter',
    help: 'Rows that the cleanup has deleted.',
    labels: { table: ['inbox', 'outbox', 'idempotency', 'process'] },
    from: 'store',
  },
  'ackord.outbox.published': { kind: 'counter', help: 'Records that were published and settled.', labels: byDestination, from: 'relay' },
  'ackord.outbox.failed': {
    kind: 'counter',
    help: 'Attempts that failed; their records are tried again.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.parked': {
    kind: 'counter',
    help: 'Records that were parked, and wait to be re-armed or discarded.',
    labels: { ...byDestination, reason: parkReasons },
    from: 'relay',
  },
  'ackord.outbox.released': {
    kind: 'counter',
    help: 'Claimed records that were returned without an attempt, as when the relay stops.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.lease_lost': {
    kind: 'counter',
    help: 'Records whose lease had expired before they were settled; another relay may have published them too.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.dead_letters': {
    kind: 'counter',
    help: 'Copies of parked records that the dead letter accepted.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.dead_letters_failed': {
    kind: 'counter',
    help: 'Parked records of which the dead letter accepted no copy.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.attempts': { kind: 'counter', help: 'Records that were passed to the publisher.', labels: byDestination, from: 'relay' },
  'ackord.outbox.destination_down': {
    kind: 'gauge',
    help: '1 while the destination is paused after a failure, else 0.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.store_down': { kind: 'gauge', help: '1 while the store fails or does not answer, else 0.', labels: none, from: 'relay' },
  'ackord.outbox.lag': {
    kind: 'gauge',
    unit: 'milliseconds',
    help: 'Age of the oldest record that is neither published nor parked, by the clock of the store.',
    labels: none,
    from: 'relay',
  },
  'ackord.outbox.destination_lag': {
    kind: 'gauge',
    unit: 'milliseconds',
    help: 'Age of the oldest record of a destination that is neither published nor parked, by the clock of the store.',
    labels: byDestination,
    from: 'relay',
  },
  'ackord.outbox.records': {
    kind: 'gauge',
    help: 'Records in the store, at the last count.',
    labels: { ...byDestination, state: states },
    from: 'relay',
  },
  'ackord.outbox.batch_size': { kind: 'histogram', help: 'Records per claim.', labels: none, buckets: sizeBuckets, from: 'relay' },
  'ackord.outbox.claim_duration': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Duration of a claim.',
    labels: none,
    buckets: callBuckets,
    from: 'relay',
  },
  'ackord.outbox.settle_duration': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Duration of settling a batch.',
    labels: none,
    buckets: callBuckets,
    from: 'relay',
  },
  'ackord.outbox.publish_duration': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Duration of one call of the publisher.',
    labels: byDestination,
    buckets: callBuckets,
    from: 'relay',
  },
  'ackord.outbox.delivery_delay': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Time from storing a record to the confirmation of the broker, by the clock of the store.',
    labels: byDestination,
    buckets: delayBuckets,
    from: 'relay',
  },
  'ackord.outbox.unreadable': {
    kind: 'counter',
    help: 'Records whose content could not be read; they are parked.',
    labels: byDestination,
    from: 'store',
  },
  'ackord.outbox.trimmed': {
    kind: 'counter',
    help: 'Records of a stream outbox that were deleted by something else before they were published.',
    labels: byDestination,
    from: 'store',
  },
  'ackord.outbox.enqueued': {
    kind: 'counter',
    help: 'Records that were passed to the Lua outbox, by what became of them.',
    labels: { result: 'any' },
    from: 'luaOutbox',
  },
  'ackord.outbox.delivery_duration': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Time from storing a record in the Lua outbox to its settlement as published, by the clock of Redis.',
    labels: none,
    buckets: delayBuckets,
    from: 'luaOutbox',
  },
  'ackord.outbox.script_duration': {
    kind: 'histogram',
    unit: 'milliseconds',
    help: 'Duration of a script of the Lua outbox, including the round trip.',
    labels: { script: 'any' },
    buckets: callBuckets,
    from: 'luaOutbox',
  },
  'ackord.outbox.script_reloads': {
    kind: 'counter',
    help: 'Scripts that were loaded again because Redis no longer had them.',
    labels: none,
    from: 'luaOutbox',
  },
  'ackord.outbox.cancelled': {
    kind: 'counter',
    help: 'Records that were cancelled before they were published.',
    labels: none,
    from: 'luaOutbox',
  },
  'ackord.outbox.rearmed': { kind: 'counter', help: 'Records that an operator has re-armed.', labels: none, from: 'luaOutbox' },
  'ackord.outbox.discarded': { kind: 'counter', help: 'Records that an operator has discarded.', labels: none, from: 'luaOutbox' },
  'ackord.outbox.retention': {
    kind: 'counter',
    help: 'Published records that were deleted after their retention.',
    labels: none,
    from: 'luaOutbox',
  },
  'ackord.outbox.quarantined': {
    kind: 'counter',
    help: 'Records that were parked because their content was missing or broken.',
    labels: none,
    from: 'luaOutbox',
  },
  'ackord.outbox.orphans': { kind: 'counter', help: 'Index entries without a record that were removed.', labels: none, from: 'luaOutbox' },
  'ackord.outbox.repaired': {
    kind: 'counter',
    help: 'Inconsistencies that a repair has removed.',
    labels: { class: 'any' },
    from: 'luaOutbox',
  },
  'ackord.outbox.expiry': {
    kind: 'counter',
    help: 'Expiries that were due, by the decision about them.',
    labels: { decision: ['enqueued', 'duplicate', 'revoked', 'not_due', 'parked'] },
    from: 'luaOutbox',
  },
  'ackord.outbox.expiry_lag': {
    kind: 'gauge',
    unit: 'milliseconds',
    help: 'How late the oldest expiry of the last round was.',
    labels: none,
    from: 'luaOutbox',
  },
  'ackord.outbox.revoked': {
    kind: 'counter',
    help: 'Expiries that were revoked.',
    labels: { result: ['revoked', 'duplicate', 'expired'] },
    from: 'luaOutbox',
  },
  'ackord.outbox.durability_violations': {
    kind: 'counter',
    help: 'Settings of Redis that can lose committed records, at each check.',
    labels: { check: 'any' },
    from: 'luaOutbox',
  },
  'ackord.build_info': {
    kind: 'gauge',
    help: 'Always 1; the label is the version of Ackord.',
    labels: { version: 'any' },
    from: 'process',
  },
}

/** The metrics port, limited to the names in the table, each with its method. */
export interface DescribedMetrics {
  count(name: CounterName, amount: number, labels: MetricLabels): void
  observe(name: HistogramName, value: number, labels: MetricLabels): void
  gauge(name: GaugeName, value: number, labels: MetricLabels): void
}
