import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isProof } from '../../../../../../scripts/test-depth.mjs'
import { repairLuaOutbox } from '../../../../src/outbox/lua/repair/repair.ts'
import { brokenInvariants } from '../invariants.ts'
import { LuaWorld, lease, published } from '../lua-world.ts'
import { fill, type Mess, mess, messes } from './repair-mess.ts'

const runs = isProof ? 500 : 20

it.each(['none', 'perKey'] as const)(
  'edge 22, R36: whatever was done to the keys, one pass repairs it, the next finds nothing, and no body is lost; order: %s',
  { timeout: 600_000 },
  async (order) => {
    await fc.assert(
      fc.asyncProperty(messes, (history) => play(history, order)),
      { seed: 22, numRuns: runs },
    )
  },
)

async function play(history: readonly Mess[], order: 'none' | 'perKey'): Promise<void> {
  await using world = await LuaWorld.open({ outbox: { retain: true, order } })
  await world.stopClockAt(Date.UTC(2026, 5, 1))
  await fill(world)
  for (const one of history) await mess(world, one)
  const told = JSON.stringify(history)
  const bodies = (await world.command('HKEYS', world.key('entries'))) as string[]

  const before = await world.dump()
  const dry = await repairLuaOutbox(world.store, { dryRun: true })
  expect(await world.dump(), told).toEqual(before)

  const report = await repairLuaOutbox(world.store, { batchSize: 5 })
  expect(report, told).toMatchObject({ finished: true, busy: 0, uncounted: 0 })
  expect(await brokenInvariants(world), told).toEqual([])
  const sum = (counts: object) => Object.values(counts).reduce((total, count) => total + count, 0)
  expect(sum(dry.counts) > 0, told).toBe(sum(report.counts) > 0)
  const left = new Set((await world.command('HKEYS', world.key('entries'))) as string[])
  expect(
    bodies.filter((id) => !left.has(id)),
    told,
  ).toEqual([])

  const again = await repairLuaOutbox(world.store)
  expect(sum(again.counts), told + JSON.stringify(again.counts)).toBe(0)
  expect(sum((await repairLuaOutbox(world.store, { dryRun: true })).counts), told).toBe(0)

  // Open records can be claimed and settled as if nothing had happened.
  await world.stopClockAt(Date.UTC(2026, 5, 2))
  const claimed = await world.store.claim({ limit: 1000, lease })
  expect(await world.store.settle(claimed.map(published))).toEqual(claimed.map(() => 'applied'))
  expect(await brokenInvariants(world), told).toEqual([])
}
