import { sleep, systemRuntime } from '@ackord/core'
import type { CrashObservation, CrashWorld, Kill } from '../crash-points.ts'
import { ServiceProcess } from './service-process.ts'

const portionSize = 24
/** A service that has processed this many messages without reaching its point never will. */
const mostPortions = 5
/** Milliseconds between two polls of the world. */
const lookInterval = 20

/** Starts and kills the services of a world, and checks the result. */
export class CrashRun implements AsyncDisposable {
  readonly #world: CrashWorld
  readonly #commands = new Set<string>()
  readonly #living = new Set<ServiceProcess>()
  #leastDuplicates = 0
  #mostDuplicates = 0

  constructor(world: CrashWorld) {
    this.#world = world
  }

  /** Starts a service that is not killed. */
  async start(): Promise<void> {
    const service = await this.#start()
    service.checkAlive()
  }

  /** Starts a service and sends it commands until it has died at that point. */
  async kill(kill: Kill): Promise<void> {
    const service = await this.#start(kill)
    for (let portion = 0; portion < mostPortions && !service.hasEnded; portion += 1) {
      await this.#send()
      await this.#until(async (seen) => service.hasEnded || (await this.#isDone(seen)))
    }
    if (!service.hasEnded) throw new Error(notReached(kill, this.#commands.size))
    service.checkKilled()
    this.#living.delete(service)
    const { duplicates } = kill.point
    if (duplicates === 'certain') this.#leastDuplicates += 1
    if (duplicates !== 'none') this.#mostDuplicates += this.#world.batchSize
    await this.#untilKnown()
  }

  /** Waits until everything is processed, stops the services, and checks the result. Resolves to a note for the table. */
  async finish(): Promise<string> {
    await this.#send()
    if (this.#living.size === 0) await this.start()
    await this.#untilDone()
    for (const service of this.#living) {
      await service.stop()
      this.#living.delete(service)
    }
    await this.#untilKnown()
    const seen = await this.#world.observe()
    refuse(problemsOf(this.#expected, seen))
    const duplicates = duplicatesOf(seen)
    return `${this.#commands.size} applied once, ${duplicates} ${duplicates === 1 ? 'duplicate' : 'duplicates'} published`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const service of this.#living) await service.destroy()
    await this.#world[Symbol.asyncDispose]()
  }

  get #patience(): number {
    return this.#world.patience ?? 30_000
  }

  get #expected(): CrashExpectation {
    const duplicates = { least: this.#leastDuplicates, most: this.#mostDuplicates }
    return { commands: this.#commands, eventOf: (command) => this.#world.eventOf(command), duplicates }
  }

  async #start(kill?: Kill): Promise<ServiceProcess> {
    const service = new ServiceProcess(this.#world.program, this.#patience, kill)
    this.#living.add(service)
    await service.started()
    return service
  }

  /** A batch of new commands, every third of them twice, and some of an earlier batch. */
  async #send(): Promise<void> {
    const known = [...this.#commands].slice(-4)
    const fresh = Array.from({ length: portionSize }, (_, index) => `m-${this.#commands.size + index + 1}`)
    for (const id of fresh) this.#commands.add(id)
    await this.#world.send([...fresh, ...known, ...fresh.filter((_, index) => index % 3 === 0)])
  }

  async #untilDone(): Promise<void> {
    await this.#until(async (seen) => {
      for (const service of this.#living) service.checkAlive()
      refuse(faultsOf(this.#expected, seen))
      return await this.#isDone(seen)
    })
  }

  async #isDone(seen: CrashObservation): Promise<boolean> {
    if (missingOf(this.#expected, seen).length > 0) return false
    // Only the services know which messages are delivered and not acked.
    for (const service of this.#living) if (!(await service.isIdle())) return false
    return true
  }

  /** Waits until the broker has requeued the unacked messages of dead services, before the remaining messages are counted. */
  async #untilKnown(): Promise<void> {
    await this.#until(() => this.#world.knowsOf(this.#living.size))
  }

  /** Polls until the condition holds. Fails when nothing has changed for a while. */
  async #until(condition: (seen: CrashObservation) => Promise<boolean>): Promise<void> {
    const patience = this.#patience
    let last = ''
    let changedAt = systemRuntime.monotonic()
    for (;;) {
      const seen = await this.#world.observe()
      if (await condition(seen)) return
      const now = systemRuntime.monotonic()
      const state = JSON.stringify(seen)
      if (state !== last) changedAt = now
      else if (now - changedAt > patience) throw new Error(stuck(patience, missingOf(this.#expected, seen)))
      last = state
      await sleep(systemRuntime, lookInterval)
    }
  }
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new Error(`${problems.join('; ')}.`)
}

function notReached({ point, hit }: Kill, commands: number): string {
  return `The service handled ${commands} commands and lives: the point '${point.name}' was not reached ${hit === 1 ? 'once' : `${hit} times`}.`
}

function stuck(patience: number, missing: readonly string[]): string {
  const rest =
    missing.length === 0 ? 'Everything has arrived, but a service is still busy or the broker still waits for one' : missing.join('; ')
  return `Nothing has changed for ${patience} ms: ${rest}.`
}

/** The expected result. */
export interface CrashExpectation {
  /** Each command that was sent, once. */
  readonly commands: ReadonlySet<string>
  readonly eventOf: (command: string) => string
  /** The allowed and the required number of events that have reached the broker more than once. */
  readonly duplicates: { readonly least: number; readonly most: number }
}

/** The number of events that reached the broker after the first one with their id. */
export function duplicatesOf({ published }: CrashObservation): number {
  return published.length - new Set(published).size
}

/** Results that are missing and may still arrive. */
export function missingOf(expected: CrashExpectation, seen: CrashObservation): string[] {
  const left = (['ready', 'waiting', 'leased', 'parked'] as const).filter((state) => seen.outbox[state] > 0)
  return [
    ...list('commands lost', without(expected.commands, seen.applied)),
    ...list('commands not in the inbox', without(expected.commands, seen.inbox)),
    ...list('events lost', without(eventsOf(expected), seen.published)),
    ...(seen.waiting > 0 ? [`commands left at the broker: ${seen.waiting}`] : []),
    ...(left.length > 0 ? [`left in the outbox: ${left.map((state) => `${seen.outbox[state]} ${state}`).join(', ')}`] : []),
  ]
}

/** Results that must not exist. Waiting does not help. */
export function faultsOf(expected: CrashExpectation, seen: CrashObservation): string[] {
  const { most } = expected.duplicates
  const duplicates = duplicatesOf(seen)
  return [
    ...list('commands applied more than once', repeated(seen.applied)),
    ...list('applied and never sent', without(seen.applied, expected.commands)),
    ...list('in the inbox more than once', repeated(seen.inbox)),
    ...list('in the inbox and never sent', without(seen.inbox, expected.commands)),
    ...list('events that no command has', without(seen.published, eventsOf(expected))),
    ...(duplicates > most ? [`duplicates at the broker: ${duplicates}, and at most ${most} are allowed`] : []),
  ]
}

/** All failures at the end. */
export function problemsOf(expected: CrashExpectation, seen: CrashObservation): string[] {
  const { least } = expected.duplicates
  const duplicates = duplicatesOf(seen)
  return [
    ...missingOf(expected, seen),
    ...faultsOf(expected, seen),
    ...(duplicates < least
      ? [`duplicates at the broker: ${duplicates}, and a kill between publish and settle leaves at least ${least}`]
      : []),
  ]
}

function eventsOf({ commands, eventOf }: CrashExpectation): string[] {
  return [...commands].map(eventOf)
}

function list(what: string, ids: readonly string[]): string[] {
  if (ids.length === 0) return []
  const shown = ids.slice(0, 5).join(', ')
  return [`${what}: ${ids.length} (${ids.length > 5 ? `${shown}, …` : shown})`]
}

function without(ids: Iterable<string>, others: Iterable<string>): string[] {
  const known = new Set(others)
  return [...new Set(ids)].filter((id) => !known.has(id))
}

function repeated(ids: readonly string[]): string[] {
  return [...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))]
}
