import { Message, systemRuntime } from '@ackord/core'
import type { DeadLetterQueue, StoredLetter } from '@ackord/core/broker'
import { type Letter, type LetterFilter, matchingLetters, type ReplayResult, replay, targetOf } from '@ackord/core/internal'
import type { Command } from 'commander'
import type { LettersOptions } from '../brokers/broker.ts'
import { openBroker } from '../brokers/open-broker.ts'
import { lettersOf, openLetters } from '../brokers/open-letters.ts'
import { closeWithin, unlessAborted } from '../lifecycle.ts'
import { confirm } from '../output/confirm.ts'
import { CommandError, type ExitCode, exitCode, usageError } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import { letterObject, letterTable } from '../output/letter-output.ts'
import type { Column } from '../output/table.ts'
import { printable } from '../output/text.ts'
import type { Execute, Session } from '../session.ts'
import { deliveryLimitOption } from '../settings/delivery-limit.ts'
import { parseInstant, parseRate } from '../settings/duration.ts'
import { newCommand, parseInteger, setting } from '../settings/settings.ts'
import { readable } from './records/show.ts'

interface QueueOptions extends LettersOptions {
  readonly broker?: string | undefined
  readonly from?: string | undefined
}

interface FilterOptions {
  readonly type?: string | undefined
  readonly source?: string | undefined
  readonly since?: number | undefined
  readonly until?: number | undefined
}

interface SelectOptions extends QueueOptions, FilterOptions {
  readonly all?: boolean | undefined
}

interface ReplayCommandOptions extends SelectOptions {
  readonly to?: string | undefined
  readonly rate?: number | undefined
  readonly limit?: number | undefined
  readonly dryRun?: boolean | undefined
}

interface DiscardOptions extends SelectOptions {
  readonly reason?: string | undefined
  readonly yes?: boolean | undefined
}

export function deadLettersCommand(execute: Execute): Command {
  return newCommand('dead-letters')
    .description('Lists, shows, replays and discards the messages of a dead-letter destination.')
    .addCommand(listCommand(execute))
    .addCommand(showCommand(execute))
    .addCommand(replayCommand(execute))
    .addCommand(discardCommand(execute))
}

function queueCommand(name: string): Command {
  return newCommand(name)
    .addOption(setting('--broker <url>', 'amqp://, amqp10://, nats://, kafka://, redis:// or redis+cluster://'))
    .option('--from <destination>', 'the dead-letter destination: a queue, subject, topic or stream')
    .option('--group <name>', 'the group whose offset marks the letters that are done (Kafka)', 'ackord-dead-letters')
    .addOption(deliveryLimitOption())
}

function addLetterFilter(command: Command): Command {
  return command
    .option('--type <type>', 'only messages of this type')
    .option('--source <source>', 'only messages from this source')
    .option('--since <time>', 'only messages rejected since then: 2026-01-31T12:00:00Z, or 2h ago', parseInstant)
    .option('--until <time>', 'only messages rejected until then', parseInstant)
}

function listCommand(execute: Execute): Command {
  return addLetterFilter(queueCommand('list'))
    .description('Lists letters, oldest first, and leaves them where they are.')
    .option('--limit <count>', 'maximum number of letters', parseInteger(1, 10_000), 50)
    .action(
      execute(
        (session, options: QueueOptions & FilterOptions & { readonly limit: number }) =>
          withQueue(session, options, async (queue) => {
            const { output, signal } = session
            const { limit } = options
            const found: Letter[] = []
            for await (const letter of matchingLetters(queue, filterOf(options), { limit: limit + 1, signal })) found.push(letter)
            signal.throwIfAborted()
            const letters = found.slice(0, limit)
            output.object({ letters: letters.map((letter) => letterObject(output, letter)), more: found.length > limit })
            if (letters.length === 0) output.line('No letters found.')
            else for (const line of letterTable(output, letters)) output.line(line)
            if (found.length > limit) output.line(`\nThere are more letters: raise --limit, or filter them.`)
            return exitCode.ok
          }),
        { stopsItself: true },
      ),
    )
}

