import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { formatTable } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { bundle } from '../../../scripts/bundle.mjs'
import { generatePlan, type SimulationPlan } from '../../src/simulation/plan/plan.ts'
import { reportFailure, searchHistories, shrinkPlan, simulate } from '../../src/simulation/simulate.ts'

/** `proof/src/simulation.ts` plays many more. */
const histories = 120

/** Shrunk, with what they found in the parts that are not simulated. */
const foundPlans: readonly { readonly defect: string; readonly plan: SimulationPlan }[] = [
  {
    defect: 'a relay that had stopped left the timer of a renewal that was never answered',
    plan: {
      seed: 14884,
      shape: {
        orders: 1,
        billing: 0,
        relays: 3,
        order: 'none',
        hotPath: false,
        retain: false,
        batchSize: 1,
        concurrency: 1,
        inTurn: false,
        retries: false,
        skews: {},
      },
      steps: [
        { kind: 'call', at: 291, operation: 'renew', effect: 'dropReply', delay: 12_560 },
        { kind: 'call', at: 28_787, operation: 'publish', effect: 'dropRequest', delay: 3471 },
        { kind: 'send', at: 29_654, source: '/shop', id: 'c9', key: 'k1', events: 1, behaviour: 'careless' },
        { kind: 'restart', at: 36_388, slot: 'relay-3' },
      ],
    },
  },
]

/** A defect that many plans show, for what is about failures in general. */
const broken = { acksAfterCommit: false }

describe('simulated histories', () => {
  it(`break no invariant, ${histories} of them`, { timeout: 300_000 }, async () => {
    const { failure, ...totals } = await searchHistories(histories)
    expect(failure === undefined ? '' : await reportFailure(failure)).toBe('')
    expect(totals.histories).toBe(histories)
    // A simulation in which nothing is sent, or nothing goes wrong, would show nothing.
    expect(totals.commands).toBeGreaterThan(5 * histories)
    expect(totals.events).toBeGreaterThan(5 * histories)
    expect(totals.duplicates).toBeGreaterThan(histories / 20)
    const note = `${totals.commands} commands, ${totals.events} events, ${totals.duplicates} duplicates, each explained by a fault`
    const scenario = `${totals.histories} histories break no invariant`
    console.log(formatTable([{ suite: 'simulation', implementation: 'simulated system', scenario, result: 'passed', note }]))
  })

  it('are the same for the same seed, byte for byte, also after others', async () => {
    const first = await simulate(7)
    await simulate(8)
    const again = await simulate(7)
    expect(first.trace().length).toBeGreaterThan(1000)
    expect(again.trace()).toBe(first.trace())
    expect(again).toMatchObject({ steps: first.steps, duplicates: first.duplicates, plan: first.plan })
  })

  it('are the same in another process', async () => {
    const root = fileURLToPath(new URL('../../..', import.meta.url))
    const program = `${root}.cache/simulation/print-trace-${process.pid}.mjs`
    try {
      await bundle(fileURLToPath(new URL('../support/print-trace.ts', import.meta.url)), program)
      const printed = execFileSync(process.execPath, [program, '7'], { encoding: 'utf8', maxBuffer: 2 ** 26 })
      expect(printed).toBe((await simulate(7)).trace())
    } finally {
      for (const file of [program, `${program}.map`]) rmSync(file, { force: true })
    }
  })

  it.each(foundPlans)('that once found a defect break nothing any more: $defect', async ({ plan }) => {
    expect((await simulate(plan)).violations).toEqual([])
  })

  it('of different seeds are different', async () => {
    const traces = await Promise.all([1, 2, 3, 4].map(async (seed) => (await simulate(seed)).trace()))
    expect(new Set(traces).size).toBe(4)
  })

  it('do not depend on what else the process does meanwhile', async () => {
    const alone = (await simulate(11)).trace()
    const together = await Promise.all([simulate(11), simulate(12), simulate(11)])
    expect(together[0].trace()).toBe(alone)
    expect(together[2].trace()).toBe(alone)
  })
})

describe('plans', () => {
  it('follow from their seeds, and differ', () => {
    expect(generatePlan(5)).toEqual(generatePlan(5))
    expect(generatePlan(5)).not.toEqual(generatePlan(6))
  })

  it('together have every kind of fault, every effect on a call and every behaviour', () => {
    const steps = Array.from({ length: 300 }, (_, index) => generatePlan(index + 1).steps).flat()
    expect(new Set(steps.map(({ kind }) => kind))).toEqual(
      new Set(['send', 'duplicate', 'crash', 'suspend', 'restart', 'outage', 'slow', 'call', 'refuse']),
    )
    expect(new Set(steps.flatMap((step) => (step.kind === 'call' ? [step.effect] : [])))).toEqual(
      new Set(['dropRequest', 'dropReply', 'delayRequest', 'delayReply', 'suspend', 'crashBefore', 'crashAfter']),
    )
    expect(new Set(steps.flatMap((step) => (step.kind === 'send' ? [step.behaviour] : [])))).toEqual(
      new Set(['plain', 'flaky', 'eager', 'poison', 'careless', 'slow', 'unpublishable']),
    )
  })
})

describe('a history that breaks an invariant', () => {
  it('shrinks to the same plan each time, and that plan still breaks it', async () => {
    const { failure } = await searchHistories(100, { broken })
    if (failure === undefined) throw new Error('nothing was found')
    const shrunk = await shrinkPlan(failure, { broken })
    const again = await shrinkPlan(failure, { broken })
    expect(again.plan).toEqual(shrunk.plan)
    expect(shrunk.plan.steps.length).toBeLessThan(failure.plan.steps.length)
    const replayed = await simulate(shrunk.plan, { broken })
    expect(replayed.violations).toEqual(shrunk.violations)
    expect(replayed.violations[0]?.invariant).toBe('ackedAfterCommit')
    expect(replayed.trace()).toBe(shrunk.trace())
    expect((await simulate(shrunk.plan)).violations).toEqual([])
  })

  it('is reported with its seed, the invariant, the shrunk plan, its trace and the call that plays it again', async () => {
    const { failure } = await searchHistories(100, { broken })
    if (failure === undefined) throw new Error('nothing was found')
    const report = await reportFailure(failure, { broken })
    const { plan, trace } = await shrinkPlan(failure, { broken })
    expect(report).toContain(`Seed ${failure.plan.seed} breaks 'ackedAfterCommit'`)
    expect(report).toContain(trace())
    expect(report).toContain(`await simulate(${JSON.stringify(plan)}, ${JSON.stringify({ broken })})`)
    expect(report).toContain(`await simulate(${failure.plan.seed}, ${JSON.stringify({ broken })})`)
  })

  it('cannot be shrunk if it did not', async () => {
    await expect(shrinkPlan(await simulate(1))).rejects.toThrow('There is nothing to shrink')
  })
})
