import { invariants, type Violation } from './invariants.ts'
import { shrinkPlan } from './shrink-plan.ts'
import type { SimulateOptions, SimulationResult } from './simulate.ts'

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
