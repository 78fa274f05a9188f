import { checkCount } from '@ackord/core/internal'
import { checkHistory } from './check.ts'
import { type Invariant, invariants, type Violation } from './plan/invariants.ts'
import { generatePlan, type PlanStep, type SimulationPlan, type SimulationShape, slotsOf } from './plan/plan.ts'
import { type SimulationRules, simulationRules } from './plan/simulation-rules.ts'
import { SimulatedSystem } from './world/simulated-system.ts'

/** How a history is played. */
export interface SimulateOptions {
  /** What the parts do wrong. Default: nothing. */
  readonly broken?: Partial<SimulationRules> | undefined
}

/** One history, when it is over. */
export interface SimulationResult {
  readonly plan: SimulationPlan
  /** How it broke invariants, in the order in which that was found out. None: all is well. */
  readonly violations: readonly Violation[]
  /** Publishes of events that had been published before. */
  readonly duplicates: number
  readonly commands: number
  readonly events: number
  /** How many events of the scheduler it took. */
  readonly steps: number
  /** All that happened, line by line. The same plan gives the same text. */
  trace(): string
}

/**
 * Plays one history: real routers and relays on a simulated database, broker and network, with the crashes, outages, delays, duplicates and lost
 * replies that the plan has for them, in virtual time. A seed stands for a plan. The same plan gives the same history, wherever it runs.
 */
export async function simulate(seedOrPlan: number | SimulationPlan, options: SimulateOptions = {}): Promise<SimulationResult> {
  const plan = typeof seedOrPlan === 'number' ? generatePlan(seedOrPlan) : seedOrPlan
  const system = new SimulatedSystem(plan, { ...simulationRules, ...options.broken })
  await system.run()
  await checkHistory(system)
  // Histories take no turn of the event loop themselves; whoever plays many must not keep everything else out.
  await eventLoopTurn()
  const { ledger, trace, scheduler } = system
  return {
    plan,
    violations: ledger.violations,
    duplicates: ledger.published.length - new Set(ledger.published).size,
    commands: ledger.sent.size,
    events: ledger.committed.size,
    steps: scheduler.steps,
    trace: () => trace.format(),
  }
}

/** Which histories are played, and how. */
export interface SearchOptions extends SimulateOptions {
  /** The first seed. Default: 1. */
  readonly from?: number | undefined
}

/** What a search has played. */
export interface SearchResult {
  readonly histories: number
  readonly commands: number
  readonly events: number
  /** Publishes of events that had been published before; each is explained by a fault. */
  readonly duplicates: number
  /** The first history that broke an invariant. */
  readonly failure: SimulationResult | undefined
}

/** Plays the histories of `count` seeds in a row, up to the first that breaks an invariant. */
export async function searchHistories(count: number, options: SearchOptions = {}): Promise<SearchResult> {
  const { from = 1, ...simulateOptions } = options
  checkCount('count', count)
  const totals = { histories: 0, commands: 0, events: 0, duplicates: 0 }
  for (let seed = from; seed < from + count; seed += 1) {
    const result = await simulate(seed, simulateOptions)
    totals.histories += 1
    totals.commands += result.commands
    totals.events += result.events
    totals.duplicates += result.duplicates
    if (result.violations.length > 0) return { ...totals, failure: result }
  }
  return { ...totals, failure: undefined }
}

/** Shrinks a history that broke an invariant, and tells all that is needed to understand it and to play it again. */
export async function reportFailure(failed: SimulationResult, options: SimulateOptions = {}): Promise<string> {
  const { plan } = failed
  const shrunk = await shrinkPlan(failed, options)
  const call = options.broken === undefined ? '' : `, ${JSON.stringify(options)}`
  const first = shrunk.violations[0]
  return [
    `Seed ${plan.seed} breaks '${first?.invariant}': ${first === undefined ? '' : invariants[first.invariant]}.`,
    ...shrunk.violations.map(lineOf),
    '',
    `The plan, shrunk from ${plan.steps.length} steps to ${shrunk.plan.steps.length}:`,
    `  ${JSON.stringify(shrunk.plan.shape)}`,
    ...shrunk.plan.steps.map((step) => `  ${JSON.stringify(step)}`),
    '',
    'Its trace:',
    shrunk.trace(),
    'To play it again:',
    `  await simulate(${JSON.stringify(shrunk.plan)}${call})`,
    `and the history as it was found: await simulate(${plan.seed}${call})`,
    '',
  ].join('\n')
}

