import { type Context, constantBackoff, exponentialBackoff, idle, Message, RejectError, Router, silentLogger, sleep } from '@ackord/core'
import { retryMiddleware } from '@ackord/core/middleware'
import { Relay } from '@ackord/outbox'
import type { Behaviour, SendStep } from '../plan/plan.ts'
import { DatabaseClient, SimulatedSource, simulatedPublisher } from './clients.ts'
import { OutboxServer, RemoteOutboxStore } from './outbox-server.ts'
import type { EventData } from './simulated-database.ts'
import { sessionOf, simulatedMiddleware } from './simulated-middleware.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { Program, SimulatedSystem } from './simulated-system.ts'

const backoff = exponentialBackoff({ initial: 500, max: 4000 })

/** The outbox of a process: the server side and the client side. */
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

/** Starts a real relay, whose store and broker are reached over the simulated network. */
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

/** Milliseconds for which the inbox keeps records. */
const dedupWindow = 3_600_000
const tooShortWindow = 15_000
const cleanEvery = 20_000
/** Longer than the broker waits for an ack. */
const slowWork = 11_000

/** Starts a service: a real router with middleware on the simulated database and commands from the simulated broker. */
export function startService(system: SimulatedSystem, process: SimulatedProcess, service: string): Program {
  const { database, broker, network, ledger, rules, plan, attempts } = system
  const { concurrency, inTurn, retries, hotPath } = plan.shape
  const { runtime } = process
  const outbox = openOutbox(system, process, { hotPath })
  const client = new DatabaseClient(database, outbox.server, network, process)
  const relay = hotPath ? startRelay(system, process, outbox.store) : undefined
  const ports = { broker, network, ledger, process, rules }
  const source = new SimulatedSource(service, ports)
  const router = new Router({
    runtime,
    logger: silentLogger,
    source: `/${service}`,
    concurrency,
    orderingKey: inTurn ? 'partitionkey' : undefined,
    redeliveryDelay: rules.delaysRedelivery ? exponentialBackoff({ initial: 200, max: 10_000 }) : () => 0,
    shutdownTimeout: 15_000,
  })
  if (retries) router.use(retryMiddleware({ attempts: 2, backoff: constantBackoff(100), runtime, logger: silentLogger }))
  const publisher = simulatedPublisher(ports)
  router.use(...simulatedMiddleware({ client, service, runtime, handOver: () => outbox.store.taker, publisher, rules }))
  router.handle({ type: 'command', handle: (message, context) => handle(message, context) })

  async function handle(message: Message, context: Context): Promise<Message[]> {
    const { key, events, behaviour, source: from, id } = message.data as SendStep
    const effect = `${service} ${from} ${id}`
    const attempt = (attempts.get(effect) ?? 0) + 1
    attempts.set(effect, attempt)
    const session = sessionOf(context)
    await (rules.writesInTransaction ? session.write(effect) : client.alone('write', effect, (alone) => alone.write(effect)))
    if (behaviour === 'eager') await message.ack()
    await work(behaviour, attempt, context)
    return Array.from({ length: events }, (_, index) => {
      const data: EventData = { effect, index, behaviour }
      return new Message(data, { type: 'event', partitionkey: key, subject: `${effect}/${index}` })
    })
  }

  async function work(behaviour: Behaviour, attempt: number, context: Context): Promise<void> {
    if (behaviour === 'slow') await sleep(runtime, slowWork)
    if (behaviour === 'poison') throw new RejectError('It can never be handled.')
    if ((behaviour === 'flaky' || behaviour === 'eager') && attempt === 1) throw new Error('It cannot be handled yet.')
    if (behaviour !== 'careless' || attempt > 1) return
    try {
      await sessionOf(context).failStatement()
    } catch {
      // The careless handler ignores the error.
    }
  }

  const stopping = new AbortController()
  const cleaning = clean()

  async function clean(): Promise<void> {
    while (await idle(runtime, cleanEvery, stopping.signal)) {
      try {
        await client.cleanInbox(rules.keepsWindow ? dedupWindow : tooShortWindow)
      } catch {
        // The next round tries again.
      }
    }
  }

  router.run(source).catch((error: unknown) => ledger.violate('alive', `The router of ${process.name} has ended: ${String(error)}`))
  return {
    async stop() {
      stopping.abort()
      await router.stop()
      await relay?.stop()
      await source[Symbol.asyncDispose]()
      await cleaning
    },
  }
}
