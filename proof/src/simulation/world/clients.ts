import {
  type ContextKey,
  contextKey,
  idle,
  type Message,
  type Publisher,
  type PublishResult,
  type RawMessage,
  type Source,
  silentLogger,
} from '@ackord/core'
import { createReceiver } from '@ackord/core/broker'
import type { ClaimedRecord, NewOutboxRecord } from '@ackord/outbox'
import type { SimulationRules } from '../plan/simulation-rules.ts'
import type { Ledger } from './ledger.ts'
import type { Network } from './network.ts'
import type { OutboxServer } from './outbox-server.ts'
import type { BrokerDelivery, SimulatedBroker } from './simulated-broker.ts'
import type { DatabaseSession, InboxRecord, SimulatedDatabase } from './simulated-database.ts'
import type { SimulatedProcess } from './simulated-process.ts'

export interface BrokerClientOptions {
  readonly broker: SimulatedBroker
  readonly network: Network
  readonly ledger: Ledger
  readonly process: SimulatedProcess
  readonly rules: SimulationRules
}

const reconnectAfter = 1000

/** The source of a service's commands in one of its processes. */
export class SimulatedSource implements Source {
  readonly #options: BrokerClientOptions
  readonly #service: string
  readonly #receive: (delivery: BrokerDelivery) => RawMessage
  /** A receive that was abandoned at the stop. Its message is nacked when it arrives. */
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

/** The publisher for the events' topic in a process. */
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

/** The result of a commit, and the events that it leased. */
export interface CommitAnswer {
  readonly tag: 'COMMIT' | 'ROLLBACK'
  readonly records: readonly ClaimedRecord[]
}

/** The transaction of a context. */
export const sessionKey: ContextKey<RemoteSession> = contextKey('ackord.simulation.session', { callScoped: true })

/** The database client of a process: every statement goes over the network. */
export class DatabaseClient {
  readonly #database: SimulatedDatabase
  readonly #network: Network
  readonly #process: SimulatedProcess
  readonly #outbox: OutboxServer

  constructor(database: SimulatedDatabase, outbox: OutboxServer, network: Network, process: SimulatedProcess) {
    this.#database = database
    this.#outbox = outbox
    this.#network = network
    this.#process = process
  }

  async begin(): Promise<RemoteSession> {
    const session = await this.#network.call(this.#process, 'begin', '', () => this.#database.begin(this.#process.name))
    const commit = (lease: number | undefined) => this.#commit(session, lease)
    return new RemoteSession(session, this.#network, this.#process, commit)
  }

  cleanInbox(window: number): Promise<number> {
    return this.#network.call(this.#process, 'cleanInbox', '', () => this.#database.cleanInbox(window))
  }

  /** The server's part of a commit: with `lease`, it also leases the events to the process in the same step. */
  async #commit(session: DatabaseSession, lease: number | undefined): Promise<CommitAnswer> {
    const ids = session.commit()
    if (ids === undefined) return { tag: 'ROLLBACK', records: [] }
    const records = lease === undefined ? [] : await this.#outbox.preLease(new Set(ids), lease)
    this.#database.announce()
    return { tag: 'COMMIT', records }
  }

  /** Runs one statement that commits on its own. Mutants use it instead of the transaction. */
  async alone<T>(
    operation: 'record' | 'write' | 'append',
    what: string,
    statement: (session: DatabaseSession) => T | Promise<T>,
  ): Promise<T> {
    return await this.#network.call(this.#process, operation, `${what}, by itself`, async () => {
      const session = this.#database.begin(this.#process.name)
      const result = await statement(session)
      session.commit()
      this.#database.announce()
      return result
    })
  }

  /** Removes an inbox record. Only mutants do this. */
  async forget(key: string): Promise<void> {
    await this.#network.call(this.#process, 'record', `forget ${key}`, () => this.#database.inbox.delete(key))
  }
}

/** The client side of a transaction. */
export class RemoteSession {
  readonly #session: DatabaseSession
  readonly #network: Network
  readonly #process: SimulatedProcess
  readonly #commit: (lease: number | undefined) => Promise<CommitAnswer>

  constructor(
    session: DatabaseSession,
    network: Network,
    process: SimulatedProcess,
    commit: (lease: number | undefined) => Promise<CommitAnswer>,
  ) {
    this.#session = session
    this.#commit = commit
    this.#network = network
    this.#process = process
  }

  recordOnce(record: InboxRecord): Promise<boolean> {
    return this.#network.call(this.#process, 'record', record.effect, () => this.#session.recordOnce(record))
  }

  isRecorded(key: string): Promise<boolean> {
    return this.#network.call(this.#process, 'record', `look for ${key}`, () => this.#session.isRecorded(key))
  }

  addRecord(record: InboxRecord): Promise<void> {
    return this.#network.call(this.#process, 'record', record.effect, () => this.#session.addRecord(record))
  }

  write(effect: string): Promise<void> {
    return this.#network.call(this.#process, 'write', effect, () => this.#session.write(effect))
  }

  failStatement(): Promise<void> {
    return this.#network.call(this.#process, 'write', 'something too large', () => this.#session.failStatement())
  }

  append(records: readonly NewOutboxRecord[]): Promise<void> {
    const subjects = records.map(({ message }) => message.subject).join(', ')
    return this.#network.call(this.#process, 'append', subjects, () => this.#session.append(records))
  }

  /** With `lease`, the events are leased to this process for that many milliseconds. */
  commit(lease?: number): Promise<CommitAnswer> {
    return this.#network.call(this.#process, 'commit', '', () => this.#commit(lease))
  }

  rollback(): Promise<void> {
    return this.#network.call(this.#process, 'rollback', '', () => this.#session.rollback())
  }
}
