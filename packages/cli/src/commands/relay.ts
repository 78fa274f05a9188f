import type { DeadLetter, Logger, Publisher } from '@ackord/core'
import { messageOf, redactDestination } from '@ackord/core/internal'
import {
  type DrainResult,
  Relay,
  RelayGroup,
  type RelayGroupHealth,
  type RelayGroupOptions,
  type RelayHealth,
  type RelayOptions,
  relayDefaults,
} from '@ackord/outbox'
import type { Command } from 'commander'
import { openBroker } from '../brokers/open-broker.ts'
import { aborted, unlessAborted } from '../lifecycle.ts'
import { type ExitCode, exitCode, isInterruption, usageError } from '../output/errors.ts'
import { counted } from '../output/text.ts'
import { startHealthServer } from '../relay/health-server.ts'
import { startOtlpExport } from '../relay/otlp-export.ts'
import { reportToAll, ScrapedMetrics } from '../relay/relay-metrics.ts'
import { openRelayStores } from '../relay/relay-stores.ts'
import type { Execute, Session } from '../session.ts'
import { exactDuration } from '../settings/duration.ts'
import { parseUrls } from '../settings/named-urls.ts'
import {
  addStoreOptions,
  modeOption,
  newCommand,
  parseChoice,
  parseInteger,
  parseList,
  parsePairs,
  parsePositiveDuration,
  setting,
  storeUrls,
} from '../settings/settings.ts'
import { locationOf } from '../stores/open-store.ts'
import type { OutboxChoices, Store, StoreLocation } from '../stores/store.ts'

interface RelayCommandOptions extends StoreLocation {
  readonly from?: readonly string[] | undefined
  readonly to?: string | undefined
  readonly map?: ReadonlyMap<string, string> | undefined
  readonly destinations?: readonly string[] | undefined
  readonly deadLetter?: string | undefined
  readonly order?: OutboxChoices['order']
  readonly mode?: OutboxChoices['mode']
  readonly onExhausted?: RelayOptions['onExhausted']
  readonly listen?: boolean | undefined
  readonly keepPublished?: number | undefined
  readonly batchSize?: number | undefined
  readonly concurrency?: number | undefined
  readonly totalConcurrency?: number | undefined
  readonly lease?: number | undefined
  readonly publishTimeout?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly pollInterval?: number | undefined
  readonly shutdownTimeout?: number | undefined
  readonly name?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly otlp?: string | undefined
  readonly once?: boolean | undefined
  readonly deadline?: number | undefined
  readonly limit?: number | undefined
}