function showCommand(execute: Execute): Command {
  return queueCommand('show')
    .description('Shows the letters of one message, with its attributes as they were, and leaves them where they are.')
    .argument(
      '<id>',
      'id of the letter, as listed by `ackord dead-letters list`: that of its message, or its position if the message has none',
    )
    .option('--data', 'include the payload, which may be confidential')
    .action(
      execute(
        (session, options: QueueOptions & { readonly data?: boolean | undefined }, [id = '']) =>
          withQueue(session, options, async (queue) => {
            const filter = { ids: new Set([id]) }
            let count = 0
            for await (const letter of matchingLetters(queue, filter, { limit: Infinity, signal: session.signal })) {
              if (count > 0) session.output.line()
              count += 1
              showLetter(session, letter, options.data === true)
            }
            session.signal.throwIfAborted()
            if (count > 0) return exitCode.ok
            throw new CommandError(`There is no letter of '${printable(id)}' in '${printable(options.from ?? '')}'.`, {
              exitCode: exitCode.failed,
              hint: '`ackord dead-letters list` shows the ids.',
            })
          }),
        { stopsItself: true },
      ),
    )
}

function showLetter({ output }: Session, letter: Letter, withData: boolean): void {
  const { attributes, data } = letter.message
  const fields = letterObject(output, letter)
  output.object({ ...fields, attributes, ...(withData && { data_base64: Buffer.from(data).toString('base64') }) })
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) output.line(`${output.colours.bold(name.padEnd(14))}${printable(String(value))}`)
  }
  output.line(output.colours.bold('attributes'))
  for (const [name, value] of Object.entries(attributes)) output.line(`  ${printable(name)}: ${printable(String(value))}`)
  if (withData) output.line(`${output.colours.bold('data')}\n${readable(data)}`)
}

function replayCommand(execute: Execute): Command {
  return addLetterFilter(queueCommand('replay'))
    .description(
      'Publishes letters to the destination that they came from, with the same id, and removes each one when the broker has confirmed it.',
    )
    .argument('[ids...]', 'ids of letters, as listed by `ackord dead-letters list`')
    .option('--all', 'all letters')
    .option('--to <destination>', 'publish them here instead; required for letters that do not say where they came from')
    .option('--rate <rate>', 'at most this many, such as 50/s or 30/m (default: no limit)', parseRate)
    .option('--limit <count>', 'at most this many, oldest first', parseInteger(1))
    .option('--dry-run', 'list the letters and their destinations, and publish nothing')
    .action(
      execute(
        (session, options: ReplayCommandOptions, ids) => {
          checkSelection(ids, options)
          if (options.to === '') throw usageError('--to must be a non-empty name.')
          return withQueue(session, options, (queue) =>
            options.dryRun === true ? showReplay(session, queue, options, ids) : runReplay(session, queue, options, ids),
          )
        },
        { stopsItself: true },
      ),
    )
}

interface PlannedReplay {
  readonly letter: Letter
  /** The destination, or why there is none. */
  readonly target: string
}

const replayColumns: readonly Column<PlannedReplay>[] = [
  { heading: 'ID', cell: ({ letter }) => letter.id },
  { heading: 'TYPE', cell: ({ letter }) => letter.message.type ?? '', cut: { rank: 2, min: 8 } },
  { heading: 'REPLAYED TO', cell: ({ target }) => target, cut: { rank: 1, min: 12 } },
]

