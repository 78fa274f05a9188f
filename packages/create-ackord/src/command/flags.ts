import { parseArgs } from 'node:util'
import type { Broker, Client, Framework, Store } from '../choices/catalog.ts'
import { parseBroker, parseClient, parseFramework, parseStore } from '../choices/choices.ts'
import { InvalidChoiceError } from '../choices/invalid-choice-error.ts'

/** The arguments of the command. What is `undefined` was not given. */
export interface Flags {
  readonly directory: string | undefined
  readonly name: string | undefined
  readonly store: Store | undefined
  readonly client: Client | undefined
  readonly broker: Broker | undefined
  readonly framework: Framework | undefined
  readonly yes: boolean
  readonly install: boolean
  readonly force: boolean
  readonly help: boolean
  readonly version: boolean
}

const options = {
  name: { type: 'string' },
  store: { type: 'string' },
  client: { type: 'string' },
  broker: { type: 'string' },
  framework: { type: 'string' },
  yes: { type: 'boolean', short: 'y', default: false },
  'no-install': { type: 'boolean', default: false },
  force: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
  version: { type: 'boolean', short: 'v', default: false },
} as const

/** Rejects unknown flags and values, with an `InvalidChoiceError`. */
export function parseFlags(args: readonly string[]): Flags {
  const { values, positionals } = parse(args)
  const [directory, extra] = positionals
  if (extra !== undefined) throw new InvalidChoiceError(`Only one directory can be given; there are '${directory}' and '${extra}'.`)
  const store = optional(values.store, parseStore)
  if (values.client !== undefined && store === undefined)
    throw new InvalidChoiceError('--client needs --store, because it is a client of the store.')
  return {
    directory,
    name: values.name,
    store,
    client: store === undefined ? undefined : optional(values.client, (value) => parseClient(value, store)),
    broker: optional(values.broker, parseBroker),
    framework: optional(values.framework, parseFramework),
    yes: values.yes,
    install: !values['no-install'],
    force: values.force,
    help: values.help,
    version: values.version,
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    // The texts of parseArgs() name the flag, and continue with advice on positional arguments.
    const [text = ''] = (error as Error).message.split('. ')
    throw new InvalidChoiceError(`${text.replace(/\.$/, '')}. --help lists the flags.`)
  }
}

function optional<Value>(value: string | undefined, parseValue: (value: string) => Value): Value | undefined {
  return value === undefined ? undefined : parseValue(value)
}
