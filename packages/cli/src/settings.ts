import { Command, InvalidArgumentError, Option } from 'commander'
import { parseDuration } from './duration.ts'

/** What becomes of a text that was typed. Throws commander's `InvalidArgumentError`. */
type Parse = (text: string, previous: unknown) => unknown

export interface Setting {
  readonly option: Option
  /** The environment variable. */
  readonly variable: string
  /** The key in the configuration file. */
  readonly key: string
}

const settings = new WeakMap<Option, Setting>()

/** An option that can also be given by an environment variable and the configuration file. */
export function setting(flags: string, description: string, options: { readonly parse?: Parse; readonly key?: string } = {}): Option {
  const option = new Option(flags)
  if (options.parse !== undefined) option.argParser(options.parse)
  const key = options.key ?? option.attributeName()
  const variable = `ACKORD_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
  option.description = `${description} [${variable}]`
  settings.set(option, { option, variable, key })
  return option
}

/** Those of a command. */
export function settingsOf(command: Command): readonly Setting[] {
  return command.options.flatMap((option) => settings.get(option) ?? [])
}

/** Those of a command and all below it. */
export function allSettings(command: Command): readonly Setting[] {
  return [...settingsOf(command), ...command.commands.flatMap(allSettings)]
}

/** Options that all commands have. */
export function newCommand(name: string): Command {
  return new Command(name)
    .option('--json', 'for programs: JSON instead of text')
    .option('--config <file>', 'the configuration file (default: ackord.config.ts, .js, .mjs or .json in this directory)')
}

/** For help: what a store's URL begins with. */
export const storeUrls = 'postgres://, mysql://, sqlite:, redis:// or redis+cluster://'

/** Where the store is; the same for all commands that work on one. */
export function storeCommand(name: string): Command {
  return addPlace(newCommand(name).addOption(setting('--store <url>', storeUrls)))
}

export function addPlace(command: Command): Command {
  return command
    .addOption(setting('--schema <name>', 'the namespace of the tables (SQL)'))
    .addOption(setting('--prefix <text>', "what the names of the tables begin with (SQL; default: 'ackord_')"))
    .addOption(setting('--outbox <kind>', 'stream or lua, as those who write have it (Redis; default: stream)', { parse: parseOutbox }))
    .addOption(setting('--stream <name>', "what the keys of the outbox are called (Redis; default: 'outbox', with lua 'lua-outbox')"))
    .addOption(
      setting('--tag <tag>', "a hash tag of the outbox, several times for several (Redis; default: 'ackord')", { parse: parseList }),
    )
    .addOption(setting('--shards <count>', 'into how many parts it is divided (Lua outbox; default: 1)', { parse: parseWhole(1, 16_384) }))
}

/** Which records; the same for all commands that look for some. */
export function addFilter(command: Command): Command {
  return command
    .option('--destination <name>', 'only those for this destination')
    .option('--type <type>', 'only events of this type')
    .option('--key <key>', 'only those with this ordering key')
}

export function parseWhole(min: number, max: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (Number.isSafeInteger(value) && value >= min && value <= max && text.trim() !== '') return value
    throw new InvalidArgumentError(
      max === Number.MAX_SAFE_INTEGER ? `Give a whole number, ${min} or more.` : `Give a whole number from ${min} to ${max}.`,
    )
  }
}

export function parseChoice(...choices: readonly string[]): (text: string) => string {
  return (text) => {
    if (choices.includes(text)) return text
    throw new InvalidArgumentError(`Choose one of: ${choices.join(', ')}.`)
  }
}

export const parseOutbox: (text: string) => string = parseChoice('stream', 'lua')

/** Like `parseDuration`, but not zero. */
export function parsePositiveDuration(text: string): number {
  const duration = parseDuration(text)
  if (duration >= 1) return duration
  throw new InvalidArgumentError('Give at least 1ms.')
}

/** Several times, or several in one text with commas. */
export function parseList(text: string, previous: unknown): readonly string[] {
  const values = text.split(',').map((value) => value.trim())
  if (values.includes('')) throw new InvalidArgumentError('Give a name that is not empty.')
  return [...(Array.isArray(previous) ? (previous as string[]) : []), ...values]
}

/** `name=value`, several times, or several in one text with commas. */
export function parsePairs(text: string, previous: unknown): ReadonlyMap<string, string> {
  const pairs = new Map(previous instanceof Map ? (previous as Map<string, string>) : [])
  for (const pair of text.split(',')) {
    const [, name, value] = /^\s*([^=]+?)\s*=\s*(.+?)\s*$/.exec(pair) ?? []
    if (name === undefined || value === undefined) throw new InvalidArgumentError('Write it as name=value.')
    if (pairs.has(name)) throw new InvalidArgumentError(`'${name}' is there twice.`)
    pairs.set(name, value)
  }
  return pairs
}
