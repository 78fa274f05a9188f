import { Command, InvalidArgumentError, Option } from 'commander'
import { usageError } from '../output/errors.ts'
import { loadConfig } from './config-file.ts'
import { parseDuration } from './duration.ts'

/** Parses a typed text. Throws commander's `InvalidArgumentError`. */
type Parse = (text: string, previous: unknown) => unknown

export interface Setting {
  readonly option: Option
  /** The environment variable. */
  readonly variable: string
  /** The key in the configuration file. */
  readonly key: string
}

const settings = new WeakMap<Option, Setting>()
const mayBeEmpty = new WeakSet<Option>()

/** Makes an option accept an empty value. Others reject it. */
export function allowEmpty(option: Option): Option {
  mayBeEmpty.add(option)
  return option
}

/** An option that can also be set by an environment variable and the configuration file. */
export function setting(flags: string, description: string, options: { readonly parse?: Parse; readonly key?: string } = {}): Option {
  const option = new Option(flags)
  if (options.parse !== undefined) option.argParser(options.parse)
  const key = options.key ?? option.attributeName()
  const variable = `ACKORD_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
  option.description = `${description} [${variable}]`
  settings.set(option, { option, variable, key })
  return option
}

/** The settings of a command. */
function settingsOf(command: Command): readonly Setting[] {
  return command.options.flatMap((option) => settings.get(option) ?? [])
}

/** The option of a command, or of its subcommands, with the URL of the store or of the broker. Its name depends on the command. */
export function urlOption(command: Command, kind: 'store' | 'broker'): Option | undefined {
  const own = command.options.find((option) => settings.get(option)?.key === kind || option.long === `--${kind}`)
  return own ?? command.commands.map((each) => urlOption(each, kind)).find((option) => option !== undefined)
}

/** The settings of a command and all its subcommands. */
export function allSettings(command: Command): readonly Setting[] {
  return [...settingsOf(command), ...command.commands.flatMap(allSettings)]
}

/** Options that all commands have. */
export function newCommand(name: string): Command {
  return new Command(name)
    .option('--json', 'print JSON instead of text, for programs')
    .option('--config <file>', 'the configuration file (default: ackord.config.ts, .js, .mjs or .json in this directory)')
}

/** For help: the URL schemes of stores. */
export const storeUrls = 'postgres://, mysql://, sqlite:, redis:// or redis+cluster://'

/** Options that locate the store; the same for all commands that use one. */
export function storeCommand(name: string): Command {
  return addStoreOptions(newCommand(name).addOption(setting('--store <url>', storeUrls)))
}

export function addStoreOptions(command: Command): Command {
  return command
    .addOption(setting('--schema <name>', 'the namespace of the tables (SQL)'))
    .addOption(allowEmpty(setting('--prefix <text>', "the prefix of the table names (SQL; default: 'ackord_')")))
    .addOption(
      setting('--outbox <kind>', 'stream or lua, the same as in the writing services (Redis; default: stream)', { parse: parseOutbox }),
    )
    .addOption(setting('--stream <name>', "the name of the outbox in its keys (Redis; default: 'outbox', with lua 'lua-outbox')"))
    .addOption(setting('--tag <tag>', "a hash tag of the outbox; repeatable (Redis; default: 'ackord')", { parse: parseList }))
    .addOption(setting('--shards <count>', 'the number of shards (Lua outbox; default: 1)', { parse: parseInteger(1, 16_384) }))
}

/** For commands that have `--order`. */
export function modeOption(description: string): Option {
  return setting('--mode <mode>', description, { parse: parseChoice('table', 'log') })
}

/** Options that select records; the same for all commands that search for some. */
export function addFilter(command: Command): Command {
  return command
    .addOption(messageIdOption('only the records of the message with this id'))
    .option('--destination <name>', 'only records for this destination')
    .option('--type <type>', 'only events of this type')
    .option('--key <key>', 'only records with this ordering key')
    .option('--cause <text>', 'only records with this cause, as listed by `ackord failures`')
    .option('--error <text>', 'only records whose last error contains this text')
    .option('--older-than <duration>', 'only records that were stored longer ago than this', parseDuration)
    .option('--newer-than <duration>', 'only records that were stored more recently than this', parseDuration)
}

/** `description`: what the command does with the records of a message. */
export function messageIdOption(description: string): Option {
  return new Option('--message-id <id>', `${description}, as printed in logs`).argParser((text: string) => {
    if (text !== '') return text
    throw new InvalidArgumentError('It must be a non-empty id.')
  })
}

/** Shorter intervals would keep the store busy; longer ones exceed a timer. */
const watchLimits = { min: 100, max: 86_400_000 }

/** Adds the option that repeats the command. Its value is the milliseconds between two refreshes. */
export function addWatch(command: Command): Command {
  const option = new Option('--watch [interval]', 'refresh until Ctrl-C, by default every 2s')
  return command.addOption(option.preset('2s').argParser(parseWatchInterval))
}

function parseWatchInterval(text: string): number {
  const interval = parseDuration(text)
  if (interval >= watchLimits.min && interval <= watchLimits.max) return interval
  throw new InvalidArgumentError('It must be from 100ms to 24h; a number without a unit is milliseconds.')
}

export function parseInteger(min: number, max: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (Number.isSafeInteger(value) && value >= min && value <= max && text.trim() !== '') return value
    throw new InvalidArgumentError(
      max === Number.MAX_SAFE_INTEGER ? `It must be a whole number, ${min} or more.` : `It must be a whole number from ${min} to ${max}.`,
    )
  }
}

export function parseChoice(...choices: readonly string[]): (text: string) => string {
  return (text) => {
    if (choices.includes(text)) return text
    throw new InvalidArgumentError(`It must be one of: ${choices.join(', ')}.`)
  }
}

export const parseOutbox: (text: string) => string = parseChoice('stream', 'lua')

/** Like `parseDuration`, but greater than zero. */
export function parsePositiveDuration(text: string): number {
  const duration = parseDuration(text)
  if (duration >= 1) return duration
  throw new InvalidArgumentError('It must be at least 1ms.')
}

/** Repeatable, or several values in one text with commas. */
export function parseList(text: string, previous: unknown): readonly string[] {
  const values = text.split(',').map((value) => value.trim())
  if (values.includes('')) throw new InvalidArgumentError('It must be a non-empty name.')
  return [...(Array.isArray(previous) ? (previous as string[]) : []), ...values]
}

/** `name=value`, repeatable, or several in one text with commas. */
export function parsePairs(text: string, previous: unknown): ReadonlyMap<string, string> {
  const pairs = new Map(previous instanceof Map ? (previous as Map<string, string>) : [])
  for (const pair of text.split(',')) {
    const [, name, value] = /^\s*([^=]+?)\s*=\s*(.+?)\s*$/.exec(pair) ?? []
    if (name === undefined || value === undefined) throw new InvalidArgumentError('Write it as name=value.')
    if (pairs.has(name)) throw new InvalidArgumentError(`'${name}' is set twice.`)
    pairs.set(name, value)
  }
  return pairs
}

/** The options that were not set by a flag: the name that the user wrote instead, such as `ACKORD_LEASE`, by the flag. */
export type WrittenNames = ReadonlyMap<string, string>

/** Fills in options that were not typed: from the environment, else from the configuration file. */
export async function applySettings(command: Command, environment: NodeJS.ProcessEnv): Promise<WrittenNames> {
  const written = new Map<string, string>()
  const config = await loadConfig(command.opts()['config'])
  if (config !== undefined) checkKeys(command, config.name, Object.keys(config.values))
  for (const setting of settingsOf(command)) {
    const name = setting.option.attributeName()
    if (command.getOptionValueSource(name) === 'cli') continue
    const flag = setting.option.long ?? ''
    const fromEnvironment = environment[setting.variable]
    if (fromEnvironment !== undefined && fromEnvironment !== '') {
      written.set(flag, setting.variable)
      command.setOptionValueWithSource(name, parsed(setting, [fromEnvironment], setting.variable), 'env')
      continue
    }
    const fromFile = config?.values[setting.key]
    if (fromFile === undefined || config === undefined) continue
    const where = `'${setting.key}' in ${config.name}`
    written.set(flag, where)
    command.setOptionValueWithSource(name, parsed(setting, textsOf(fromFile, where), where), 'config')
  }
  for (const option of command.options) rejectEmpty(option, command, written)
  return written
}

/** Mostly the value of a shell variable that is not set: as a filter or a name it would mean something else than intended. */
function rejectEmpty(option: Option, command: Command, written: WrittenNames): void {
  if (command.getOptionValue(option.attributeName()) !== '' || mayBeEmpty.has(option)) return
  const flag = option.long ?? ''
  throw usageError(`${written.get(flag) ?? flag} is empty.`, 'Is the variable that it comes from set? Otherwise omit it.')
}

/** A misspelt key must not be ignored. Keys of other commands are allowed. */
function checkKeys(command: Command, file: string, keys: readonly string[]): void {
  let root = command
  while (root.parent !== null) root = root.parent
  const known = new Set(allSettings(root).map(({ key }) => key))
  const unknown = keys.find((key) => !known.has(key))
  if (unknown !== undefined)
    throw usageError(`${file} has the key '${unknown}', which is not an option.`, `Known keys: ${[...known].sort().join(', ')}`)
}

/** Applied as if it had been typed, so that all three sources are validated alike. */
function parsed({ option }: Setting, texts: readonly string[], where: string): unknown {
  if (option.isBoolean()) return flagOf(texts[0] ?? '', where)
  let value: unknown
  for (const text of texts) {
    try {
      value = option.parseArg === undefined ? text : option.parseArg(text, value as never)
    } catch (error) {
      if (error instanceof InvalidArgumentError) throw usageError(`${where} is invalid. ${error.message}`)
      throw error
    }
  }
  return value
}

function flagOf(text: string, where: string): boolean {
  if (text === '1' || text === 'true') return true
  if (text === '0' || text === 'false') return false
  throw usageError(`${where} must be true or false.`)
}

/** A value of the file, as it would have been typed. */
function textsOf(value: unknown, where: string): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((each) => textsOf(each, where))
  if (typeof value === 'object' && value !== null) return Object.entries(value).map(([name, each]) => `${name}=${String(each)}`)
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return [String(value)]
  throw usageError(`${where} must be a string, a number, true or false, a list or an object.`)
}