export function relayCommand(execute: Execute): Command {
  const command = addStoreOptions(
    newCommand('relay')
      .description('Publishes committed records to the broker until SIGTERM, SIGHUP or Ctrl-C. Any number of relays may run concurrently.')
      .addOption(
        setting('--from <url>', `the store: ${storeUrls}; repeatable, and with a name: orders=postgres://…`, {
          key: 'store',
          parse: parseUrls,
        }),
      )
      .addOption(
        setting(
          '--to <url>',
          'the broker: amqp://, amqp10://, nats://, kafka://, mqtt://, redis://, redis+cluster://, sqs:, sns: or eventbridge:',
          { key: 'broker' },
        ),
      ),
  )
  const options = [
    setting('--map <destination=topic>', 'publish a destination under another name; repeatable', {
      parse: parsePairs,
    }),
    setting('--destinations <names>', 'only these destinations; others are left to other relays (default: all)', { parse: parseList }),
    setting('--dead-letter <topic>', 'where to send a copy of each parked record (default: nowhere)'),
    setting('--order <order>', 'none or perKey, the same as in the writing services (SQL, or a Lua outbox; default: none)', {
      parse: parseChoice('none', 'perKey'),
    }),
    modeOption('table or log, the same as in the writing services; log always has the order perKey (PostgreSQL; default: table)'),
    setting(
      '--on-exhausted <choice>',
      'with order perKey, what happens to records behind a parked one: park, block or parkKey (default: park)',
      {
        parse: parseChoice('park', 'block', 'parkKey'),
      },
    ),
    setting('--listen', 'receive notifications of commits (PostgreSQL; the writing services need `notify: true`)'),
    setting('--keep-published <duration>', 'how long published records are kept (SQL and Lua outbox; default: they are deleted)', {
      parse: parsePositiveDuration,
    }),
    setting('--batch-size <count>', 'records per claim (default: 500)', { parse: parseInteger(1, 100_000) }),
    setting('--concurrency <count>', 'batches in flight concurrently, of each store (default: 1)', { parse: parseInteger(1, 1000) }),
    setting('--total-concurrency <count>', 'with several stores, batches that are published concurrently (default: 8)', {
      parse: parseInteger(1, 1000),
    }),
    setting('--lease <duration>', "how long before a dead relay's records are claimed again (default: 30s)", {
      parse: parsePositiveDuration,
    }),
    setting('--publish-timeout <duration>', 'time limit of one publish; shorter than the lease (default: 10s)', {
      parse: parsePositiveDuration,
    }),
    setting('--max-attempts <count>', 'number of attempts after which a record is parked (default: 10)', { parse: parseInteger(1) }),
    setting('--poll-interval <duration>', 'interval between polls while there is little to do (default: 500ms)', {
      parse: parsePositiveDuration,
    }),
    setting('--shutdown-timeout <duration>', 'how long a stop waits for records in flight (default: 25s)', {
      parse: parsePositiveDuration,
    }),
    setting('--name <name>', 'name in the log lines; need not be unique'),
    setting('--port <port>', 'serve /health, /health/live, /health/ready and /metrics; 0: any port (default: off)', {
      parse: parseInteger(0, 65_535),
    }),
    setting('--host <address>', 'the address to listen on; 0.0.0.0 for all interfaces (default: 127.0.0.1)'),
    setting('--otlp <url>', 'export traces and metrics to this OpenTelemetry collector, by OTLP over HTTP (default: off)'),
  ]
  for (const option of options) command.addOption(option)
  // Not settings: a variable or a file that makes every relay end would be a trap.
  return command
    .option('--once', 'publish what is there now, print the result and end; exit code 6 if something is left')
    .option(
      '--deadline <duration>',
      'with --once: the time after which it has ended (default: when nothing is left)',
      parsePositiveDuration,
    )
    .option('--limit <count>', 'with --once: the maximum number of records (default: all)', parseInteger(1))
    .action(execute(runRelay, { stopsItself: true }))
}

async function runRelay(session: Session, options: RelayCommandOptions): Promise<ExitCode> {
  const { signal } = session
  checkTogether(options)
  if (options.once === true) return await relayOnce(session, options)
  try {
    await relayUntilAborted(session, options)
  } catch (error) {
    // A relay that is stopped during its start counts as stopped, too.
    if (!signal.aborted || error !== signal.reason) throw error
  }
  // A stop by a signal is a success; any other reason is a failure, even after an orderly stop.
  if (!isInterruption(signal.reason)) throw signal.reason
  return exitCode.ok
}

/** Checks combinations of options, before anything is opened. */
function checkTogether(options: RelayCommandOptions): void {
  const { lease, publishTimeout, mode, order = mode === 'log' ? 'perKey' : 'none', onExhausted = 'park' } = options
  const [leased, limit] = [lease ?? relayDefaults.lease, publishTimeout ?? relayDefaults.publishTimeout]
  if (limit >= leased) {
    const byDefault = lease === undefined || publishTimeout === undefined ? ' by default' : ''
    const text =
      lease === undefined
        ? `--publish-timeout is ${exactDuration(limit)}; it must be shorter than --lease (${exactDuration(leased)}${byDefault}).`
        : `--lease is ${exactDuration(leased)}; it must be longer than --publish-timeout (${exactDuration(limit)}${byDefault}).`
    throw usageError(text, 'A number without a unit is milliseconds: write 30s for 30 seconds.')
  }
  if (options.once !== true && (options.deadline !== undefined || options.limit !== undefined)) {
    const name = options.deadline === undefined ? '--limit' : '--deadline'
    throw usageError(`${name} is for --once.`, 'A relay without --once runs until it is stopped.')
  }
  if (onExhausted !== 'park' && order !== 'perKey')
    throw usageError(
      `--on-exhausted is '${onExhausted}', which requires the order perKey.`,
      'Add --order perKey if the writing services use it.',
    )
}

