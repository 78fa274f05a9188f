import type { Claim } from '@ackord/outbox'
import { endOf, type PlanStep, type SendStep, type SimulationPlan, slotsOf } from '../plan/plan.ts'
import type { SimulationRules } from '../plan/simulation-rules.ts'
import { RandomStream, Trace } from '../plan/trace.ts'
import { Ledger } from './ledger.ts'
import { Network } from './network.ts'
import { openOutbox, startRelay, startService } from './programs.ts'
import { Scheduler } from './scheduler.ts'
import { SimulatedBroker } from './simulated-broker.ts'
import { SimulatedDatabase } from './simulated-database.ts'
import { SimulatedProcess } from './simulated-process.ts'

/** The program of a process. */
export interface Program {
  /** Resolves when all work in flight has settled. */
  stop(): Promise<void>
}

interface Running {
  readonly process: SimulatedProcess
  readonly program: Program
}

const start = Date.UTC(2026, 0, 1)
const second = 1000
/** The maximum time to settle everything after the last fault, and the maximum duration of a stop. */
const drainLimit = 600 * second
const stopLimit = 60 * second
/** The minimum duration of a history with cleanup. */
const cleanupTime = 40 * second

/** The servers, network and processes of one history. Applies the plan to them. */
export class SimulatedSystem {
  readonly plan: SimulationPlan
  readonly rules: SimulationRules
  readonly scheduler: Scheduler = new Scheduler(start)
  readonly ledger: Ledger = new Ledger(this.scheduler.now)
  readonly trace: Trace = new Trace(this.scheduler.now)
  readonly network: Network
  readonly database: SimulatedDatabase
  readonly broker: SimulatedBroker
  /** The number of handler calls, by effect. */
  readonly attempts: Map<string, number> = new Map()
  /** Used only by mutants whose store ignores tokens. */
  readonly latestClaims: Map<string, Claim> = new Map()
  readonly #random: RandomStream
  readonly #running = new Map<string, Running>()
  readonly #incarnations = new Map<string, number>()
  /** The processes that were hit by a fault, which explains what they leave behind. */
  readonly #hit = new Set<string>()
  #stopped = 0

  constructor(plan: SimulationPlan, rules: SimulationRules) {
    const { seed, shape } = plan
    const { scheduler, ledger, trace } = this
    this.plan = plan
    this.rules = rules
    this.#random = new RandomStream(seed, 'system')
    this.network = new Network({
      scheduler,
      ledger,
      trace,
      crash: (process) => this.#crash(process, second),
      suspend: (process, duration) => this.#suspend(process, duration),
      onFault: (process) => this.#hit.add(process.name),
    })
    const order = rules.keepsOrder ? shape.order : 'none'
    this.database = new SimulatedDatabase({ scheduler, ledger, seed, order, retain: shape.retain })
    const services = shape.billing > 0 ? ['orders', 'billing'] : ['orders']
    this.broker = new SimulatedBroker({ scheduler, ledger, trace, seed, services })
  }

