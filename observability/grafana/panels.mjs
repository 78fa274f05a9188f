// @ts-check
// The panels of the Grafana dashboard, by row.

/**
 * @typedef {object} Query
 * @property {string} expr
 * @property {string} legend
 *
 * @typedef {object} Panel
 * @property {'timeseries' | 'stat' | 'state-timeline'} type
 * @property {string} title
 * @property {string} description
 * @property {string} unit as Grafana names it
 * @property {readonly Query[]} queries
 * @property {number} width of 24
 * @property {number | undefined} redFrom the value from which on it is red
 */

const target = 'job=~"$job", instance=~"$instance"'
const route = `${target}, destination=~"$destination"`
const window = '[$__rate_interval]'
const quantiles = /** @type {const} */ ([0.5, 0.95, 0.99])

/** @param {string} expr @param {string} legend @returns {Query} */
const query = (expr, legend) => ({ expr, legend })

/** Per second, summed by these labels. @param {string} metric @param {string} by @param {string} [labels] */
const rate = (metric, by, labels = target) => `sum by (${by}) (rate(${metric}{${labels}}${window}))`

/** @param {string} metric @param {string} by @param {string} [labels] */
const max = (metric, by, labels = target) => `max by (${by}) (${metric}{${labels}})`

/** @param {number} quantile @param {string} histogram @param {string} by @param {string} [labels] */
const percentile = (quantile, histogram, by, labels = target) =>
  `histogram_quantile(${quantile}, ${rate(`${histogram}_bucket`, by === '' ? 'le' : `le, ${by}`, labels)})`

/** @param {string} histogram @param {string} [labels] */
const percentiles = (histogram, labels) =>
  quantiles.map((quantile) => query(percentile(quantile, histogram, '', labels), `p${quantile * 100}`))

/** @param {string} title @param {string} description @param {string} unit @param {readonly Query[]} queries @param {{ redFrom?: number, width?: number }} [more] @returns {Panel} */
const timeseries = (title, description, unit, queries, { redFrom, width = 12 } = {}) => ({
  type: 'timeseries',
  title,
  description,
  unit,
  queries,
  width,
  redFrom,
})

/** @param {string} title @param {string} description @param {string} unit @param {string} expr @param {number} [redFrom] @returns {Panel} */
const stat = (title, description, unit, expr, redFrom) => ({
  type: 'stat',
  title,
  description,
  unit,
  queries: [query(expr, title)],
  width: 4,
  redFrom,
})

