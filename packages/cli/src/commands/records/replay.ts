import { systemRuntime } from '@ackord/core'
import { ReplayFailedError, type ReplayProgress, type ReplayPublishedOptions, type ReplayResult, replayPublished } from '@ackord/outbox'
import type { Command } from 'commander'
import { openBroker } from '../../brokers/open-broker.ts'
import { unlessAborted } from '../../lifecycle.ts'
import { CommandError, type ExitCode, exitCode, usageError } from '../../output/errors.ts'
import type { Output } from '../../output/output.ts'
import type { Column } from '../../output/table.ts'
import { counted } from '../../output/text.ts'
import type { Execute, Session } from '../../session.ts'
import { parseInstant, parseRate } from '../../settings/duration.ts'
import { byOption, operatorOf } from '../../settings/operator.ts'
import { messageIdOption, modeOption, parseList, parsePairs, setting, storeCommand } from '../../settings/settings.ts'
import { checkMode, openStoreOf, type StoreOptions } from '../../stores/open-store.ts'
import type { OutboxChoices, Store } from '../../stores/store.ts'

interface ReplayCommandOptions extends StoreOptions {
  readonly broker?: string | undefined
  readonly mode?: OutboxChoices['mode']
  readonly from?: number | undefined
  readonly until?: number | undefined
  readonly destination?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
  readonly messageId?: string | undefined
  readonly all?: boolean | undefined
  readonly skip?: readonly string[] | undefined
  readonly toDestination?: string | undefined
  readonly map?: ReadonlyMap<string, string> | undefined
  readonly newIds?: string | undefined
  readonly rate?: number | undefined
  readonly position?: string | undefined
  readonly reason?: string | undefined
  readonly by?: string | undefined
  readonly dryRun?: boolean | undefined
}

export function replayCommand(execute: Execute): Command {
  return storeCommand('replay')
    .description(
      'Publishes records again that were published before and that the store has kept, with the same ids or new ones, and the attribute `replayed`. Nothing in the store changes.',
    )
    .addOption(
      setting('--broker <url>', 'amqp://, amqp10://, nats://, kafka://, mqtt://, redis://, redis+cluster://, sqs:, sns: or eventbridge:'),
    )
    .addOption(modeOption('table or log, the same as in the writing services (PostgreSQL; default: log if it is used)'))
    .option('--from <time>', 'only records stored since then: 2026-01-31T12:00:00Z, or 2h ago', parseInstant)
    .option('--until <time>', 'only records stored until then (default: now)', parseInstant)
    .option('--destination <name>', 'only records for this destination')
    .option('--type <type>', 'only events of this type')
    .option('--key <key>', 'only records with this ordering key')
    .addOption(messageIdOption('only the records of the message with this id'))
    .option('--all', 'all published records that are kept')
    .option('--skip <ids>', 'leave out the records with these ids; repeatable', parseList)
    .option('--to-destination <name>', 'publish all of them here instead')
    .addOption(
      setting('--map <destination=topic>', 'publish a destination under another name, as the relay does; repeatable', {
        parse: parsePairs,
      }),
    )
    .option('--new-ids <name>', 'give messages new ids, made from this name and the old ids (default: the same ids)')
    .option('--rate <rate>', 'at most this many, such as 50/s or 30/m', parseRate, 100)
    .option('--position <position>', 'continue where an earlier replay has ended, with the same filter')
    .option('--reason <text>', 'the reason, for the audit')
    .addOption(byOption())
    .option('--dry-run', 'count the records and their destinations, and publish nothing')
    .action(
      execute(
        async (session, options: ReplayCommandOptions) => {
          checkSelection(options)
          checkMode(options.store === undefined ? [] : [options.store], options)
          return options.dryRun === true ? await showReplay(session, options) : await runReplay(session, options)
        },
        { stopsItself: true },
      ),
    )
}

/** Rejects a selection that would be everything by accident. */
function checkSelection({ from, until, destination, type, key, messageId, all = false, position }: ReplayCommandOptions): void {
  const filtered = [from, until, destination, type, key, messageId].some((value) => value !== undefined)
  if (filtered && all) throw usageError('Use either a filter or --all, not both.')
  if (!filtered && !all)
    throw usageError(
      'No records are selected.',
      position === undefined
        ? 'Pass a filter, such as --from, --type or --destination, or --all.'
        : 'Pass the filter of the replay that has reported this position, or --all.',
    )
  if (from !== undefined && until !== undefined && from > until) throw usageError('--until is before --from.')
}

/** An outbox with its published records: in log mode they are there for a while, and are listed only by a store that keeps them. */
function publishedOutbox(store: Store, choices: OutboxChoices): ReturnType<Store['outbox']> {
  if (store.kind === 'redis' && store.outboxKind === 'stream')
    throw usageError('Redis Streams keep no published records, so there is nothing to replay.', 'A Lua outbox keeps them: --outbox lua.')
  return store.outbox({ ...choices, retain: true })
}

interface DestinationCount {
  readonly name: string
  readonly count: number
}

