import { type Command, InvalidArgumentError } from 'commander'
import { usageError } from './command-error.ts'
import { loadConfig } from './config-file.ts'
import { allSettings, type Setting, settingsOf } from './settings.ts'

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