/** @type {readonly (readonly [row: string, panels: readonly Panel[]])[]} */
export const rows = [
  [
    'Now',
    [
      stat('Lag', 'Age of the oldest record that is neither published nor parked.', 's', `max(ackord_outbox_lag_seconds{${target}})`, 60),
      stat(
        'Backlog',
        'Records that are neither published nor parked. Relays of one store report the same number.',
        'short',
        `sum(${max('ackord_outbox_records', 'job, destination, state', `${route}, state=~"ready|waiting|leased"`)})`,
      ),
      stat(
        'Parked',
        'Records that wait to be re-armed or discarded.',
        'short',
        `sum(${max('ackord_outbox_records', 'job, destination', `${route}, state="parked"`)})`,
        1,
      ),
      stat(
        'Destinations down',
        'Destinations that are paused after a failure; their records wait.',
        'short',
        `sum(${max('ackord_outbox_destination_down', 'job, destination', route)})`,
        1,
      ),
      stat(
        'Stores down',
        'Services with a relay whose store fails or does not answer.',
        'short',
        `sum(${max('ackord_outbox_store_down', 'job')})`,
        1,
      ),
      stat(
        'Failed messages',
        'Share of the processed messages that failed.',
        'percentunit',
        `sum(rate(ackord_messages_total{${target}, outcome="failed"}${window})) / sum(rate(ackord_messages_total{${target}}${window}))`,
        0.05,
      ),
    ],
  ],
  [
    'Outbox',
    [
      timeseries(
        'Lag',
        'Age of the oldest record that is neither published nor parked, of the whole store and for each destination. See "Growing lag" in docs/guides/operating.md.',
        's',
        [
          query(max('ackord_outbox_lag_seconds', 'job'), '{{job}}, store'),
          query(max('ackord_outbox_destination_lag_seconds', 'job, destination', route), '{{job}}, {{destination}}'),
        ],
        { redFrom: 60 },
      ),
      timeseries('Published', 'Records that were published and settled, per second.', 'ops', [
        query(rate('ackord_outbox_published_total', 'job, destination', route), '{{job}}, {{destination}}'),
      ]),
      timeseries(
        'Delivery delay',
        'Time from storing a record to the confirmation of the broker. After an outage it includes the time that records waited.',
        's',
        percentiles('ackord_outbox_delivery_delay_seconds', route),
      ),
      timeseries('Delivery delay by destination', 'The 95th percentile.', 's', [
        query(percentile(0.95, 'ackord_outbox_delivery_delay_seconds', 'job, destination', route), '{{job}}, {{destination}}'),
      ]),
      timeseries(
        'Attempts and failures',
        'Records that were passed to the publisher, and attempts that failed and are repeated, per second.',
        'ops',
        [
          query(rate('ackord_outbox_attempts_total', 'job, destination', route), '{{job}}, {{destination}}: attempts'),
          query(rate('ackord_outbox_failed_total', 'job, destination', route), '{{job}}, {{destination}}: failures'),
        ],
      ),
      timeseries(
        'Records in the store',
        'By state, at the last count. Published records are in the store only if they are retained.',
        'short',
        [query(`sum by (job, state) (${max('ackord_outbox_records', 'job, destination, state', route)})`, '{{job}}, {{state}}')],
      ),
      timeseries(
        'Parked records',
        'Records that wait to be re-armed or discarded. See "Parked records" in docs/guides/operating.md.',
        'short',
        [query(max('ackord_outbox_records', 'job, destination', `${route}, state="parked"`), '{{job}}, {{destination}}')],
        { redFrom: 1 },
      ),
      timeseries('Reasons for parking', 'Records that were parked within the interval of the graph, by reason.', 'short', [
        query(`sum by (job, reason) (increase(ackord_outbox_parked_total{${route}}${window}))`, '{{job}}, {{reason}}'),
      ]),
      {
        type: 'state-timeline',
        title: 'Destinations and stores down',
        description: 'Red while a destination is paused after a failure, or a store fails or does not answer.',
        unit: 'short',
        queries: [
          query(max('ackord_outbox_destination_down', 'job, destination', route), '{{job}}, {{destination}}'),
          query(max('ackord_outbox_store_down', 'job'), '{{job}}, store'),
        ],
        width: 12,
        redFrom: 1,
      },
      timeseries('Lost leases, dead letters', 'Counts within the interval of the graph.', 'short', [
        query(
          `sum by (job, destination) (increase(ackord_outbox_lease_lost_total{${route}}${window}))`,
          '{{job}}, {{destination}}: leases lost',
        ),
        query(
          `sum by (job, destination) (increase(ackord_outbox_dead_letters_total{${route}}${window}))`,
          '{{job}}, {{destination}}: dead letters',
        ),
        query(
          `sum by (job, destination) (increase(ackord_outbox_dead_letters_failed_total{${route}}${window}))`,
          '{{job}}, {{destination}}: dead letters refused',
        ),
      ]),
    ],
  ],
  [
    'Relay',
    [
      timeseries(
        'Claim and settle',
        'The 95th percentile of the calls to the store.',
        's',
        [
          query(percentile(0.95, 'ackord_outbox_claim_duration_seconds', 'job'), '{{job}}: claim'),
          query(percentile(0.95, 'ackord_outbox_settle_duration_seconds', 'job'), '{{job}}: settle'),
        ],
        { width: 8 },
      ),
      timeseries(
        'Publish',
        'The 95th percentile of the calls to the publisher.',
        's',
        [query(percentile(0.95, 'ackord_outbox_publish_duration_seconds', 'job, destination', route), '{{job}}, {{destination}}')],
        { width: 8 },
      ),
      timeseries(
        'Records per claim',
        'The average. At the batch size of the relay there is more to do than one relay does at a time.',
        'short',
        [query(`${rate('ackord_outbox_batch_size_sum', 'job')} / ${rate('ackord_outbox_batch_size_count', 'job')}`, '{{job}}')],
        { width: 8 },
      ),
    ],
  ],
  [
    'Messages',
    [
      timeseries('Processed messages', 'Per second, by type and outcome. Recorded by metricsMiddleware().', 'ops', [
        query(rate('ackord_messages_total', 'job, type, outcome'), '{{job}}, {{type}}: {{outcome}}'),
      ]),
      timeseries(
        'Failed messages',
        'Share of the processed messages of a type that failed.',
        'percentunit',
        [
          query(
            `${rate('ackord_messages_total', 'job, type', `${target}, outcome="failed"`)} / ${rate('ackord_messages_total', 'job, type')}`,
            '{{job}}, {{type}}',
          ),
        ],
        { redFrom: 0.05 },
      ),
      timeseries(
        'Duration of processing',
        'From the outermost middleware on, including the commit.',
        's',
        percentiles('ackord_duration_seconds'),
      ),
      timeseries('Duration of processing by source', "OpenTelemetry's metric: the 95th percentile, recorded by @ackord/telemetry.", 's', [
        query(
          percentile(0.95, 'messaging_process_duration_seconds', 'job, messaging_destination_name'),
          '{{job}}, {{messaging_destination_name}}',
        ),
      ]),
      timeseries(
        'Duplicates',
        'Messages that were acked because they had been handled before, and messages that another worker was handling, per second.',
        'ops',
        [
          query(rate('ackord_inbox_duplicates_total', 'job, consumer'), '{{job}}, {{consumer}}: duplicates'),
          query(rate('ackord_inbox_busy_total', 'job, consumer'), '{{job}}, {{consumer}}: busy'),
        ],
      ),
      timeseries(
        'Verdicts',
        'Messages that were acked, nacked or rejected, and verdicts that the broker did not accept, per second.',
        'ops',
        [
          query(rate('ackord_settled_total', 'job, verdict'), '{{job}}: {{verdict}}'),
          query(rate('ackord_settle_failed_total', 'job'), '{{job}}: not accepted'),
        ],
      ),
      timeseries(
        'In flight',
        'Messages that are being processed. At the concurrency of the router, messages wait in the broker.',
        'short',
        [query(`sum by (job, instance) (ackord_in_flight{${target}})`, '{{job}}, {{instance}}')],
      ),
      timeseries(
        'Interruptions',
        'Within the interval of the graph: pauses because the store refused writes, and transactions that were repeated after a conflict.',
        'short',
        [
          query(`sum by (job) (increase(ackord_store_pauses_total{${target}}${window}))`, '{{job}}: pauses'),
          query(`sum by (job) (increase(ackord_transaction_retries_total{${target}}${window}))`, '{{job}}: repeated transactions'),
        ],
      ),
    ],
  ],
  [
    'Process',
    [
      timeseries('Memory', 'Resident set size.', 'bytes', [
        query(
          `max by (job, instance) (process_resident_memory_bytes{${target}} or process_memory_usage_bytes{${target}})`,
          '{{job}}, {{instance}}',
        ),
      ]),
      timeseries(
        'Delay of the event loop',
        'The 99th percentile. While the event loop is blocked, leases are not renewed.',
        's',
        [
          query(
            `max by (job, instance) (nodejs_eventloop_lag_p99_seconds{${target}} or nodejs_eventloop_delay_p99_seconds{${target}})`,
            '{{job}}, {{instance}}',
          ),
        ],
        { redFrom: 1 },
      ),
    ],
  ],
]