async function showReplay({ output, signal }: Session, queue: DeadLetterQueue, options: ReplayCommandOptions, ids: readonly string[]) {
  const { to, limit = Infinity } = options
  const counts = { letters: 0, skipped: 0 }
  const rows: PlannedReplay[] = []
  for await (const letter of matchingLetters(queue, selectionOf(ids, options), { limit, signal })) {
    const target = targetOf(letter, { to, named: ids.length > 0 })
    const skipped = 'problem' in target
    counts[skipped ? 'skipped' : 'letters'] += 1
    output.object({ ...letterObject(output, letter), ...(skipped ? { skipped: target.problem } : { replay_to: target.destination }) })
    rows.push({ letter, target: skipped ? `not replayed: ${output.masked(target.problem)}` : target.destination })
  }
  signal.throwIfAborted()
  if (rows.length > 0) for (const line of output.table(replayColumns, rows)) output.line(line)
  output.object({ dry_run: true, ...counts })
  output.line(`${lettersText(counts.letters)} would be replayed, ${counts.skipped} skipped; nothing was published.`)
  return ids.length > 0 && rows.length === 0 ? noneFound(output) : exitCode.ok
}

async function runReplay(session: Session, queue: DeadLetterQueue, options: ReplayCommandOptions, ids: readonly string[]) {
  const { output, signal } = session
  const { to, rate, limit = Infinity } = options
  const view = progressView(session, Math.min(limit, ids.length > 0 ? ids.length : queue.count))
  const result = await replay(queue, {
    filter: selectionOf(ids, options),
    to,
    rate,
    limit,
    signal,
    onFailure(letter, reason) {
      view.clear()
      output.object({ not_replayed: letter.id, position: letter.stored.position, reason: output.masked(reason) })
      output.line(`${printable(letter.id)} was not replayed: ${printable(output.masked(reason))}`)
    },
    onProgress: view.show,
  }).finally(view.clear)
  const { replayed, failed, skipped } = result
  output.object({ replayed, failed, skipped, undeletable: queue.undeletable })
  output.line(`${lettersText(replayed)} replayed, ${failed} failed, ${skipped} skipped.`)
  reportUndeletable(session, queue, 'replayed')
  signal.throwIfAborted()
  const tried = replayed + failed + skipped
  if (tried < ids.length) return tried === 0 ? noneFound(output) : someMissing(output)
  return failed + skipped > 0 ? exitCode.failed : exitCode.ok
}

function discardCommand(execute: Execute): Command {
  return addLetterFilter(queueCommand('discard'))
    .description('Deletes letters permanently: their messages are never handled.')
    .argument('[ids...]', 'ids of letters, as listed by `ackord dead-letters list`')
    .option('--all', 'all letters')
    .option('--reason <text>', 'the reason, for the log')
    .option('--yes', 'do not ask; required without a terminal')
    .action(
      execute(
        (session, options: DiscardOptions, ids) => {
          checkSelection(ids, options)
          if (options.reason === undefined)
            throw usageError('--reason is missing: it is required, because the messages will never be handled.')
          return withQueue(session, options, (queue) => discard(session, queue, options, ids))
        },
        { stopsItself: true },
      ),
    )
}

const discardedPerCall = 100

async function discard(session: Session, queue: DeadLetterQueue, options: DiscardOptions, ids: readonly string[]): Promise<ExitCode> {
  const { output, signal } = session
  const { reason, yes, from = '' } = options
  // Without their data: there may be many.
  const chosen: { readonly id: string; readonly stored: StoredLetter }[] = []
  for await (const { id, stored } of matchingLetters(queue, selectionOf(ids, options), { limit: Infinity, signal })) {
    chosen.push({ id, stored: { position: stored.position, message: new Message(new Uint8Array()) } })
  }
  signal.throwIfAborted()
  if (chosen.length === 0) {
    output.object({ discarded: 0, undeletable: 0 })
    return ids.length > 0 ? noneFound(output) : exitCode.ok
  }
  await confirm(output, `${lettersText(chosen.length)} in '${printable(from)}' are deleted permanently. Delete?`, { yes, signal })
  for (let done = 0; done < chosen.length && !signal.aborted; done += discardedPerCall) {
    const batch = chosen.slice(done, done + discardedPerCall)
    await queue.remove(batch.map(({ stored }) => stored))
    output.logger().info({ from, reason, discarded: batch.map(({ id }) => id) }, 'Dead letters were discarded.')
  }
  signal.throwIfAborted()
  const { undeletable } = queue
  const discarded = chosen.length - undeletable
  output.object({ discarded, undeletable })
  output.line(`${lettersText(discarded)} deleted.`)
  reportUndeletable(session, queue, 'discarded')
  return undeletable > 0 ? exitCode.failed : exitCode.ok
}

