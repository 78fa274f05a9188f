import { Command, InvalidArgumentError, Option } from 'commander'
import { usageError } from '../output/errors.ts'
import { loadConfig } from './config-file.ts'
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
function settingsOf(command: Command): readonly Setting[] {
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

/** Fills in what was not typed: from the environment, else from the configuration file. */
export async function applySettings(command: Command, environment: NodeJS.ProcessEnv): Promise<void> {
  const config = await loadConfig(command.opts()['config'])
  if (config !== undefined) checkKeys(command, config.name, Object.keys(config.values))
  for (const setting of settingsOf(command)) {
    const name = setting.option.attributeName()
    if (command.getOptionValueSource(name) === 'cli') continue
    const fromEnvironment = environment[setting.variable]
    if (fromEnvironment !== undefined && fromEnvironment !== '') {
      command.setOptionValueWithSource(name, parsed(setting, [fromEnvironment], setting.variable), 'env')
      continue
    }
    const fromFile = config?.values[setting.key]
    if (fromFile === undefined || config === undefined) continue
    const where = `'${setting.key}' in ${config.name}`
    command.setOptionValueWithSource(name, parsed(setting, textsOf(fromFile, where), where), 'config')
  }
}

/** A misspelt key must not be ignored. Those of other commands are fine. */
function checkKeys(command: Command, file: string, keys: readonly string[]): void {
  let root = command
  while (root.parent !== null) root = root.parent
  const known = new Set(allSettings(root).map(({ key }) => key))
  const unknown = keys.find((key) => !known.has(key))
  if (unknown !== undefined)
    throw usageError(`${file} has the key '${unknown}', which is no option.`, `Known are: ${[...known].sort().join(', ')}`)
}

/** As if it had been typed, so that all three are checked alike. */
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

/** What the file has, as it would have been typed. */
function textsOf(value: unknown, where: string): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((each) => textsOf(each, where))
  if (typeof value === 'object' && value !== null) return Object.entries(value).map(([name, each]) => `${name}=${String(each)}`)
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return [String(value)]
  throw usageError(`${where} must be a text, a number, true or false, a list or an object.`)
}
