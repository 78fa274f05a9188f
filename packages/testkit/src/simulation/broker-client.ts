import {
  createReceiver,
  idle,
  type Message,
  type Publisher,
  type PublishResult,
  type RawMessage,
  type Source,
  silentLogger,
} from '@ackord/core'
import type { Ledger } from './ledger.ts'
import type { Network } from './network.ts'
import type { BrokerDelivery, SimulatedBroker } from './simulated-broker.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { SimulationRules } from './simulation-rules.ts'

export interface BrokerClientOptions {
  readonly broker: SimulatedBroker
  readonly network: Network
  readonly ledger: Ledger
  readonly process: SimulatedProcess
  readonly rules: SimulationRules
}

const reconnectAfter = 1000

/** The commands of a service, as one of its processes has them. */
export class SimulatedSource implements Source {
  readonly #options: BrokerClientOptions
  readonly #service: string
  readonly #receive: (delivery: BrokerDelivery) => RawMessage
  /** A receive that nobody waits for any more, and what it brings. */
  #left: Promise<void> | undefined

  constructor(service: string, options: BrokerClientOptions) {
    this.#options = options
    this.#service = service
    this.#receive = this.#createReceiver()
  }

  async *messages({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<RawMessage, void, void> {
    const aborted = new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }))
    while (!signal.aborted) {
      const receiving = this.#pull(signal)
      const delivery = await Promise.race([receiving, aborted])
      if (signal.aborted) {
        this.#left = receiving.then((late) => (late === undefined ? undefined : this.#nack(late.tag, 0))).catch(() => {})
        return
      }
      if (delivery !== undefined) yield this.#receive(delivery)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#left
  }

  async #pull(signal: AbortSignal): Promise<BrokerDelivery | undefined> {
    const { network, process, broker, rules } = this.#options
    try {
      return await network.call(process, 'receive', this.#service, () => broker.receive(this.#service, process.name))
    } catch (error) {
      if (!rules.reconnects) throw error
      await idle(process.runtime, reconnectAfter, signal)
      return undefined
    }
  }

  #nack(tag: string, delay: number): Promise<void> {
    const { network, process, broker } = this.#options
    return network.call(process, 'nack', `${tag}, again after ${Math.round(delay)}`, () => broker.nack(tag, delay))
  }

  #createReceiver(): (delivery: BrokerDelivery) => RawMessage {
    const { network, process, broker, rules } = this.#options
    const deadLetter = rules.sendsLetters ? { publisher: this.#deadLetters(), destination: `${this.#service}-dead` } : 'discard'
    const receive = createReceiver({ deadLetter, deadLetterTimeout: 4000, runtime: process.runtime, logger: silentLogger })
    return ({ tag, data, attributes, deliveryCount }) =>
      receive({
        data,
        attributes,
        deliveryCount,
        ack: () => network.call(process, 'ack', `${tag} ${attributes.source} ${attributes.id}`, () => broker.ack(tag)),
        nack: (_error, { retryAfter = 0 }) => this.#nack(tag, retryAfter),
      })
  }

  #deadLetters(): Publisher {
    const { network, process, broker, rules } = this.#options
    return {
      publish: async (_destination, letters): Promise<PublishResult[]> => {
        const sending = network.call(process, 'deadLetter', letters.map(({ id }) => id).join(', '), () => {
          for (const letter of letters) broker.takeLetter(this.#service, letter)
        })
        if (rules.awaitsLetters) await sending
        else sending.catch(() => {})
        return letters.map(() => ({ ok: true }))
      },
    }
  }
}

/** The events' topic, as a process has it. */
export function simulatedPublisher({ broker, network, ledger, process, rules }: BrokerClientOptions): Publisher {
  async function publish(messages: readonly RawMessage[]): Promise<readonly PublishResult[]> {
    const sent = rules.keepsIds ? messages : messages.map((message) => message.withAttributes({ id: process.runtime.uuid() }))
    for (const { id = '' } of messages) {
      ledger.publishes(process.name, id)
      ledger.sends(id, process.name)
    }
    const results = await network.call(process, 'publish', namesOf(messages), () => broker.publish(sent))
    if (!rules.looksAtEachResult && results.some(({ ok }) => ok)) return messages.map(() => ({ ok: true }))
    return results
  }

  return {
    async publish(_destination, messages) {
      try {
        return await publish(messages)
      } catch (error) {
        if (!rules.awaitsConfirms) return messages.map(() => ({ ok: true }))
        if (!rules.blamesDestination) return messages.map(() => ({ ok: false, error }))
        throw error
      }
    },
  }
}

function namesOf(messages: readonly Message[]): string {
  return messages.map(({ subject }) => subject).join(', ')
}
