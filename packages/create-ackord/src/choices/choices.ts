import { type Broker, brokers, type Client, clients, type Framework, frameworks, type Option, type Store, stores } from './catalog.ts'
import { InvalidChoiceError } from './invalid-choice-error.ts'

/** The parts that a project consists of. Every store works with every broker and every framework; a client belongs to its store. */
export interface Choices {
  readonly store: Store
  readonly client: Client
  readonly broker: Broker
  readonly framework: Framework
}

export function parseStore(value: string): Store {
  return parseOption('--store', value, stores)
}

export function parseBroker(value: string): Broker {
  return parseOption('--broker', value, brokers)
}

export function parseFramework(value: string): Framework {
  return parseOption('--framework', value, frameworks)
}

/** `value` may be of another store: the error then says which clients work with this one. */
export function parseClient(value: string, store: Store): Client {
  const options = clients[store]
  const found = options.find((option) => option.value === value)
  if (found !== undefined) return found.value
  throw new InvalidChoiceError(`--client ${value} does not work with --store ${store}. Use ${listed(options)}.`)
}

function parseOption<Value extends string>(flag: string, value: string, options: readonly Option<Value>[]): Value {
  const found = options.find((option) => option.value === value)
  if (found !== undefined) return found.value
  throw new InvalidChoiceError(`${flag} must be ${listed(options)}, not '${value}'.`)
}

function listed(options: readonly Option[]): string {
  const values = options.map(({ value }) => value)
  const last = values.pop()
  return values.length === 0 ? `${last}` : `${values.join(', ')} or ${last}`
}