async function relayUntilAborted(session: Session, options: RelayCommandOptions): Promise<void> {
  const { signal } = session
  const { port, host = '127.0.0.1' } = options
  await withRelay(session, options, 'stdout', async ({ relay, scraped, logger, from, to, exporting }) => {
    const health = () => relay.health()
    await using server =
      scraped === undefined || port === undefined
        ? undefined
        : await startHealthServer({ port, host, health, metrics: () => scraped.format() })
    signal.throwIfAborted()
    await using running = relay.start()
    const served = { ...(server !== undefined && { health: server.url }), ...exporting }
    logger.info({ from, to, ...served }, 'The relay is running.')
    await aborted(signal)
    logger.info({}, 'The relay is stopping: records in flight are finished, the rest is released.')
    // Before the server is closed: until the end it reports that the relay is stopping.
    await running.stop()
    logger.info(totalsOf(relay.health()), 'The relay has stopped.')
  })
}

/** Publishes what is there now. The log goes to stderr, because the result is on stdout. */
async function relayOnce(session: Session, options: RelayCommandOptions): Promise<ExitCode> {
  const { output, signal } = session
  const { deadline, limit } = options
  let complete = true
  await withRelay(session, { ...options, port: undefined, listen: undefined }, 'stderr', async ({ relay }) => {
    signal.throwIfAborted()
    const single = relay instanceof Relay ? await relay.drain({ deadline, limit, signal }) : undefined
    const results = relay instanceof Relay ? {} : await relay.drain({ deadline, limit, signal })
    const all = single === undefined ? Object.values(results) : [single]
    complete = all.every(isComplete)
    const stores = Object.fromEntries(Object.entries(results).map(([store, result]) => [store, printed(result)]))
    output.object({ complete, ...(single === undefined ? { stores } : printed(single)) })
    if (single !== undefined) output.line(described(single))
    for (const [store, result] of Object.entries(results)) output.line(`${store}: ${described(result)}`)
  })
  signal.throwIfAborted()
  return complete ? exitCode.ok : exitCode.incomplete
}

/** Delayed records that are not due yet do not count. */
function isComplete({ reason, failed, left }: DrainResult): boolean {
  return reason === 'empty' && failed === 0 && (left === undefined || left.ready + left.leased === 0)
}

function printed({ error, ...result }: DrainResult): object {
  return { ...result, ...(error !== undefined && { error: messageOf(error) }) }
}

function described({ published, failed, parked, reason, skipped, left }: DrainResult): string {
  const done = `${counted(published, 'record', 'records')} published, ${failed} failed, ${parked} parked; ended: ${reason}.`
  const rest =
    left === undefined ? 'What is left is not known.' : `Left: ${left.ready} ready, ${left.leased} leased, ${left.waiting} waiting.`
  return [done, rest, ...(skipped.length === 0 ? [] : [`Not served: ${skipped.map(redactDestination).join(', ')}.`])].join(' ')
}

interface OpenRelay {
  readonly relay: Relay | RelayGroup
  readonly scraped: ScrapedMetrics | undefined
  readonly logger: Logger
  /** The addresses for log lines. */
  readonly from: string
  readonly to: string
  readonly exporting: object
}

