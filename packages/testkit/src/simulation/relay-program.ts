import { exponentialBackoff, silentLogger } from '@ackord/core'
import { Relay } from '@ackord/outbox'
import { simulatedPublisher } from './broker-client.ts'
import { OutboxServer } from './outbox-server.ts'
import { RemoteOutboxStore } from './remote-outbox-store.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { Program, SimulatedSystem } from './simulated-system.ts'

const backoff = exponentialBackoff({ initial: 500, max: 4000 })

/** The outbox of a process: what its server does, and what the process has of it. */
interface ProcessOutbox {
  readonly server: OutboxServer
  readonly store: RemoteOutboxStore
}

export function openOutbox(system: SimulatedSystem, process: SimulatedProcess, options: { readonly hotPath: boolean }): ProcessOutbox {
  const { database, network, rules, plan, latestClaims } = system
  const server = new OutboxServer(database, process.name, rules, latestClaims)
  const { order } = plan.shape
  const { usesOwnClock, waitsForStore } = rules
  const store = new RemoteOutboxStore({ ...options, server, database, network, process, order, usesOwnClock, waitsForStore })
  return { server, store }
}

/** A real relay, whose store and broker are at the other end of the simulated network. */
export function startRelay(system: SimulatedSystem, process: SimulatedProcess, store: RemoteOutboxStore): Program {
  const { broker, network, ledger, rules, plan } = system
  const { retain, batchSize } = plan.shape
  const relay = new Relay(store, {
    publisher: simulatedPublisher({ broker, network, ledger, process, rules }),
    runtime: process.runtime,
    logger: silentLogger,
    batchSize,
    pollInterval: rules.polls ? 500 : 3_600_000,
    maxPollInterval: rules.polls ? 5000 : 3_600_000,
    lease: 10_000,
    publishTimeout: 4000,
    maxAttempts: 8,
    backoff,
    destinationBackoff: rules.pauses ? backoff : () => 0,
    shutdownTimeout: 15_000,
    ...(retain ? { cleanup: { keepPublished: 20_000, interval: 7000 } } : {}),
  })
  relay.start()
  return { stop: () => relay.stop() }
}
