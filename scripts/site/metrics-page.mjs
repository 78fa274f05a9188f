// @ts-check

/** @typedef {import('./described-metrics.ts').DescribedMetric} DescribedMetric */

/** @type {readonly { from: DescribedMetric['from'], title: string, about: string }[]} */
const groups = [
  {
    from: 'router',
    title: 'Router',
    about: `\`ackord.messages\`, \`ackord.duration\`, \`ackord.outputs\` and \`ackord.in_flight\` need \`metricsMiddleware(metrics)\`, in \`router.use()\` or in \`use\` of a service. The others come from the router itself.`,
  },
  { from: 'inbox', title: 'Inbox', about: '`ackord.inbox.busy` exists on Redis only, where the inbox has leases.' },
  {
    from: 'relay',
    title: 'Relay',
    about: `A relay measures \`ackord.outbox.lag\`, \`ackord.outbox.destination_lag\` and \`ackord.outbox.records\` once per \`statsInterval\`, a minute by default. All relays of a store measure the same: combine them by \`max\`, not by \`sum\`. \`outboxSource()\` counts what becomes of records, and does not measure these three. With a [\`RelayGroup\`](guides/scaling.md#one-process-for-many-databases) every metric of a relay and of its store has one more label, \`store\`.`,
  },
  { from: 'store', title: 'Stores', about: 'From the transactions, group commits, outboxes and cleanups of SQL databases and Redis.' },
  { from: 'tenants', title: 'Databases of tenants', about: 'From [`tenantDatabases()`](guides/tenants.md).' },
  {
    from: 'luaOutbox',
    title: 'Lua outbox',
    about: 'From [the Lua outbox](guides/redis-lua-outbox.md) on Redis, beside those of its relay.',
  },
  {
    from: 'process',
    title: 'Process',
    about: 'From `@ackord/telemetry` and `ackord relay --port`, which has [further metrics of its process](guides/command.md#prometheus).',
  },
  {
    from: 'messaging',
    title: 'OpenTelemetry: messaging',
    about: `From \`@ackord/telemetry\` only, with the names and buckets of OpenTelemetry's conventions, so that dashboards for any messaging client show them. \`server.address\` and \`server.port\` are set if the client knows its server, \`error.type\` if the operation failed. An ack is measured only if it failed.`,
  },
]

/** @param {readonly DescribedMetric[]} metrics @returns {string} the page, as Markdown */
export function metricsPage(metrics) {
  const known = new Set(groups.map(({ from }) => from))
  const ungrouped = metrics.filter(({ from }) => !known.has(from))
  if (ungrouped.length > 0)
    throw new Error(`scripts/site/metrics-page.mjs has no group for ${ungrouped.map(({ name }) => name).join(', ')}.`)
  const sections = groups.map(({ from, title, about }) => {
    const own = metrics.filter((metric) => metric.from === from)
    const shared = sharedLabels(own)
    const all = shared.length === 0 ? [] : [`All of them have the labels ${list(shared.map((name) => `\`${name}\``))}.`, '']
    const rows = own.map((metric) => row(metric, shared))
    return [`## ${title}`, '', about, '', ...all, '| metric | kind | labels | meaning |', '|---|---|---|---|', ...rows].join('\n')
  })
  return `${[head, ...sections, bucketsSection(metrics)].join('\n\n')}\n`
}

/** The name in Prometheus, as the command and OpenTelemetry's exporters write it. @param {DescribedMetric} metric */
export function prometheusName({ name, kind, unit }) {
  return `${name.replaceAll('.', '_')}${unit === undefined ? '' : `_${unit}`}${kind === 'counter' ? '_total' : ''}`
}

/** Names that would be repeated in every row. @param {readonly DescribedMetric[]} metrics */
function sharedLabels([first, ...others]) {
  const names = Object.keys(first?.labels ?? {}).filter((name) => [first, ...others].every((metric) => metric?.labels[name] === 'any'))
  return others.length === 0 || names.length < 2 ? [] : names
}

/** @param {readonly string[]} names */
const list = (names) => `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`

/** @param {DescribedMetric} metric @param {readonly string[]} shared */
function row(metric, shared) {
  const { name, kind, unit, labels, help, buckets } = metric
  const range = buckets.length === 0 ? [] : [`[${rangeOf(metric)}](#buckets)`]
  const own = Object.entries(labels).filter(([label]) => !shared.includes(label))
  const measured = [kind, ...range, ...(unit === undefined || range.length > 0 ? [] : [unit])].join(', ')
  return `| \`${name}\`<br>\`${prometheusName(metric)}\` | ${measured} | ${own.map(label).join('; ')} | ${help.replaceAll('|', '\\|')} |`
}

/** @param {[string, readonly string[] | 'any']} label */
function label([name, values]) {
  return values === 'any' ? `\`${name}\`` : `\`${name}\`: ${values.join(', ')}`
}

/** @param {DescribedMetric} metric */
function rangeOf({ buckets, unit }) {
  return `${buckets[0]} to ${buckets.at(-1)}${unit === undefined ? '' : ' s'}`
}

/** @param {readonly DescribedMetric[]} metrics */
function bucketsSection(metrics) {
  const ranges = new Map(metrics.filter(({ buckets }) => buckets.length > 0).map((metric) => [rangeOf(metric), metric.buckets.join(', ')]))
  const rows = [...ranges].map(([range, bounds]) => `| ${range} | ${bounds} |`)
  return [
    '## Buckets',
    '',
    'The upper bounds of histograms, without the last one, which has no bound.',
    '',
    '| range | bounds |',
    '|---|---|',
    ...rows,
  ].join('\n')
}

const head = `# Metrics

Every metric, with its name at the \`metrics\` port and in Prometheus. The page is made from the table in the code (\`node scripts/docs-metrics.mjs\`), and a test compares them. What to alert on is in [operating](guides/operating.md#alerts); how to export metrics in [telemetry](guides/telemetry.md#metrics).

- **Durations are exported in seconds.** The \`metrics\` port receives milliseconds; \`@ackord/telemetry\` and \`ackord relay --port\` convert them.
- **Labels are bounded.** They have names that you chose, such as destinations, consumers and types, or values from a list, and never ids. After 1,000 different values of a label, further ones become \`other\`, because a sender can invent types. URLs are shown without user, password and query.
- **Counters have no series before their first value**, except in \`ackord relay --port\`, which starts them with 0.`
