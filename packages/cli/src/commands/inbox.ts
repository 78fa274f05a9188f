import { systemRuntime } from '@ackord/core'
import type { InboxEntry } from '@ackord/outbox'
import { type Command, Option } from 'commander'
import { confirm } from '../output/confirm.ts'
import { exitCode, usageError } from '../output/errors.ts'
import type { Column } from '../output/table.ts'
import { instant, printable, toSeconds } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { formatDuration } from '../settings/duration.ts'
import { allowEmpty, newCommand, parsePositiveDuration, setting, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import type { Store } from '../stores/store.ts'

interface InboxOptions extends StoreOptions {
  readonly consumer?: string | undefined
  readonly source?: string | undefined
}

interface ShowOptions extends InboxOptions {
  readonly inboxWindow?: number | undefined
}

interface ForgetOptions extends InboxOptions {
  readonly yes?: boolean | undefined
}

export function inboxCommand(execute: Execute): Command {
  return newCommand('inbox')
    .description('Shows which consumers have handled a message, and makes one forget it.')
    .addCommand(showCommand(execute))
    .addCommand(forgetCommand(execute))
}

function entryCommand(name: string): Command {
  return storeCommand(name)
    .argument('<id>', 'id of the message, or the result of the option `key` of its inbox')
    .option('--consumer <name>', 'the `consumer` of the inbox; required on Redis')
    .addOption(
      allowEmpty(
        new Option('--source <source>', "the source of the message; '' if it has none, or if the inbox has a `key`; required on Redis"),
      ),
    )
}

function showCommand(execute: Execute): Command {
  return entryCommand('show')
    .description('Shows whether a message was handled, by which consumers, and when. Exit code 1 if no consumer has an entry of it.')
    .addOption(
      setting('--inbox-window <duration>', 'the window of the cleanup, to show until when the entries are remembered (SQL)', {
        parse: parsePositiveDuration,
      }),
    )
    .action(
      execute(async (session, options: ShowOptions, [id = '']) => {
        const { output } = session
        const { consumer, source, inboxWindow } = options
        await using store = await openStoreOf(options, session)
        checkQuery(store, options)
        const found = await store.inbox(output.logger()).find(id, { consumer, source })
        const entries = found.map((entry) => shownEntry(entry, inboxWindow))
        output.object({ id, handled: entries.some(({ state }) => state === 'handled'), entries: entries.map(entryObject) })
        if (entries.length === 0) output.line(`No consumer${ofQuery(options)} has handled '${printable(id)}', or its entry has expired.`)
        else for (const line of output.table(columns, entries)) output.line(line)
        if (entries.some(isLeftToCleanup)) output.line(`\n${cleanupText}`)
        return entries.length === 0 ? exitCode.failed : exitCode.ok
      }),
    )
}

function forgetCommand(execute: Execute): Command {
  return entryCommand('forget')
    .description('Makes a consumer forget a message: it is handled again if it is redelivered or replayed.')
    .option('--yes', 'do not ask; required without a terminal')
    .action(
      execute(async (session, options: ForgetOptions, [id = '']) => {
        const { output, signal } = session
        const { consumer, source, yes } = options
        if (consumer === undefined) throw usageError('--consumer is missing: each consumer remembers messages on its own.')
        await using store = await openStoreOf(options, session)
        checkQuery(store, options)
        const inbox = store.inbox(output.logger())
        const found = await inbox.find(id, { consumer, source })
        const known = found.filter(({ state }) => state !== 'inProgress')
        const name = `'${printable(id)}'`
        if (known.length === 0) {
          output.object({ forgotten: 0 })
          if (found.length > 0) output.line(`Consumer '${printable(consumer)}' is handling ${name} now. Try again when it has ended.`)
          else output.line(`Consumer '${printable(consumer)}' has no entry of ${name}.`)
          return exitCode.failed
        }
        const entries = known.length === 1 ? 'its entry' : `its ${known.length} entries, one per source,`
        const question = `Consumer '${printable(consumer)}' forgets ${name} if ${entries} ${known.length === 1 ? 'is' : 'are'} deleted: the message is handled again, with all its effects, if it is redelivered or replayed. Delete?`
        await confirm(output, question, { yes, signal })
        const forgotten = await inbox.forget(id, { consumer, source })
        output.object({ forgotten })
        output.line(`${forgotten} ${forgotten === 1 ? 'entry was' : 'entries were'} deleted. ${name} is handled again if it arrives again.`)
        return forgotten > 0 ? exitCode.ok : exitCode.failed
      }),
    )
}

/** Markers in Redis can be looked up, not searched. */
function checkQuery(store: Store, { consumer, source }: InboxOptions): void {
  if (store.kind !== 'redis' || (consumer !== undefined && source !== undefined)) return
  throw usageError(
    `--${consumer === undefined ? 'consumer' : 'source'} is missing: Redis has a key for each consumer, with a hash of source and id, and cannot be searched for an id.`,
    "Pass --consumer and --source; --source '' for a message without one.",
  )
}

function ofQuery({ consumer, source }: InboxOptions): string {
  const named = consumer === undefined ? '' : ` '${printable(consumer)}'`
  return source === undefined ? named : `${named} with source '${printable(source)}'`
}

interface ShownEntry extends InboxEntry {
  /** Milliseconds since it was handled, where the store knows. */
  readonly age: number | undefined
  /** When it expires by itself, or can be deleted by a cleanup with the given window; `undefined` if that is not known. */
  readonly rememberedUntil: number | undefined
}

function shownEntry(entry: InboxEntry, window: number | undefined): ShownEntry {
  const { handledAt, expiresAt } = entry
  const cleanedAt = handledAt === undefined || window === undefined ? undefined : handledAt + window
  // biome-ignore lint/plugin: for people; the instant is by the clock of the store, which may differ a little.
  const age = handledAt === undefined ? undefined : Math.max(0, Math.round(systemRuntime.now() - handledAt))
  return { ...entry, age, rememberedUntil: expiresAt ?? cleanedAt }
}

function entryObject({ consumer, source, state, handledAt, age, rememberedUntil }: ShownEntry): Record<string, unknown> {
  return {
    consumer,
    source,
    state: states[state],
    handled_at: instant(handledAt),
    age_ms: age,
    remembered_until: instant(rememberedUntil),
  }
}

const columns: readonly Column<ShownEntry>[] = [
  { heading: 'CONSUMER', cell: ({ consumer }) => consumer },
  { heading: 'SOURCE', cell: ({ source }) => source, cut: { rank: 1, min: 8 } },
  { heading: 'STATE', cell: ({ state }) => states[state] },
  { heading: 'HANDLED', cell: handledText },
  { heading: 'AGE', cell: ({ age }) => (age === undefined ? '' : formatDuration(age)) },
  { heading: 'REMEMBERED UNTIL', cell: rememberedText },
]

const states = { handled: 'handled', inProgress: 'in progress', partial: 'partly written' } as const

/** The window is an option of the cleanup, which may run in a service. */
const cleanupText = 'A cleanup deletes an entry when its age exceeds the window. Pass that as --inbox-window to see when.'

function isLeftToCleanup({ handledAt, rememberedUntil }: ShownEntry): boolean {
  return handledAt !== undefined && rememberedUntil === undefined
}

function handledText({ state, handledAt }: ShownEntry): string {
  if (handledAt !== undefined) return toSeconds(handledAt)
  return state === 'inProgress' ? 'not yet' : 'unknown'
}

function rememberedText({ state, handledAt, age = 0, rememberedUntil }: ShownEntry): string {
  if (rememberedUntil === undefined) return handledAt === undefined ? '`ackord inbox forget`' : 'a cleanup'
  if (handledAt !== undefined && rememberedUntil <= handledAt + age) return 'the next cleanup'
  return state === 'inProgress' ? `${toSeconds(rememberedUntil)} (lease)` : toSeconds(rememberedUntil)
}
