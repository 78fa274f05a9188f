import type { BrokerAddress } from '@ackord/core'
import { redactDestination } from '@ackord/core/internal'
import type { Attributes as OtelAttributes } from '@opentelemetry/api'
import { attribute, unknownSystem } from '../conventions.ts'

export type OperationType = 'create' | 'send' | 'process' | 'settle' | 'receive'

/** The name and attributes that spans and metrics of an operation on one destination share. */
export interface Operation {
  readonly spanName: string
  /** Few names and few values: they are the attributes of metrics too. */
  readonly attributes: Readonly<OtelAttributes>
}

/** Beyond this number of destinations all further ones are shown as `other`: names that a sender invents must fill neither this table nor a metrics server. */
const maxDestinations = 1000
const otherDestinations = 'other'

interface Entry extends Operation, BrokerAddress {}

/** The operations of one name, by destination. They are kept, because redacting a name and building attributes for each message would be expensive. */
export class Operations {
  readonly #name: string
  readonly #type: OperationType
  readonly #entries = new Map<string, Entry>()

  constructor(name: string, type: OperationType) {
    this.#name = name
    this.#type = type
  }

  on(destination: string | undefined, broker: BrokerAddress | undefined): Operation {
    const { system, serverAddress, serverPort } = broker ?? nowhere
    const known = this.#entries.get(destination ?? '')
    // A connection may change its server.
    if (known !== undefined && known.system === system && known.serverAddress === serverAddress && known.serverPort === serverPort)
      return known
    const isNew = known === undefined && this.#entries.size >= maxDestinations
    const kept = isNew ? otherDestinations : (destination ?? '')
    if (isNew && this.#entries.has(kept)) return this.on(kept, broker)
    const entry = this.#create(kept, { system, serverAddress, serverPort })
    this.#entries.set(kept, entry)
    return entry
  }

  #create(destination: string, broker: BrokerAddress): Entry {
    const { system = unknownSystem, serverAddress, serverPort } = broker
    const shown = destination === '' ? undefined : redactDestination(destination)
    const attributes = {
      [attribute.systemName]: system,
      [attribute.operationName]: this.#name,
      [attribute.operationType]: this.#type,
      ...(shown === undefined ? {} : { [attribute.destinationName]: shown }),
      ...(serverAddress === undefined ? {} : { [attribute.serverAddress]: serverAddress }),
      ...(serverAddress === undefined || serverPort === undefined ? {} : { [attribute.serverPort]: serverPort }),
    }
    // Frozen: counters recognise it by its identity.
    Object.freeze(attributes)
    return { ...broker, spanName: shown === undefined ? this.#name : `${this.#name} ${shown}`, attributes }
  }
}

const nowhere: BrokerAddress = {}
