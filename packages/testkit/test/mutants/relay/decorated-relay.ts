import type { Publisher, PublishResult, RawMessage } from '@ackord/core'
import { type ClaimedRecord, type OutboxStore, type PublisherMap, Relay, type RelayOptions } from '@ackord/outbox'
import { openMemoryOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { RelayPorts, RelaySetup, RelayUnderTest } from '../../../src/suites/relay/relay-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

/** The parts around the real relay that a mutant changes: its store, its options and its lifecycle. */
interface RelayDecoration {
  readonly store?: Partial<OutboxStore>
  readonly setup?: Partial<RelayOptions>
  readonly lifecycle?: (relay: Relay) => Partial<RelayUnderTest>
}

/** Called for each relay, with the store and the options of the real relay. */
export type DecorateRelay = (store: OutboxStore, setup: RelaySetup) => RelayDecoration

/** The real relay on the in-memory store, decorated. */
function decoratedRelayPorts(decorate: DecorateRelay): RelayPorts {
  return {
    openStore: openMemoryOutboxWorld,
    createRelay(store, setup) {
      const decoration = decorate(store, setup)
      const relay = new Relay({ ...store, ...decoration.store }, { ...setup, ...decoration.setup })
      return {
        start: () => relay.start(),
        stop: () => relay.stop(),
        drain: (options) => relay.drain(options),
        ...decoration.lifecycle?.(relay),
      }
    },
  }
}

/** The relay mutants that one scenario must catch. */
export function brokenRelay(caughtBy: string, defects: Readonly<Record<string, DecorateRelay>>): Mutant<RelayPorts>[] {
  return mutantsOf(caughtBy, defects, decoratedRelayPorts)
}

/** The relay gets other options. */
export function withSetup(change: (setup: RelaySetup) => Partial<RelayOptions>): DecorateRelay {
  return (_, setup) => ({ setup: change(setup) })
}

/** The relay gets another store. */
export function withStore(change: (store: OutboxStore, setup: RelaySetup) => Partial<OutboxStore>): DecorateRelay {
  return (store, setup) => ({ store: change(store, setup) })
}

export type Publish = Publisher['publish']

/** Each publisher of the relay publishes through `change`. */
export function publishing(change: (publish: Publish, setup: RelaySetup) => Publish): DecorateRelay {
  return (_, setup) => ({ setup: { publisher: mapPublishers(setup, (publisher) => ({ publish: change(publisher.publish, setup) })) } })
}

export function mapPublishers({ publisher }: RelaySetup, change: (publisher: Publisher) => Publisher): Publisher | PublisherMap {
  if (isPublisher(publisher)) return change(publisher)
  return Object.fromEntries(Object.entries(publisher).map(([destination, one]) => [destination, change(one)]))
}

/** Each publisher of the relay answers through `change`. */
export function answering(change: (results: readonly PublishResult[]) => readonly PublishResult[]): DecorateRelay {
  return publishing(
    (publish) =>
      async (...call) =>
        change(await publish(...call)),
  )
}

export function isPublisher(publisher: Publisher | PublisherMap): publisher is Publisher {
  return typeof publisher.publish === 'function'
}

/** Tracks claimed records by the id of their message. */
export class ClaimedMessages {
  readonly #claimed = new Map<string, ClaimedRecord>()

  async claim(store: OutboxStore, ...call: Parameters<OutboxStore['claim']>): Promise<readonly ClaimedRecord[]> {
    const claimed = await store.claim(...call)
    for (const one of claimed) this.#claimed.set(one.message.id ?? '', one)
    return claimed
  }

  get all(): readonly ClaimedRecord[] {
    return [...this.#claimed.values()]
  }

  of(messages: readonly RawMessage[]): ClaimedRecord[] {
    return messages.flatMap(({ id = '' }) => this.#claimed.get(id) ?? [])
  }

  byRecord(id: string): ClaimedRecord | undefined {
    return [...this.#claimed.values()].find((one) => one.id === id)
  }
}

/** A set of running promises. */
export class Running {
  readonly #promises = new Set<Promise<unknown>>()

  async add<T>(promise: Promise<T>): Promise<T> {
    this.#promises.add(promise)
    try {
      return await promise
    } finally {
      this.#promises.delete(promise)
    }
  }

  async ended(): Promise<void> {
    await Promise.allSettled(this.#promises)
  }
}
