import { AckordError, type DeadLetter, MemoryBroker, type Publisher, type Source, silentLogger } from '@ackord/core'
import type { ResultTable } from '../../run/result-table.ts'
import type { Scenario } from '../../run/scenario.ts'

/** The optional promises of a broker. Each claim adds scenarios or makes them stricter; none removes any. Default of each: not claimed. */
export interface BrokerClaims {
  /** Sources of one group share its messages one by one: a message that one source holds does not block the next one for another source. */
  readonly competing?: boolean | undefined
  /**
   * Each message is settled separately: an acked message is never redelivered, whatever happens to its neighbours, and without a fault no message is delivered twice. A log with
   * one offset for many messages cannot claim it.
   */
  readonly settlesEach?: boolean | undefined
  /** One message per `partitionkey` is unsettled at a time, in the order of the publishes, including after nacks and with another source. */
  readonly order?: 'perKey' | undefined
  /** A nack with a delay delays the redelivery. */
  readonly delay?: boolean | undefined
  /** Deliveries are counted. */
  readonly deliveryCount?: boolean | undefined
  /** Each group gets every message. */
  readonly groups?: boolean | undefined
  /** A group that starts later gets messages that other groups have settled before. */
  readonly replay?: boolean | undefined
  /** Attributes keep their type: numbers, booleans and bytes do not become strings. */
  readonly types?: boolean | undefined
  /** Attributes may have any name, including names that CloudEvents does not allow. */
  readonly names?: boolean | undefined
  /** A destination must be created before it can be published to. */
  readonly declared?: boolean | undefined
  /** The dead letter of a rejected message names the destination that the message was published to. */
  readonly origin?: boolean | undefined
  /** Messages may be too large: the world has `tooLarge`. */
  readonly sizeLimit?: boolean | undefined
  /** A message that is published again with the same source and id is dropped. */
  readonly dropsRepeats?: boolean | undefined
  /** The world has `restart()`. */
  readonly restart?: boolean | undefined
}

export interface BrokerSourceOptions {
  /** Consumers of one group share its messages. Groups other than the default one are used only with the claims `groups` and `replay`. Default: the topic's first group. */
  readonly group?: string | undefined
  readonly deadLetter?: DeadLetter | undefined
  /** How many unsettled messages an iteration may hold. Ignored if the broker has no such limit. Default: that of the broker. */
  readonly prefetch?: number | undefined
}

/** A destination and its sources. It exists and is empty when it is returned. */
export interface BrokerTopic {
  readonly destination: string
  /** A source as another process would have it, if that makes a difference. Disposed with the world at the latest. */
  source(options?: BrokerSourceOptions): Source & AsyncDisposable
}

/** A broker for one scenario. Disposing it removes everything it created. */
export interface BrokerWorld extends AsyncDisposable {
  /** Milliseconds after which an expected event counts as missing. Default: 20,000. */
  readonly patience?: number | undefined
  /** The size in bytes of the largest message that the broker accepts, or the largest one worth testing. Default: 1,048,576. */
  readonly largest?: number | undefined
  /** The size in bytes of a message that is too large, with the claim `sizeLimit`. */
  readonly tooLarge?: number | undefined
  topic(): Promise<BrokerTopic>
  /** A new publisher. Disposed with the world at the latest. */
  publisher(): Publisher & AsyncDisposable
  /** The name of a destination that does not exist, with the claim `declared`. */
  missing?(): string
  /** Restarts the server of the broker, with the claim `restart`. Resolves when it accepts connections. */
  restart?(): Promise<void>
}

export type OpenBrokerWorld = () => Promise<BrokerWorld>
export type BrokerScenario = Scenario<OpenBrokerWorld>

export interface BrokerSubject {
  /** Names the broker in titles and in the table. */
  readonly name: string
  /** Called for each scenario. */
  readonly open: OpenBrokerWorld
  readonly claims: BrokerClaims
  readonly results?: ResultTable | undefined
}

export const memoryBrokerClaims: BrokerClaims = {
  competing: true,
  settlesEach: true,
  order: 'perKey',
  delay: true,
  deliveryCount: true,
  groups: true,
  types: true,
  names: true,
  origin: true,
}

/** The in-memory broker, with order per key. */
export async function openMemoryBrokerWorld(): Promise<BrokerWorld> {
  const broker = new MemoryBroker({ logger: silentLogger })
  let topics = 0
  return {
    async topic() {
      topics += 1
      const destination = `topic${topics}`
      return { destination, source: (options) => broker.source(destination, { orderPerKey: true, ...options }) }
    },
    publisher: () => new MemoryPublisher(broker),
    [Symbol.asyncDispose]: () => broker.close(),
  }
}

/** The broker stays open when one of its publishers is disposed. */
class MemoryPublisher implements Publisher, AsyncDisposable {
  readonly system: string
  readonly #broker: MemoryBroker
  readonly #publishing = new Set<Promise<unknown>>()
  #disposed = false

  constructor(broker: MemoryBroker) {
    this.#broker = broker
    this.system = broker.system
  }

  readonly publish: Publisher['publish'] = async (destination, messages, options) => {
    if (this.#disposed) throw new AckordError('ACKORD_SHUTDOWN', 'The publisher is closed.')
    const publishing = this.#broker.publish(destination, messages, options)
    this.#publishing.add(publishing)
    try {
      return await publishing
    } finally {
      this.#publishing.delete(publishing)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true
    await Promise.allSettled(this.#publishing)
  }
}
