import type { Invariant } from './invariants.ts'
import { type SimulateOptions, type SimulationResult, simulate } from './simulate.ts'
import { type PlanStep, type SimulationPlan, type SimulationShape, slotsOf } from './simulation-plan.ts'

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