/** Opens stores and broker, creates the relay, which is not started, and closes everything after the work. */
async function withRelay(
  session: Session,
  options: RelayCommandOptions,
  log: 'stdout' | 'stderr',
  work: (open: OpenRelay) => Promise<void>,
): Promise<void> {
  const { output, secrets, signal } = session
  const plain = output.logger(log)
  // In the store each relay has an id of its own, so that two relays with the same name do not conflict.
  const logger = options.name === undefined ? plain : withFields(plain, { relay: options.name })
  const { from, to, order, mode = 'table', listen, keepPublished, port } = options
  // Closed last: it exports what happens until everything else is closed.
  await using otlp = options.otlp === undefined ? undefined : await startOtlpExport(options.otlp, { option: '--otlp', logger, secrets })
  await using opened = await openRelayStores(session, { from, location: locationOf(options), order, mode, logger })
  await using broker = await unlessAborted(openBroker(to, { option: '--to', logger, secrets }), signal)
  const publisher = otlp === undefined ? broker.publisher : otlp.telemetry.publisher(broker.publisher)
  using scraped = port === undefined ? undefined : new ScrapedMetrics(opened, namedDestinations(options))
  const outboxes = [...opened.stores].map(([store, { outbox }]) => {
    const own = opened.named ? withFields(logger, { store }) : logger
    return [store, outbox({ order, mode, retain: keepPublished !== undefined, keepPublished, listen, logger: own })] as const
  })
  const relay = createRelay(outboxes, opened.named, {
    ...relayOptions(options),
    publisher,
    deadLetter: deadLetterOf(options, publisher),
    logger,
    // Passed on to the stores.
    metrics: reportToAll([scraped?.port, otlp?.telemetry.metrics]),
  })
  const addresses = [...opened.stores].map(([name, { address }]) => (opened.named ? `${name}=${address}` : address))
  const exporting = otlp === undefined ? {} : { otlp: otlp.address }
  await work({ relay, scraped, logger, from: addresses.join(', '), to: broker.address, exporting })
}

type NamedOutbox = readonly [name: string, outbox: ReturnType<Store['outbox']>]

/** A single store without a name has a relay whose metrics and log lines name no store. */
function createRelay(outboxes: readonly NamedOutbox[], named: boolean, options: Omit<RelayGroupOptions, 'onEvent'>): Relay | RelayGroup {
  const { totalConcurrency, ...own } = options
  const [single] = outboxes
  if (named || single === undefined) return new RelayGroup(Object.fromEntries(outboxes), options)
  if (totalConcurrency !== undefined) throw usageError('--total-concurrency is for several stores.', 'Use --concurrency for one.')
  return new Relay(single[1], own)
}

function totalsOf(health: RelayHealth | RelayGroupHealth): object {
  const sums = { published: 0, failed: 0, parked: 0, released: 0 }
  for (const each of 'stores' in health ? Object.values(health.stores) : [health]) {
    for (const total of ['published', 'failed', 'parked', 'released'] as const) sums[total] += each[total]
  }
  return sums
}

function namedDestinations({ destinations = [], map = new Map() }: RelayCommandOptions): readonly string[] {
  return destinations.length > 0 ? destinations : [...map.keys()]
}

function relayOptions(options: RelayCommandOptions): Omit<RelayGroupOptions, 'publisher' | 'onEvent'> {
  const { map, keepPublished, batchSize, concurrency, lease, publishTimeout, maxAttempts, pollInterval, shutdownTimeout, destinations } =
    options
  return {
    destinations,
    batchSize,
    concurrency,
    totalConcurrency: options.totalConcurrency,
    lease,
    publishTimeout,
    maxAttempts,
    pollInterval,
    shutdownTimeout,
    onExhausted: options.onExhausted,
    map: map === undefined ? undefined : ({ destination }) => ({ destination: map.get(destination) }),
    cleanup: keepPublished === undefined ? undefined : { keepPublished },
  }
}

function deadLetterOf({ deadLetter }: RelayCommandOptions, publisher: Publisher): DeadLetter | undefined {
  return deadLetter === undefined ? undefined : { publisher, destination: deadLetter }
}

/** A logger with these fields in every line. */
function withFields(logger: Logger, own: object): Logger {
  return {
    debug: (fields, text) => logger.debug({ ...own, ...fields }, text),
    info: (fields, text) => logger.info({ ...own, ...fields }, text),
    warn: (fields, text) => logger.warn({ ...own, ...fields }, text),
    error: (fields, text) => logger.error({ ...own, ...fields }, text),
  }
}