  /** Runs the whole history, from the start of all processes to the end of the last. */
  async run(): Promise<void> {
    const { plan, scheduler } = this
    for (const slot of slotsOf(plan.shape)) this.#start(slot)
    for (const step of plan.steps) scheduler.after(step.at, () => this.#take(step))
    const quiet = endOf(plan) + 1
    scheduler.after(quiet, () => this.#endFaults())
    let drained = false
    const look = async () => {
      drained = await this.#isDrained()
      if (!drained) scheduler.after(second, () => void look())
    }
    scheduler.after(quiet + (plan.shape.retain ? cleanupTime : second), () => void look())
    await scheduler.run(start + quiet + drainLimit, () => drained)
    if (!drained) this.ledger.violate('drains', await this.#leftover())
    await this.#stopAll()
  }

  async #stopAll(): Promise<void> {
    const { scheduler, ledger } = this
    const running = [...this.#running.values()]
    this.#stopped = 0
    for (const { process, program } of running) scheduler.after(0, () => void this.#stop(process, program), process)
    await scheduler.run(scheduler.now() + stopLimit, () => this.#stopped === running.length)
    if (this.#stopped < running.length) ledger.violate('cleanStop', `Not all processes stopped within ${stopLimit} ms.`)
  }

  #start(slot: string): void {
    const { scheduler, plan, trace } = this
    const incarnation = (this.#incarnations.get(slot) ?? 0) + 1
    this.#incarnations.set(slot, incarnation)
    const process = new SimulatedProcess({ scheduler, seed: plan.seed, slot, incarnation, skew: plan.shape.skews[slot] ?? 0 })
    trace.add(process.name, 'starts')
    const [kind = ''] = slot.split('-')
    const isRelay = kind === 'relay'
    const program = isRelay
      ? startRelay(this, process, openOutbox(this, process, { hotPath: false }).store)
      : startService(this, process, kind)
    this.#running.set(slot, { process, program })
  }

  #take(step: PlanStep): void {
    const { network, broker, trace } = this
    if (step.kind !== 'send') trace.add('fault', JSON.stringify(step))
    const running = 'slot' in step ? this.#running.get(step.slot) : undefined
    switch (step.kind) {
      case 'send':
        this.#send(step)
        return
      case 'duplicate': {
        const sent = this.ledger.sent.get(`${step.source} ${step.id}`)
        if (sent !== undefined) this.#send(sent)
        return
      }
      case 'crash':
        if (running !== undefined) this.#crash(running.process, step.downFor)
        return
      case 'suspend':
        if (running !== undefined) this.#suspend(running.process, step.duration)
        return
      case 'restart':
        if (running !== undefined) this.#restart(running)
        return
      case 'outage':
        this.#outage(step.server, step.duration)
        return
      case 'slow':
        network.setSlow(step.server, step.delay)
        this.scheduler.after(step.duration, () => network.setSlow(step.server, 0))
        return
      case 'call':
        network.arm(step)
        return
      case 'refuse':
        broker.refuseNext()
    }
  }

  #send(step: SendStep): void {
    const { source, id, key } = step
    this.ledger.sent.set(`${source} ${id}`, step)
    this.trace.add('producer', `sends ${source} ${id} ${step.behaviour} ${key}`)
    const attributes = { id, source, type: 'command', specversion: '1.0', partitionkey: key, datacontenttype: 'application/json' }
    this.broker.send(Buffer.from(JSON.stringify(step)), attributes)
  }

  /** The servers notice the crash a little later; the broker does not always notice it. */
  #crash(process: SimulatedProcess, downFor: number): void {
    if (process.state === 'ended') return
    const { ledger, scheduler, trace } = this
    trace.add(process.name, 'dies')
    ledger.hit(ledger.excuse(), process.name)
    process.end()
    this.#running.delete(process.slot)
    scheduler.after(this.#random.between(1, 500), () => this.database.disconnect(process.name))
    if (this.#random.chance(0.7)) scheduler.after(this.#random.between(1, 500), () => this.broker.disconnect(process.name))
    scheduler.after(downFor, () => this.#start(process.slot))
  }

  #suspend(process: SimulatedProcess, duration: number): void {
    if (process.state !== 'running') return
    const { ledger, scheduler, trace } = this
    this.#hit.add(process.name)
    trace.add(process.name, 'stands still')
    const excuse = ledger.excuse()
    ledger.hit(excuse, process.name)
    process.suspend()
    scheduler.after(duration, () => {
      trace.add(process.name, 'goes on')
      // Answers that arrived during the suspension are delivered late.
      ledger.hit(excuse, process.name)
      process.resume()
    })
  }

  #restart({ process, program }: Running): void {
    const stopped = async () => {
      await this.#stop(process, program)
      if (this.#running.get(process.slot)?.process === process) this.#start(process.slot)
    }
    this.scheduler.after(0, () => void stopped(), process)
  }

  async #stop(process: SimulatedProcess, program: Program): Promise<void> {
    const { ledger, trace, broker, rules } = this
    trace.add(process.name, 'stops')
    if (rules.stopsGracefully) await program.stop()
    trace.add(process.name, 'has stopped')
    const held = ledger.heldBy(process.name)
    const inFlight = broker.heldBy(process.name)
    if (!this.#hit.has(process.name) && held.length + inFlight.length > 0) {
      ledger.violate(
        'cleanStop',
        `${process.name} has stopped, and has ${[...held.map((row) => `record ${row}`), ...inFlight].join(', ')}.`,
      )
    }
    if (rules.stopsGracefully && process.timers > 0)
      ledger.violate('cleanStop', `${process.name} has stopped with ${process.timers} timers.`)
    process.end()
    this.#stopped += 1
  }

  #outage(server: 'database' | 'broker', duration: number): void {
    const { ledger, scheduler, network, trace } = this
    for (const { process } of this.#running.values()) this.#hit.add(process.name)
    const excuse = ledger.excuse()
    if (server === 'database') ledger.hit(excuse)
    network.setDown(server, true)
    this[server].disconnect()
    scheduler.after(duration, () => {
      trace.add(server, 'is up again')
      if (server === 'database') ledger.hit(excuse)
      network.setDown(server, false)
    })
  }

  #endFaults(): void {
    this.trace.add('fault', 'the last one is over')
    this.network.disarm()
    this.broker.forgetRefusals()
  }

  get #allRunning(): boolean {
    const running = [...this.#running.values()].filter(({ process }) => process.state === 'running')
    return running.length === slotsOf(this.plan.shape).length
  }

  async #isDrained(): Promise<boolean> {
    const { broker, database, network } = this
    if (network.faultsUnderWay > 0 || broker.open > 0 || database.sessions.size > 0 || !this.#allRunning) return false
    const { destinations } = await database.outbox.stats()
    return destinations.every(({ ready, waiting, leased }) => ready + waiting + leased === 0)
  }

  async #leftover(): Promise<string> {
    const { broker, database } = this
    const { destinations } = await database.outbox.stats()
    const pending = destinations.reduce((sum, { ready, waiting, leased }) => sum + ready + waiting + leased, 0)
    return `${drainLimit / second} s after the last fault ${broker.open} commands are not acked, ${pending} records are not published and ${database.sessions.size} transactions are open.`
  }
}