const destinationColumns: readonly Column<DestinationCount>[] = [
  { heading: 'REPLAYED TO', cell: ({ name }) => name, cut: { rank: 1, min: 12 } },
  { heading: 'RECORDS', cell: ({ count }) => count },
]

async function showReplay(session: Session, options: ReplayCommandOptions): Promise<ExitCode> {
  const { output, signal } = session
  await using store = await unlessAborted(openStoreOf(options, session), signal)
  const outbox = publishedOutbox(store, { logger: output.logger(), mode: options.mode })
  const view = progressView(output)
  const publisher = { publish: () => Promise.reject(new Error('A dry run publishes nothing.')) }
  const settings = { ...replayOptions(options, signal), publisher, dryRun: true, onProgress: view.show }
  const result = await replayPublished(outbox, settings).catch(explained(output)).finally(view.clear)
  signal.throwIfAborted()
  const { replayed, expired, destinations } = result
  const rows = Object.entries(destinations).map(([name, count]) => ({ name, count }))
  if (rows.length > 0) for (const line of output.table(destinationColumns, rows)) output.line(line)
  output.object({ dry_run: true, records: replayed, expired, destinations })
  output.line(`${records(replayed)} would be replayed${expiredText(expired)}; nothing was published.`)
  if (replayed === 0) output.line(noneKept)
  return exitCode.ok
}

async function runReplay(session: Session, options: ReplayCommandOptions): Promise<ExitCode> {
  const { output, secrets, signal } = session
  const logger = output.logger()
  await using store = await unlessAborted(openStoreOf(options, session), signal)
  await using broker = await unlessAborted(openBroker(options.broker, { option: '--broker', logger, secrets }), signal)
  const outbox = publishedOutbox(store, { logger, mode: options.mode })
  const view = progressView(output)
  const settings = { ...replayOptions(options, signal), publisher: broker.publisher, onProgress: view.show }
  const result = await replayPublished(outbox, settings).catch(explained(output)).finally(view.clear)
  report(output, result)
  signal.throwIfAborted()
  return exitCode.ok
}

function report(output: Output, { replayed, expired, position, complete }: ReplayResult): void {
  output.object({ replayed, expired, position, complete })
  output.line(`${records(replayed)} replayed${expiredText(expired)}.`)
  if (!complete) output.line(continueText(position))
  else if (replayed === 0) output.line(noneKept)
}

const noneKept =
  'No published record that is kept matches. Records are kept where the relay runs with --keep-published, or the outbox with `retain`.'

function replayOptions(options: ReplayCommandOptions, signal: AbortSignal): Omit<ReplayPublishedOptions, 'publisher'> {
  const { from, until, destination, type, key, messageId, skip, toDestination, map, newIds, rate, position, reason } = options
  return {
    from: from === undefined ? undefined : new Date(from),
    until: until === undefined ? undefined : new Date(until),
    destination,
    type,
    orderingKey: key,
    messageId,
    except: skip,
    toDestination,
    map: map === undefined ? undefined : (record) => ({ destination: map.get(record.destination) }),
    newIds,
    rate,
    position,
    signal,
    by: operatorOf(options),
    reason,
  }
}

/** Adds to the failure of a replay how the command is continued. */
function explained(output: Output): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof ReplayFailedError)) throw error
    const { progress, recordId } = error
    output.object({ ...progress, complete: false, ...(recordId !== undefined && { failed: recordId }) })
    const without = recordId === undefined ? '' : `; to leave the record out, add: --skip ${recordId}`
    throw new CommandError(error.message, { exitCode: exitCode.failed, hint: `${continueText(progress.position)}${without}`, cause: error })
  }
}

function continueText(position: string | undefined): string {
  return position === undefined ? 'Run the same command again to begin anew.' : `To continue, add: --position ${position}`
}

function expiredText(expired: number): string {
  return expired === 0 ? '' : `, ${expired} left out because they have expired`
}

function records(count: number): string {
  return counted(count, 'record', 'records')
}

/** Milliseconds between two updates on a terminal, and between two lines elsewhere. */
const pauses = { terminal: 100, elsewhere: 1000 }

/**
 * How many, how many per second, and the position: with it a replay can be continued whose process was killed. Elsewhere than on a terminal, positions are lines: JSON, or for the
 * log.
 */
function progressView(output: Output): { show(progress: ReplayProgress): void; clear(): void } {
  const startedAt = systemRuntime.monotonic()
  const pause = output.terminal ? pauses.terminal : pauses.elsewhere
  let shownAt = -Infinity
  return {
    show({ replayed, expired, position }) {
      const now = systemRuntime.monotonic()
      if (now - shownAt < pause) return
      shownAt = now
      const perSecond = Math.round((replayed * 1000) / Math.max(1, now - startedAt))
      const text = `${records(replayed)}, ${perSecond}/s, position ${position}`
      output.object({ replayed, expired, position })
      if (output.terminal) output.progress(text)
      else output.line(text)
    },
    clear: () => output.progress(''),
  }
}
