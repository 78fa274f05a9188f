import { isAckordError } from '@ackord/core'
import type { Command } from 'commander'
import { CommandError, exitCode } from '../output/errors.ts'
import { urlOption, type WrittenNames } from './settings.ts'

/**
 * The options of the library that users can set, and the flags that set them. Where commands differ, the flag is the first that the command has. Other
 * options of the library are set by the command itself, and its parsers reject most invalid values before the library sees them.
 */
const flagsOf: Readonly<Record<string, readonly string[]>> = {
  schema: ['--schema'],
  names: ['--prefix'],
  stream: ['--stream'],
  name: ['--stream'],
  tag: ['--tag'],
  tags: ['--tag'],
  shards: ['--shards'],
  order: ['--order'],
  mode: ['--mode'],
  onExhausted: ['--on-exhausted'],
  destinations: ['--destinations'],
  'deadLetter.destination': ['--dead-letter'],
  batchSize: ['--batch-size'],
  concurrency: ['--concurrency'],
  totalConcurrency: ['--total-concurrency'],
  lease: ['--lease'],
  publishTimeout: ['--publish-timeout'],
  maxAttempts: ['--max-attempts'],
  pollInterval: ['--poll-interval'],
  shutdownTimeout: ['--shutdown-timeout'],
  'cleanup.keepPublished': ['--keep-published'],
  olderThan: ['--keep-published'],
  window: ['--inbox-window'],
  'inbox.partitions': ['--inbox-partitions'],
  limit: ['--limit', '--batch-size'],
  after: ['--after'],
  delay: ['--delay'],
  reason: ['--reason'],
  destination: ['--set-destination', '--destination'],
  attributes: ['--set-attribute'],
}

/**
 * An error about options, with the names that the user wrote: flags instead of the library's options, and the environment variable or the key of the
 * configuration file instead of a flag that was not typed. Other errors are returned unchanged.
 */
export function withWrittenNames(error: unknown, command: Command, written: WrittenNames): unknown {
  const explained = isAckordError(error, 'ACKORD_INVALID_OPTION') ? withFlag(error, command) : error
  if (!(explained instanceof CommandError) || explained.exitCode !== exitCode.usage) return explained
  // Not in the hint: what it proposes is a flag.
  const message = explained.message.replaceAll(/--[a-z-]+/g, (flag) => written.get(flag) ?? flag)
  return new CommandError(message, { exitCode: exitCode.usage, hint: explained.hint, cause: explained.cause })
}

function withFlag(error: Error, command: Command): unknown {
  const option = 'option' in error ? String(error.option) : ''
  // `tags[0]` is one of several `--tag`; `names.inbox` is one of the tables with a `--prefix`.
  const flags = flagsOf[option.replace(/\[\d+\]$/, '')] ?? flagsOf[option.replace(/\..*$/, '')] ?? []
  const flag = flags.find((each) => command.options.some(({ long }) => long === each))
  if (flag === undefined || !error.message.startsWith(`${option} `)) return error
  const problem = error.message.slice(option.length + 1)
  const text = flag === '--prefix' ? `${flag} makes a table name that ${problem}` : `${flag} ${problem}`
  return new CommandError(text, { exitCode: exitCode.usage, cause: error })
}

/** The kind of URL that these flags take, in the commands that have them. */
const urlKinds: Readonly<Record<string, 'store' | 'broker'>> = {
  '--store': 'store',
  '--from': 'store',
  '--broker': 'broker',
  '--to': 'broker',
}

/** For a flag that is unknown here because other commands have it: the option of this command for the URL. `flag` may have its value behind a `=`. */
export function urlOptionHint(flag: string, command: Command): string | undefined {
  const kind = urlKinds[flag.replace(/=.*$/s, '')]
  if (kind === undefined) return undefined
  const same = urlOption(command, kind)
  if (same !== undefined) return `This command takes the ${kind} as ${same.flags}.`
  const other = kind === 'store' ? 'broker' : 'store'
  const option = urlOption(command, other)
  return option === undefined ? undefined : `This command works on a ${other}, not on a ${kind}: use ${option.flags}.`
}
