import { eventLoopTurn } from '../virtual-runtime.ts'
import { checkHistory } from './check-history.ts'
import { generatePlan } from './generate-plan.ts'
import type { Violation } from './invariants.ts'
import { SimulatedSystem } from './simulated-system.ts'
import type { SimulationPlan } from './simulation-plan.ts'
import { type SimulationRules, simulationRules } from './simulation-rules.ts'

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