function lineOf({ invariant, at, text }: Violation): string {
  return `  ${(at / 1000).toFixed(3)} s  ${invariant}: ${text}`
}

/** Enough for any plan; a history takes some milliseconds. */
const mostRuns = 500

/**
 * The smallest plan that can be found by leaving things out, which still breaks the invariant that the history broke first. It is the same
 * for the same history, because there is no chance in it.
 */
export async function shrinkPlan(failed: SimulationResult, options: SimulateOptions = {}): Promise<SimulationResult> {
  const broken = failed.violations[0]?.invariant
  if (broken === undefined) throw new Error('There is nothing to shrink: the history broke no invariant.')
  const search = new ShrinkSearch(failed, broken, options)
  await search.removeSteps()
  await search.simplifyShape()
  await search.simplifySends()
  await search.removeSteps()
  return search.best
}

class ShrinkSearch {
  best: SimulationResult
  readonly #broken: Invariant
  readonly #options: SimulateOptions
  #runs = 0

  constructor(failed: SimulationResult, broken: Invariant, options: SimulateOptions) {
    this.best = failed
    this.#broken = broken
    this.#options = options
  }

  /** First large parts, then smaller ones, down to single steps. */
  async removeSteps(): Promise<void> {
    for (let size = Math.ceil(this.#steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let from = 0; from < this.#steps.length; ) {
        const steps = this.#steps.filter((_, index) => index < from || index >= from + size)
        if (!(await this.#try({ steps }))) from += size
      }
    }
  }

  async simplifyShape(): Promise<void> {
    const simpler: Partial<SimulationShape>[] = [
      { skews: {} },
      { billing: 0 },
      { orders: 1 },
      { relays: 1 },
      { relays: 2 },
      { concurrency: 1 },
      { inTurn: false },
      { retries: false },
      { retain: false },
      { hotPath: false },
      { order: 'none' },
    ]
    for (const change of simpler) {
      const shape = { ...this.best.plan.shape, ...change }
      const slots = slotsOf(shape)
      // What would hit a process that is not there any more goes with it.
      const steps = this.#steps.filter((step) => !('slot' in step) || slots.includes(step.slot))
      if (JSON.stringify(shape) !== JSON.stringify(this.best.plan.shape)) await this.#try({ shape, steps })
    }
  }

  async simplifySends(): Promise<void> {
    for (let index = 0; index < this.#steps.length; index += 1) {
      const step = this.#steps[index]
      if (step?.kind !== 'send') continue
      if (step.behaviour !== 'plain') await this.#try({ steps: this.#steps.with(index, { ...step, behaviour: 'plain' }) })
      if (step.events > 1) await this.#try({ steps: this.#steps.with(index, { ...step, events: 1 }) })
    }
  }

  get #steps(): readonly PlanStep[] {
    return this.best.plan.steps
  }

  async #try(change: Partial<SimulationPlan>): Promise<boolean> {
    if (this.#runs >= mostRuns) return false
    this.#runs += 1
    const result = await simulate({ ...this.best.plan, ...change }, this.#options)
    const fails = result.violations.some(({ invariant }) => invariant === this.#broken)
    if (fails) this.best = result
    return fails
  }
}

/** One turn of the event loop, so that timers and I/O of the process get theirs. */
function eventLoopTurn(): Promise<void> {
  // biome-ignore lint/style/noRestrictedGlobals: a history runs in virtual time; the real event loop must go on meanwhile.
  return new Promise((resolve) => void setImmediate(resolve))
}
