import { AckordError, type DeadLetter, MemoryBroker, type Publisher, type Source, silentLogger } from '@ackord/core'
import type { ResultTable } from '../../run/result-table.ts'
import type { Scenario } from '../../run/scenario.ts'

/** What a broker claims beyond the base. Each claim adds scenarios or tightens what they ask for; none takes anything away. Default of each: not claimed. */
export interface BrokerClaims {
  /** Sources of one group share its messages one by one: what one of them holds does not keep the next from another. */
  readonly competing?: boolean | undefined
  /**
   * Verdicts count message by message: what is acked never comes again, whatever its neighbours do, and without a fault nothing comes twice. A log with
   * one offset for many messages cannot claim it.
   */
  readonly settlesEach?: boolean | undefined
  /** Of each `partitionkey` one message is in hand at a time, in the order in which they were published, also across nacks and another source. */
  readonly order?: 'perKey' | undefined
  /** A nack with a delay keeps the message away for that long. */
  readonly delay?: boolean | undefined
  /** Deliveries are counted. */
  readonly deliveryCount?: boolean | undefined
  /** Each group gets every message. */
  readonly groups?: boolean | undefined
  /** A group that begins later gets what others have settled before. */
  readonly replay?: boolean | undefined
  /** Attributes keep their type: numbers, booleans and bytes do not become texts. */
  readonly types?: boolean | undefined
  /** Attributes may have any name, also one that CloudEvents does not allow. */
  readonly names?: boolean | undefined
  /** A destination has to be made before it can be published to. */
  readonly declared?: boolean | undefined
  /** Messages may be too large: the world has `tooLarge`. */
  readonly sizeLimit?: boolean | undefined
  /** What is published again, with the same source and id, is dropped. */
  readonly dropsRepeats?: boolean | undefined
  /** The world has `restart()`. */
  readonly restart?: boolean | undefined
}

export interface BrokerSourceOptions {
  /** Consumers of one group share its messages. Another group than the default one is asked for only with the claims `groups` and `replay`. Default: the topic's first. */
  readonly group?: string | undefined
  readonly deadLetter?: DeadLetter | undefined
  /** How many messages an iteration may hold. Where the broker has nothing like it, it is ignored. Default: the broker's own. */
  readonly prefetch?: number | undefined
}

/** Where messages of one kind go, and come from. It is made before it is handed out, and empty. */
export interface BrokerTopic {
  readonly destination: string
  /** As another process has it, where that makes a difference. Disposed with the world, unless it was before. */
  source(options?: BrokerSourceOptions): Source & AsyncDisposable
}

/** A broker for one scenario. Disposing it removes what it made. */
export interface BrokerWorld extends AsyncDisposable {
  /** Milliseconds after which something that should happen counts as not happening. Default: 20,000. */
  readonly patience?: number | undefined
  /** The bytes of a message that is as large as the broker takes it, or as large as is worth testing. Default: 1,048,576. */
  readonly largest?: number | undefined
  /** The bytes of one that is too large, with the claim `sizeLimit`. */
  readonly tooLarge?: number | undefined
  topic(): Promise<BrokerTopic>
  /** A publisher of its own. Disposed with the world, unless it was before. */
  publisher(): Publisher & AsyncDisposable
  /** The name of a destination that nobody has made, with the claim `declared`. */
  missing?(): string
  /** Stops the broker's server and starts it again, with the claim `restart`. Resolves when it takes connections. */
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
  readonly #broker: MemoryBroker
  readonly #publishing = new Set<Promise<unknown>>()
  #disposed = false

  constructor(broker: MemoryBroker) {
    this.#broker = broker
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
