import { checkCount } from '@ackord/core/internal'
import { checkHistory } from './check.ts'
import { type Invariant, invariants, type Violation } from './plan/invariants.ts'
import { generatePlan, type PlanStep, type SimulationPlan, type SimulationShape, slotsOf } from './plan/plan.ts'
import { type SimulationRules, simulationRules } from './plan/simulation-rules.ts'
import { SimulatedSystem } from './world/simulated-system.ts'

/** The options for playing a history. */
export interface SimulateOptions {
  /** The rules that the parts break. Default: none. */
  readonly broken?: Partial<SimulationRules> | undefined
}

/** The result of one history. */
export interface SimulationResult {
  readonly plan: SimulationPlan
  /** The violated invariants, in the order of their detection. Empty if all hold. */
  readonly violations: readonly Violation[]
  /** The number of duplicate publishes. */
  readonly duplicates: number
  readonly commands: number
  readonly events: number
  /** The number of scheduler events. */
  readonly steps: number
  /** A log of the history, line by line. The same plan always produces the same text. */
  trace(): string
}

/**
 * Plays one history in virtual time: real routers and relays on a simulated database, broker and network, with the crashes, outages, delays,
 * duplicates and lost replies of the plan. A seed determines a plan, and a plan determines the history, on every machine.
 */
export async function simulate(seedOrPlan: number | SimulationPlan, options: SimulateOptions = {}): Promise<SimulationResult> {
  const plan = typeof seedOrPlan === 'number' ? generatePlan(seedOrPlan) : seedOrPlan
  const system = new SimulatedSystem(plan, { ...simulationRules, ...options.broken })
  await system.run()
  await checkHistory(system)
  // A history never yields to the event loop itself; playing many in a row must not block everything else.
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

/** The options for playing many histories. */
export interface SearchOptions extends SimulateOptions {
  /** The first seed. Default: 1. */
  readonly from?: number | undefined
}

/** The result of a search. */
export interface SearchResult {
  readonly histories: number
  readonly commands: number
  readonly events: number
  /** The number of duplicate publishes, each explained by a fault. */
  readonly duplicates: number
  /** The first history that violated an invariant. */
  readonly failure: SimulationResult | undefined
}

/** Plays the histories of `count` consecutive seeds, up to the first that violates an invariant. */
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

/** Shrinks a history that violated an invariant, and reports everything needed to understand and replay it. */
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

/** Enough for any plan; a history takes a few milliseconds. */
const mostRuns = 500

/**
 * The smallest plan found by removing steps that still violates the invariant which the history violated first. The search uses no randomness, so
 * the same history always shrinks to the same plan.
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

  /** Removes large parts first, then smaller ones, down to single steps. */
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
      // Faults of a removed process are removed too.
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

/** Waits for one turn of the event loop, so that timers and I/O of the process can run. */
function eventLoopTurn(): Promise<void> {
  // biome-ignore lint/style/noRestrictedGlobals: a history runs in virtual time; the real event loop must keep running.
  return new Promise((resolve) => void setImmediate(resolve))
}