/** Opens the dead-letter destination, and closes it in any case: the letters of a RabbitMQ queue return to it then. */
async function withQueue(session: Session, options: QueueOptions, work: (queue: DeadLetterQueue) => Promise<ExitCode>): Promise<ExitCode> {
  const { output, secrets, signal } = session
  const { broker: url, from, group, deliveryLimit } = options
  if (from === undefined || from === '') throw usageError('--from is missing: the dead-letter destination.', 'Such as: --from orders.dead')
  const logger = output.logger()
  await using broker = await unlessAborted(openBroker(url, { option: '--broker', logger, secrets }), signal)
  return await talkingTo(broker.address, async () => {
    const queue = await unlessAborted(lettersOf(broker, from, { group, deliveryLimit }).then(openLetters), signal)
    try {
      return await work(queue)
    } finally {
      await closeWithin(() => queue[Symbol.asyncDispose]())
    }
  })
}

function filterOf({ type, source, since, until }: FilterOptions): LetterFilter {
  return { type, source, since, until }
}

function selectionOf(ids: readonly string[], options: FilterOptions): LetterFilter {
  return ids.length > 0 ? { ids: new Set(ids) } : filterOf(options)
}

/** Rejects a selection that would be everything by accident. */
function checkSelection(ids: readonly string[], options: SelectOptions): void {
  const filtered = Object.values(filterOf(options)).some((value) => value !== undefined)
  if (ids.length > 0 && (filtered || options.all === true)) throw usageError('Use either ids or a filter, not both.')
  if (filtered && options.all === true) throw usageError('Use either a filter or --all, not both.')
  if (ids.length > 0 || filtered || options.all === true) return
  throw usageError('No letters are selected.', 'Pass ids, or --type, --source, --since or --until, or --all.')
}

function reportUndeletable({ output }: Session, { undeletable }: DeadLetterQueue, done: 'replayed' | 'discarded'): void {
  if (undeletable === 0) return
  output.line(
    `Kafka cannot delete single records: ${lettersText(undeletable)} ${undeletable === 1 ? 'was' : 'were'} ${done} and ${undeletable === 1 ? 'stays' : 'stay'} listed, behind an older one of the same partition. Replay or discard that one too.`,
  )
}

function noneFound(output: Session['output']): 1 {
  output.line('None of these ids belongs to a letter.')
  return exitCode.failed
}

function someMissing(output: Session['output']): 1 {
  output.line('Some of these ids belong to no letter.')
  return exitCode.failed
}

function lettersText(count: number): string {
  return `${count} ${count === 1 ? 'letter' : 'letters'}`
}

/** Milliseconds between two updates. */
const pause = 100

/** How many of how many, and how many per second; on a terminal. */
function progressView({ output }: Session, total: number): { show(result: ReplayResult): void; clear(): void } {
  const startedAt = systemRuntime.monotonic()
  let shownAt = -Infinity
  return {
    show({ replayed, failed, skipped }) {
      const now = systemRuntime.monotonic()
      if (now - shownAt < pause) return
      shownAt = now
      const perSecond = Math.round((replayed * 1000) / Math.max(1, now - startedAt))
      output.progress(`${replayed + failed + skipped} of ${total} letters, ${perSecond}/s`)
    },
    clear: () => output.progress(''),
  }
}
